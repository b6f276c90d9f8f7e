//! Answers, uploads and parts that are lost: the draft is in the bucket in the end, once, and its writer gets no report
//! of another writer.

use std::time::Duration;

use bytes::Bytes;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::attributes::UID_HEADER;
use tidegate_write::WriteError;
use tidegate_write::{Commit, OpenMode, Stage};

use crate::support::engine::{self, same, sample, settle, valid};
use crate::support::spool::{Desk, PART, Terms, all, down, patched, put, set_owner, source, until};

mod equal;
mod uploads;

const KEY: &str = "folder/object";

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_found_out() {
    let desk = Desk::plain();
    for (key, how) in [("a", OpenMode::Create), ("b", OpenMode::CreateNew)] {
        let bytes = sample(1, 3 * PART);
        let writer = desk.open(key, how).await.expect("opened");
        put(&writer, 0, &bytes).await;
        until(|| desk.bucket().count("part").is_multiple_of(3)).await;
        settle().await;
        desk.bucket().fail_next([Fault::LoseAnswer]);
        writer.commit(Commit::Close).await.expect("it is there");
        same(&desk.object(key).expect("there"), &bytes);
    }
    let small = desk.open("c", OpenMode::CreateNew).await.expect("opened");
    put(&small, 0, &"small".into()).await;
    desk.bucket().fail_next([Fault::LoseAnswer]);
    small.commit(Commit::Close).await.expect("it is there");
    assert_eq!(desk.object("c"), Some("small".into()));
}

#[tokio::test(start_paused = true)]
async fn what_may_be_there_already_is_ours_and_is_not_refused() {
    for (how, more) in [
        (OpenMode::CreateNew, false),
        (OpenMode::CreateNew, true),
        (OpenMode::Change, false),
        (OpenMode::Change, true),
    ] {
        let desk = Desk::plain();
        let mut truth = Bytes::new();
        if how == OpenMode::Change {
            truth = sample(1, PART / 2);
            desk.bucket().put(KEY, truth.clone());
        }
        let writer = desk.open(KEY, how).await.expect("opened");
        same(&all(&writer).await, &truth);
        put(&writer, 0, &"patch".into()).await;
        truth = patched(&truth, 0, b"patch");
        desk.lose_the_answer(&writer).await;
        same(&desk.object(KEY).expect("there"), &truth);
        if more {
            // The second try is not answered either, so the bucket is asked.
            desk.bucket().fail_next([]);
            desk.bucket().set_faults([down()]);
            let unknown = writer.commit(Commit::Close).await;
            assert!(unknown.expect_err("the bucket is down").is_passing());
            desk.bucket().set_faults([]);
            put(&writer, 1, &"PATCH".into()).await;
            truth = patched(&truth, 1, b"PATCH");
        }
        writer.commit(Commit::Close).await.expect("it is ours");
        same(&desk.object(KEY).expect("there"), &truth);
    }
}

/// The tag alone would prove nothing: another writer wrote the same bytes.
#[tokio::test(start_paused = true)]
async fn what_another_client_made_first_is_refused() {
    let desk = Desk::plain();
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"lock".into()).await;
    desk.bucket().put(KEY, "lock");
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
}

/// Neither a throttle nor a refusal without an answer makes another writer's equal object ours.
#[tokio::test(start_paused = true)]
async fn of_two_that_make_the_same_object_one_is_first() {
    let throttled = OriginError::Throttled { retry_after: None };
    for fault in [Fault::Refuse(throttled), Fault::LoseRefusal] {
        let desk = Desk::plain();
        let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
        put(&writer, 0, &"lock".into()).await;
        desk.bucket().put(KEY, "lock");
        desk.bucket().fail_next([fault.clone()]);
        writer.commit(Commit::Close).await.expect_err("another's");
        let refused = writer.commit(Commit::Close).await;
        assert_eq!(refused, Err(WriteError::Changed), "{fault:?}");
    }
}

/// A try without an answer, about which the bucket cannot be asked, makes it no more ours.
#[tokio::test(start_paused = true)]
async fn of_two_that_make_the_same_object_one_is_first_also_after_a_try_that_nothing_is_known_of() {
    let desk = Desk::plain();
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    set_owner(&writer, 7).await;
    put(&writer, 0, &"lock".into()).await;
    desk.fails(&writer).await;
    let uid = UID_HEADER;
    desk.bucket().put_with(KEY, "lock", &[(uid.as_str(), "8")]);
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
}

