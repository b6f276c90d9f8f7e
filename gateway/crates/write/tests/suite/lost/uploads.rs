//! Uploads and parts that are lost, and stores that refuse them.

use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_write::WriteError;
use tidegate_write::{Commit, OpenMode, Stage};

use super::KEY;
use crate::support::engine::{same, sample, secs, settle, valid};
use crate::support::spool::{Desk, PART, Terms, all, down, patched, put, source, until};

#[tokio::test(start_paused = true)]
async fn an_object_with_copied_parts_is_completed_once() {
    let desk = Desk::plain();
    let bytes = sample(1, 50 * PART);
    desk.bucket().put(KEY, bytes.clone());
    let writer = desk.change(KEY).await;
    put(&writer, 20 * PART, &sample(2, PART)).await;
    until(|| desk.bucket().count("part") == 1).await;
    // Two copies and the completion.
    for _ in 0..2 {
        desk.bucket().fail_next([]);
    }
    desk.lose_the_answer(&writer).await;
    let truth = patched(&bytes, 20 * PART, &sample(2, PART));
    same(&desk.object(KEY).expect("there"), &truth);
    writer.commit(Commit::Close).await.expect("it is ours");
    same(&desk.object(KEY).expect("there"), &truth);
    assert_eq!(desk.bucket().count("begin"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_was_given_up_is_begun_anew() {
    let desk = Desk::plain();
    let bytes = sample(1, 5 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 5).await;
    let origin = &source(&desk).origin;
    let uploads = origin.writing().uploads(&valid(KEY)).await.expect("a list");
    origin.writing().abort(&uploads[0]).await.expect("gone");
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(KEY).expect("there"), &bytes);
}

/// If the bytes were nowhere else, writes and syncs fail, and not only the close.
#[tokio::test(start_paused = true)]
async fn an_upload_that_is_gone_with_its_bytes_fails_writes_and_syncs() {
    let desk = Desk::new(Terms {
        size: 15 * PART,
        ..Terms::default()
    });
    let writer = desk.create(KEY).await;
    put(&writer, 0, &sample(1, 40 * PART)).await;
    let origin = &source(&desk).origin;
    let uploads = origin.writing().uploads(&valid(KEY)).await.expect("a list");
    origin.writing().abort(&uploads[0]).await.expect("gone");
    let mut at = 40 * PART;
    let told = loop {
        match writer.write_at(at, sample(2, PART)).await {
            Ok(()) => at += PART,
            Err(error) => break error,
        }
        settle().await;
        assert!(at < 60 * PART, "no write was told of the loss");
    };
    assert_eq!(told, WriteError::Lost);
    assert_eq!(writer.sync().await, Err(WriteError::Lost));
    assert_eq!(writer.commit(Commit::Close).await, Err(WriteError::Lost));
}

/// R2: a range that was copied as one is then copied part by part.
#[tokio::test(start_paused = true)]
async fn a_store_that_wants_equal_parts_gets_them() {
    let desk = Desk::plain();
    desk.bucket().want_equal_parts();
    let bytes = sample(1, 50 * PART + 10);
    desk.bucket().put(KEY, bytes.clone());
    let writer = desk.change(KEY).await;
    put(&writer, 20 * PART + 5, &"patch".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&bytes, 20 * PART + 5, b"patch");
    same(&desk.object(KEY).expect("there"), &truth);
    assert_eq!(desk.bucket().count("complete"), 2);
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
}

/// A request that the store does not support is refused for good, with advice for the operator. So is an object of a key,
/// headers or a size that it does not take. What may be mended elsewhere is tried again.
#[tokio::test(start_paused = true)]
async fn what_the_store_does_not_know_is_not_tried_for_ever() {
    use OriginError::{
        BadAnswer, Forbidden, HeadersTooLarge, KeyRefused, ObjectTooLarge, StorageFull, Unsupported,
    };
    for (error, expected) in [
        (Unsupported, Stage::Refused),
        (KeyRefused, Stage::Refused),
        (HeadersTooLarge, Stage::Refused),
        (ObjectTooLarge, Stage::Refused),
        (BadAnswer("unexpected status"), Stage::Waiting),
        (Forbidden, Stage::Waiting),
        (StorageFull, Stage::Waiting),
    ] {
        let desk = Desk::new(Terms::background());
        desk.bucket().set_faults([Fault::Refuse(error.clone())]);
        let writer = desk.create(KEY).await;
        put(&writer, 0, &"bytes".into()).await;
        writer.commit(Commit::Background).await.expect("durable");
        until(|| desk.writers.pending()[0].trouble.is_some()).await;
        let pending = &desk.writers.pending()[0];
        assert_eq!(pending.trouble, Some(WriteError::from(error)));
        assert_eq!(pending.stage, expected, "{:?}", pending.trouble);
    }
}

/// A store that refuses the condition of a new object (501) gets what `>>` and `touch` make without it, if it has no object
/// there. `O_EXCL` needs the condition.
#[tokio::test(start_paused = true)]
async fn a_new_object_needs_no_condition_that_the_store_does_not_know() {
    let missing = OpenMode::CreateMissing;
    for (how, theirs, length, expected) in [
        (missing, false, PART / 2, Ok(())),
        (missing, false, 3 * PART, Ok(())),
        (missing, true, PART / 2, Err(WriteError::Changed)),
        (missing, true, 3 * PART, Err(WriteError::Changed)),
        (
            OpenMode::CreateNew,
            false,
            PART / 2,
            Err(WriteError::Unsupported),
        ),
        (
            OpenMode::CreateNew,
            false,
            3 * PART,
            Err(WriteError::Unsupported),
        ),
    ] {
        let desk = Desk::plain();
        desk.bucket().set_faults([Fault::RefuseConditions]);
        let bytes = sample(1, length);
        let writer = desk.open(KEY, how).await.expect("opened");
        put(&writer, 0, &bytes).await;
        if theirs {
            desk.bucket().put(KEY, "theirs");
        }
        let committed = writer.commit(Commit::Close).await;
        assert_eq!(committed, expected, "{how:?} {theirs} {length}");
        let there = match (theirs, expected) {
            (true, _) => Some("theirs".into()),
            (false, Ok(())) => Some(bytes),
            (false, Err(_)) => None,
        };
        assert_eq!(desk.object(KEY), there, "{how:?} {theirs} {length}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_needs_none_after_a_restart_either() {
    let desk = Desk::new(Terms::background());
    let writer = desk.open(KEY, OpenMode::CreateMissing).await;
    let writer = writer.expect("opened");
    put(&writer, 0, &"bytes".into()).await;
    desk.bucket().set_faults([down()]);
    writer.commit(Commit::Background).await.expect("durable");
    let again = desk.switched_off([writer], &Terms::background()).await;
    again.bucket().set_faults([Fault::RefuseConditions]);
    again.writers.settled().await;
    assert_eq!(again.object(KEY), Some("bytes".into()));
}

/// A bucket without room is reported at once; the draft stays, and is uploaded once there is room.
#[tokio::test(start_paused = true)]
async fn what_the_store_has_no_room_for_is_told_and_kept() {
    for length in [1000, 3 * PART] {
        let desk = Desk::plain();
        let bytes = sample(1, length);
        let writer = desk.create(KEY).await;
        desk.bucket()
            .set_faults([Fault::Refuse(OriginError::StorageFull)]);
        put(&writer, 0, &bytes).await;
        let refused = writer.commit(Commit::Close).await;
        assert_eq!(refused, Err(WriteError::StorageFull));
        same(&all(&writer).await, &bytes);
        drop(writer);
        until(|| desk.writers.pending()[0].stage == Stage::Waiting).await;
        settle().await;
        // There may be room when another process runs.
        let bucket = desk.bucket().clone();
        let again = desk.switched_off([], &Terms::default()).await;
        bucket.set_faults([]);
        again.writers.settled().await;
        same(&again.object(KEY).expect("there"), &bytes);
    }
}

/// A copy in parts fails, and the bucket is down when its upload is to be aborted; or its caller gives up.
#[tokio::test(start_paused = true)]
async fn the_upload_of_a_copy_that_fails_does_not_stay() {
    for is_given_up in [false, true] {
        let desk = Desk::new(Terms {
            max_copy: 2 * PART,
            ..Terms::default()
        });
        desk.bucket().put(KEY, sample(1, 5 * PART));
        let (from, to) = (valid(KEY), valid("folder/other"));
        let rename = desk.writers.rename(source(&desk), &from, &to);
        match is_given_up {
            false => {
                let refused = Fault::Refuse(OriginError::Forbidden);
                desk.bucket().fail_from("complete", [refused], [down()]);
                rename.await.expect_err("it is refused");
            }
            true => {
                let late = [Fault::Latency(secs(5))];
                desk.bucket().fail_from("complete", late, [down()]);
                let given_up = tokio::time::timeout(secs(1), rename).await;
                given_up.expect_err("it takes longer");
            }
        }
        until(|| desk.bucket().count("abort") > 1).await;
        assert_eq!(desk.bucket().uploads_under_way().len(), 1);
        desk.bucket().set_faults([]);
        until(|| desk.bucket().uploads_under_way().is_empty()).await;
        assert!(desk.object(KEY).is_some());
    }
}

/// Parts under way when an upload is aborted may arrive afterwards; they do not stay.
#[tokio::test(start_paused = true)]
async fn what_arrives_after_an_upload_was_given_up_does_not_stay() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    desk.bucket().set_faults([Fault::Rate(PART / 10)]);
    put(&writer, 0, &sample(1, 3 * PART)).await;
    until(|| desk.bucket().count("part") == 3).await;
    desk.bucket().set_faults([]);
    let removed = desk.writers.remove(source(&desk), &valid(KEY)).await;
    removed.expect("removed");
    drop(writer);
    until(|| desk.bucket().count("abort") == 2).await;
    assert!(desk.bucket().uploads_under_way().is_empty());
}
