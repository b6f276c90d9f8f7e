//! Writes through the engine are in the bucket, whole or not at all, and are read at once.

use bytes::Bytes;
use tidegate_engine::Error;
use tidegate_origin::fake::Fault;
use tidegate_write::{Commit, OpenMode};
use tidegate_write::{WriteError, Writer};

use crate::support::engine::{self, same, sample, settle, valid};
use crate::support::spool::{Desk, FILES, PART, Terms, all, patched, put, source, until};

mod closes;
mod spool;

const KEY: &str = "folder/object";

#[tokio::test]
async fn a_small_object_is_one_request_and_is_read_at_once() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    assert_eq!(desk.world.read(KEY).await, Ok("old".into()));
    desk.write(KEY, &"new!".into()).await;
    assert_eq!(desk.bucket().writes(), ["put"]);
    assert_eq!(
        desk.world.read(KEY).await,
        Ok("new!".into()),
        "without a purge"
    );
    let (version, _) = desk.bucket().object(KEY).expect("there");
    assert_eq!(
        version.header(&http::header::CONTENT_TYPE),
        Some("text/x-test")
    );
    desk.write("empty", &Bytes::new()).await;
    assert_eq!(desk.object("empty"), Some(Bytes::new()));
    until(|| desk.writers.spooled().0 == 0 && desk.writers.pending().is_empty()).await;
}

#[tokio::test]
async fn a_large_object_goes_up_while_it_is_written() {
    let desk = Desk::plain();
    let bytes = sample(1, 20 * PART + 77);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 20).await;
    assert_eq!(desk.object(KEY), None, "not before it is whole");
    same(&all(&writer).await, &bytes);
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(KEY).expect("there"), &bytes);
    assert_eq!(desk.bucket().count("part"), 21, "no part twice");
    let heads = desk.bucket().heads();
    same(&desk.world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(desk.bucket().heads(), heads, "its version is known");
    writer.commit(Commit::Close).await.expect("free");
    assert_eq!(desk.bucket().count("complete"), 1);
}

#[tokio::test]
async fn what_is_written_again_is_sent_again() {
    let desk = Desk::plain();
    let bytes = sample(1, 10 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 10).await;
    put(&writer, 3 * PART + 5, &"patch".into()).await;
    put(&writer, 0, &"head".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&patched(&bytes, 3 * PART + 5, b"patch"), 0, b"head");
    same(&desk.object(KEY).expect("there"), &truth);
    assert_eq!(desk.bucket().count("part"), 12);
}

/// A bucket that joins parts wrongly is detected, and the draft is kept.
#[tokio::test]
async fn what_is_completed_must_have_the_length_that_was_written() {
    let desk = Desk::plain();
    let bytes = sample(1, 10 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 10).await;
    desk.bucket().set_faults([Fault::Damage]);
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(
        refused.map_err(|error| error.to_string()),
        Err("the origin's answer is wrong: the completed object has another length".to_owned())
    );
    assert_eq!(desk.bucket().count("complete"), 1);
    desk.bucket().set_faults([]);
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(KEY).expect("there"), &bytes);
    assert!(desk.bucket().uploads_under_way().is_empty());
}

#[tokio::test]
async fn a_changed_object_copies_what_is_untouched() {
    let desk = Desk::plain();
    let bytes = sample(1, 50 * PART + 10);
    desk.bucket()
        .put_with(KEY, bytes.clone(), &[("x-amz-meta-mood", "calm")]);
    let writer = desk.change(KEY).await;
    same(&all(&writer).await, &bytes);
    put(&writer, 20 * PART + 1, &"patch".into()).await;
    let end = writer.append("tail".into()).await.expect("appended");
    assert_eq!(end, 50 * PART + 10);
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&patched(&bytes, 20 * PART + 1, b"patch"), end, b"tail");
    same(&desk.object(KEY).expect("there"), &truth);
    let counts = ["part", "copy_part", "put"].map(|kind| desk.bucket().count(kind));
    assert_eq!(counts, [2, 2, 0]);
    let (version, _) = desk.bucket().object(KEY).expect("there");
    assert_eq!(
        version.header(&"x-amz-meta-mood".try_into().expect("a name")),
        Some("calm")
    );
    // The handle goes on from its published object.
    put(&writer, 0, &"again".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    same(
        &desk.object(KEY).expect("there"),
        &patched(&truth, 0, b"again"),
    );
}

#[tokio::test]
async fn holes_are_zero_and_what_is_cut_is_gone() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    put(&writer, 5 * PART, &sample(1, PART)).await;
    put(&writer, 10, &sample(2, 10)).await;
    writer.truncate(5 * PART + 100).await.expect("shorter");
    writer.truncate(8 * PART).await.expect("longer");
    let mut truth = vec![0; 8 * PART as usize];
    truth[10..20].copy_from_slice(&sample(2, 10));
    truth[5 * PART as usize..5 * PART as usize + 100].copy_from_slice(&sample(1, PART)[..100]);
    let truth = Bytes::from(truth);
    same(&all(&writer).await, &truth);
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(KEY).expect("there"), &truth);
    writer.truncate(0).await.expect("nothing");
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.object(KEY), Some(Bytes::new()));
    assert!(desk.bucket().uploads_under_way().is_empty());
}

#[tokio::test]
async fn all_handles_of_one_process_see_one_draft() {
    let desk = Desk::plain();
    let one = desk.create(KEY).await;
    put(&one, 0, &"first".into()).await;
    let two = desk.change(KEY).await;
    assert_eq!(all(&two).await, "first");
    put(&two, 5, &" second".into()).await;
    assert_eq!(all(&one).await, "first second");
    let found = desk
        .writers
        .find(source(&desk), &valid(KEY))
        .expect("being written");
    assert_eq!(all(&found).await, "first second");
    let exists = desk.open(KEY, OpenMode::CreateNew).await;
    assert_eq!(exists.err(), Some(WriteError::Exists));
    drop((one, two, found));
    desk.writers.settled().await;
    assert_eq!(
        desk.object(KEY),
        Some("first second".into()),
        "nobody had to ask"
    );
    assert!(desk.writers.find(source(&desk), &valid(KEY)).is_none());
}