/// The store adds a header. Whether it is asked at once or at the next try, the metadata tells that the object is ours.
#[tokio::test(start_paused = true)]
async fn a_store_that_adds_a_header_refuses_no_object_that_is_ours() {
    let uid = UID_HEADER;
    for is_asked in [true, false] {
        let desk = Desk::plain();
        let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
        set_owner(&writer, 7).await;
        put(&writer, 0, &"lock".into()).await;
        let headers = [(uid.as_str(), "7"), ("cache-control", "max-age=60")];
        let committed = match is_asked {
            true => {
                desk.bucket().fail_next([Fault::LoseAnswer]);
                desk.bucket().fail_next([Fault::Latency(engine::secs(1))]);
                let commit = writer.commit(Commit::Close);
                let add = async {
                    until(|| desk.object(KEY).is_some()).await;
                    desk.bucket().mend(KEY, &headers);
                };
                tokio::join!(commit, add).0
            }
            false => {
                desk.lose_the_answer(&writer).await;
                desk.bucket().mend(KEY, &headers);
                writer.commit(Commit::Close).await
            }
        };
        assert_eq!(committed, Ok(()), "asked: {is_asked}");
    }
}

/// Another writer has replaced the object, and gave it the same headers.
#[tokio::test(start_paused = true)]
async fn what_another_client_made_in_place_of_a_copy_is_not_taken_for_it() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old!");
    let writer = desk.change(KEY).await;
    set_owner(&writer, 7).await;
    let uid = UID_HEADER;
    desk.bucket().put_with(KEY, "new!", &[(uid.as_str(), "7")]);
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
    assert_eq!(desk.object(KEY), Some("new!".into()));
}

/// A draft that is held open, and is completely in the bucket, does not preserve its object there.
#[tokio::test(start_paused = true)]
async fn what_another_client_deleted_can_be_made_anew() {
    let desk = Desk::plain();
    desk.write(KEY, &"before".into()).await;
    let held = desk.change(KEY).await;
    let there = desk.open(KEY, OpenMode::CreateNew).await.map(drop);
    assert_eq!(there, Err(WriteError::Exists));
    desk.bucket().delete(KEY);
    desk.world.purge(KEY).await;
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    let again = desk.open(KEY, OpenMode::CreateNew).await.map(drop);
    assert_eq!(again, Err(WriteError::Exists), "it is being written");
    put(&writer, 0, &"after".into()).await;
    writer.commit(Commit::Close).await.expect("it is new");
    drop(held);
    same(&desk.object(KEY).expect("there"), &"after".into());
}

#[tokio::test(start_paused = true)]
async fn headers_that_were_set_are_not_refused() {
    let desk = Desk::plain();
    let bytes = sample(1, 5 * PART);
    // As in S3, a copy has another tag than an object that was made of parts.
    desk.write(KEY, &bytes).await;
    let writer = desk.change(KEY).await;
    set_owner(&writer, 7).await;
    desk.lose_the_answer(&writer).await;
    writer.commit(Commit::Close).await.expect("it is ours");
    let (version, found) = desk.bucket().object(KEY).expect("there");
    same(&found, &bytes);
    assert_eq!(version.header(&UID_HEADER), Some("7"));
}

/// The process ends before it gets the answer, or before it can record it.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_process_wrote_is_not_refused() {
    for length in [PART / 2, 5 * PART] {
        let desk = Desk::new(Terms::background());
        let bytes = sample(1, length);
        let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
        put(&writer, 0, &bytes).await;
        if length > PART {
            until(|| desk.bucket().count("part") == 5).await;
            settle().await;
        }
        desk.bucket().fail_next([Fault::LoseAnswer]);
        desk.bucket().set_faults([down()]);
        writer.commit(Commit::Background).await.expect("durable");
        until(|| desk.object(KEY).is_some()).await;
        let waiting = || desk.writers.pending()[0].stage == Stage::Waiting;
        until(waiting).await;
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        assert!(again.writers.pending().is_empty(), "refused");
        same(&again.object(KEY).expect("there"), &bytes);
    }
}

