//! Answers, uploads and parts that are lost: the draft is in the bucket in the end, once, and its writer gets no report
//! of another writer.

use bytes::Bytes;
use tidegate_origin::fake::Fault;
use tidegate_plan::attributes::UID_HEADER;
use tidegate_write::{Commit, OpenMode, Stage};

use crate::support::engine::{self, same, sample, settle, valid};
use crate::support::spool::{Desk, PART, Terms, all, down, patched, put, set_owner, source, until};

mod equal;
mod others;
mod renames;
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