#[tokio::test]
async fn the_last_of_two_that_create_wins_and_a_change_of_another_version_is_refused() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, sample(1, 3 * PART));
    let changing = desk.change(KEY).await;
    put(&changing, 0, &"mine".into()).await;
    desk.bucket().put(KEY, "theirs");
    assert_eq!(
        changing.commit(Commit::Close).await,
        Err(WriteError::Changed)
    );
    assert_eq!(desk.object(KEY), Some("theirs".into()));
    drop(changing);
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
    assert_eq!(desk.writers.spooled().0, 0);

    let created = desk.create(KEY).await;
    put(&created, 0, &"mine".into()).await;
    desk.bucket().put(KEY, "theirs again");
    created
        .commit(Commit::Close)
        .await
        .expect("the last one wins");
    assert_eq!(desk.object(KEY), Some("mine".into()));

    let new = desk
        .open("new", OpenMode::CreateNew)
        .await
        .expect("there is none");
    put(&new, 0, &"mine".into()).await;
    desk.bucket().put("new", "theirs");
    assert_eq!(new.commit(Commit::Close).await, Err(WriteError::Changed));
    let missing = desk.open("none", OpenMode::Change).await;
    assert_eq!(missing.err(), Some(WriteError::Origin(Error::NotFound)));
}

/// Commits a draft: the object is there, and nothing else of it anywhere.
async fn ends_with_nothing_left(desk: &Desk, writer: Writer, truth: &Bytes) {
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(KEY).expect("there"), truth);
    drop(writer);
    until(|| desk.bucket().keys() == [KEY]).await;
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
    until(|| desk.writers.spooled().0 == 0).await;
}

/// A write that continues the last one, and does not begin with a whole block, waits only if a wait is needed.
#[tokio::test(start_paused = true)]
async fn what_goes_on_is_written_at_once() {
    const MIB: u64 = 1 << 20;
    let desk = Desk::new(Terms {
        part: 4 * MIB,
        size: 8 * MIB,
        ..Terms::default()
    });
    let bytes = sample(1, 7 * MIB + MIB / 2);
    let piece = |start: u64, end: u64| bytes.slice(start as usize..end as usize);
    let writer = desk.create(KEY).await;
    assert!(!writer.write_now(0, &piece(0, 100)), "there is no file yet");
    assert_eq!(writer.size(), 0);
    put(&writer, 0, &piece(0, 100)).await;
    assert!(writer.write_now(100, &piece(100, 8192)));
    let mut at = 8192;
    while at < bytes.len() as u64 {
        let end = (at + MIB).min(bytes.len() as u64);
        // The disk may be slow, and the first block measures how it takes them.
        if !writer.write_now(at, &piece(at, end)) {
            put(&writer, at, &piece(at, end)).await;
        }
        at = end;
    }
    assert!(!writer.write_now(8 * MIB, &[1; 100]), "it does not go on");
    assert!(!writer.write_now(at, &[1; 1 << 20]), "there is no room");
    assert_eq!(desk.writers.spooled().0, bytes.len() as u64 + FILES);
    same(&all(&writer).await, &bytes);
    until(|| desk.bucket().count("part") == 1).await;
    desk.bucket().fail_next([Fault::Latency(engine::secs(1))]);
    let meanwhile = async {
        settle().await;
        assert!(!writer.write_now(at, b"x"), "it is being published");
    };
    let (closed, ()) = tokio::join!(writer.commit(Commit::Close), meanwhile);
    closed.expect("complete");
    ends_with_nothing_left(&desk, writer, &bytes).await;
}

#[tokio::test]
async fn a_deleted_object_stays_deleted_and_a_renamed_one_goes_on_under_its_new_name() {
    let desk = Desk::plain();
    let (from, to) = (valid("from"), valid("deep/to"));
    let writer = desk.create("from").await;
    put(&writer, 0, &"bytes".into()).await;
    desk.bucket().put("deep/to", "replaced");
    desk.writers
        .rename(source(&desk), &from, &to)
        .await
        .expect("renamed");
    assert_eq!(desk.bucket().keys(), ["deep/to"]);
    assert_eq!(desk.world.read("from").await, Err(Error::NotFound));
    assert_eq!(desk.world.read("deep/to").await, Ok("bytes".into()));
    put(&writer, 5, &" and more".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.object("deep/to"), Some("bytes and more".into()));
    put(&writer, 0, &"never".into()).await;
    desk.writers
        .remove(source(&desk), &to)
        .await
        .expect("deleted");
    assert_eq!(desk.world.read("deep/to").await, Err(Error::NotFound));
    put(&writer, 0, &"into the void".into()).await;
    writer
        .commit(Commit::Close)
        .await
        .expect("of no consequence");
    drop(writer);
    settle().await;
    assert!(desk.bucket().keys().is_empty());
    desk.writers
        .make_folder(source(&desk), &valid("new/"), None)
        .await
        .expect("made");
    assert_eq!(desk.bucket().keys(), ["new/"]);
}

#[tokio::test(start_paused = true)]
async fn what_goes_up_in_one_request_is_seen_to_move() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    put(&writer, 0, &sample(1, PART)).await;
    let mut progress = writer.progress();
    progress.mark_unchanged();
    writer.publish().await.expect("published");
    assert!(progress.has_changed().expect("it lives"));
}