/// The earlier promise is not the completed object, and does not come back over it.
#[tokio::test(start_paused = true)]
async fn what_was_written_after_a_sync_and_completed_stays() {
    let desk = Desk::plain();
    let bytes = sample(1, 5 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes.slice(..2 * PART as usize)).await;
    writer.sync().await.expect("durable");
    put(&writer, 2 * PART, &bytes.slice(2 * PART as usize..)).await;
    until(|| desk.bucket().count("part") == 5).await;
    desk.lose_the_answer(&writer).await;
    let again = desk.switched_off([writer], &Terms::default()).await;
    again.writers.settled().await;
    same(&again.object(KEY).expect("there"), &bytes);
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_does_not_come_back_when_it_is_synced() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"before".into()).await;
    let key = valid(KEY);
    let removed = desk.writers.remove(source(&desk), &key).await;
    removed.expect("removed");
    put(&writer, 0, &"after".into()).await;
    writer.sync().await.expect("nothing to do");
    let again = desk.switched_off([writer], &Terms::default()).await;
    again.writers.settled().await;
    assert_eq!(again.object(KEY), None);
}

/// A writer that opens the object while it is being deleted makes a new one.
#[tokio::test(start_paused = true)]
async fn what_is_opened_to_be_replaced_while_it_is_deleted_is_not_lost() {
    let desk = Desk::plain();
    let held = desk.create(KEY).await;
    put(&held, 0, &"before".into()).await;
    desk.bucket().fail_next([Fault::Latency(engine::secs(1))]);
    let key = valid(KEY);
    let remove = desk.writers.remove(source(&desk), &key);
    let replace = async {
        until(|| desk.bucket().count("delete") == 1).await;
        let writer = desk.open(KEY, OpenMode::Create).await.expect("opened");
        put(&writer, 0, &"after".into()).await;
        writer.commit(Commit::Close).await
    };
    let (removed, replaced) = tokio::join!(remove, replace);
    assert_eq!((removed, replaced), (Ok(()), Ok(())));
    same(&desk.object(KEY).expect("there"), &"after".into());
    drop(held);
}

/// Headers that were set after parts were uploaded are the object's after a restart, too.
#[tokio::test(start_paused = true)]
async fn headers_outlive_a_restart() {
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 5 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 5).await;
    settle().await;
    set_owner(&writer, 7).await;
    desk.bucket().set_faults([down()]);
    writer.commit(Commit::Background).await.expect("durable");
    let again = desk.switched_off([writer], &Terms::background()).await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    let (version, found) = again.bucket().object(KEY).expect("there");
    same(&found, &bytes);
    assert_eq!(version.header(&UID_HEADER), Some("7"));
}

/// A handle goes on under the new key, for which the old key's version has no meaning.
#[tokio::test(start_paused = true)]
async fn a_renamed_object_of_a_bucket_that_keeps_versions_can_be_changed() {
    let desk = Desk::plain();
    let _ = desk.bucket().clone().with_versions();
    let bytes = sample(1, PART / 2);
    desk.bucket().put(KEY, bytes.clone());
    let writer = desk.change(KEY).await;
    let (from, to) = (valid(KEY), valid("folder/other"));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    same(&all(&writer).await, &bytes);
    put(&writer, 3, &"patch".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&bytes, 3, b"patch");
    same(&desk.object("folder/other").expect("there"), &truth);
}

/// A rename that must not replace is not sent twice. The copy whose answer was lost is found under the new key, which was free.
#[tokio::test(start_paused = true)]
async fn a_rename_that_replaces_nothing_finds_its_copy() {
    let uid = UID_HEADER;
    for (is_theirs, fault) in [(false, Fault::LoseAnswer), (true, down()), (false, down())] {
        let desk = Desk::plain();
        desk.bucket().put_with(KEY, "old", &[(uid.as_str(), "7")]);
        let (from, to) = (valid(KEY), valid("folder/other"));
        // Both keys are looked at; then the object is copied.
        for faults in [
            vec![],
            vec![],
            vec![Fault::Latency(engine::secs(1)), fault.clone()],
        ] {
            desk.bucket().fail_next(faults);
        }
        let rename = desk.writers.rename_over(source(&desk), &from, &to, true);
        let meanwhile = async {
            until(|| desk.bucket().count("copy") == 1).await;
            if is_theirs {
                let theirs = [(uid.as_str(), "8")];
                desk.bucket().put_with("folder/other", "old", &theirs);
            }
        };
        let (renamed, ()) = tokio::join!(rename, meanwhile);
        let is_made = fault == Fault::LoseAnswer;
        assert_eq!(renamed.is_ok(), is_made, "{fault:?} {is_theirs}");
        assert_eq!(desk.object(KEY).is_some(), !is_made);
        let is_there = desk.object("folder/other").is_some();
        assert_eq!(is_there, is_made || is_theirs);
    }
}

/// An object written under the old key during the rename is not deleted with it.
#[tokio::test(start_paused = true)]
async fn what_is_written_while_it_is_renamed_stays() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    let (from, to) = (valid(KEY), valid("folder/other"));
    // The source is looked at and copied; then the answer to the copy comes late.
    for faults in [vec![], vec![], vec![Fault::Latency(engine::secs(1))]] {
        desk.bucket().fail_next(faults);
    }
    let renamed = desk.writers.rename(source(&desk), &from, &to);
    let meanwhile = async {
        until(|| desk.object("folder/other").is_some()).await;
        desk.bucket().put(KEY, "new");
    };
    let (renamed, ()) = tokio::join!(renamed, meanwhile);
    assert_eq!(renamed, Err(WriteError::Changed));
    assert_eq!(desk.object(KEY), Some("new".into()));
    assert_eq!(desk.object("folder/other"), Some("old".into()));
}

/// Tags without meaning (KMS): the earlier object, of the same length and number of parts, is not the draft.
#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_not_taken_for_ours() {
    for carried_out in [false, true] {
        let desk = Desk::plain();
        desk.bucket().hide_tags();
        desk.write(KEY, &sample(1, 3 * PART)).await;
        let bytes = sample(2, 3 * PART);
        let writer = desk.create(KEY).await;
        put(&writer, 0, &bytes).await;
        until(|| desk.bucket().count("part") == 6).await;
        settle().await;
        // The look at the present object, and the completion.
        desk.bucket().fail_next([]);
        desk.bucket().fail_next([match carried_out {
            true => Fault::LoseAnswer,
            false => down(),
        }]);
        let committed = writer.commit(Commit::Close).await;
        assert_eq!(committed.is_ok(), carried_out, "{committed:?}");
        writer.commit(Commit::Close).await.expect("it is there now");
        same(&desk.object(KEY).expect("there"), &bytes);
    }
}

/// The same after a crash in the middle of the commit.
#[tokio::test(start_paused = true)]
async fn what_was_there_before_is_not_taken_for_ours_by_the_next_process() {
    let terms = Terms::background();
    let desk = Desk::new(Terms::background());
    desk.bucket().hide_tags();
    // So large that parts are sent before the close.
    desk.write(KEY, &sample(1, 5 * PART)).await;
    desk.writers.settled().await;
    let bytes = sample(2, 5 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 10).await;
    settle().await;
    writer.sync().await.expect("durable");
    // The look at the present object, and then only the refusal of the completion.
    desk.bucket().fail_next([]);
    desk.bucket().set_faults([down()]);
    let failed = writer.commit(Commit::Close).await;
    assert!(failed.expect_err("nobody answers").is_passing());
    let again = desk.switched_off([writer], &terms).await;
    // Nor at the next try.
    again.bucket().fail_next([down()]);
    again.bucket().set_faults([]);
    let settled = tokio::time::timeout(engine::secs(3600), again.writers.settled());
    settled.await.expect("it is completed");
    same(&again.object(KEY).expect("there"), &bytes);
}

/// A program that goes on writing to a file does not block its rename.
#[tokio::test(start_paused = true)]
async fn what_is_written_without_end_can_be_renamed() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"begun".into()).await;
    // Of a file that is in the bucket already.
    writer.commit(Commit::Close).await.expect("committed");
    put(&writer, 0, &"on and on".into()).await;
    let latency = Duration::from_millis(100);
    desk.bucket().set_faults([Fault::Latency(latency)]);
    let writes = async {
        loop {
            put(&writer, 0, &"on and on".into()).await;
            tokio::time::sleep(latency / 10).await;
        }
    };
    let (from, to) = (valid(KEY), valid("folder/other"));
    let renamed = tokio::select! {
        renamed = desk.writers.rename(source(&desk), &from, &to) => renamed,
        () = writes => unreachable!("it has no end"),
        () = tokio::time::sleep(engine::secs(60)) => panic!("it takes too long"),
    };
    renamed.expect("renamed");
    assert_eq!(desk.object(KEY), None);
    assert_eq!(desk.object("folder/other"), Some("on and on".into()));
}
