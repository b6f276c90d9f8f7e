//! Drafts that begin as copies of other objects: the store copies the bytes, or they come from the cache, and never
//! are they others.

use bytes::Bytes;
use futures_util::StreamExt as _;
use tidegate_engine::{Object, OpenOptions};
use tidegate_plan::ByteRange;
use tidegate_write::{Commit, OpenMode, WriteError, Writer};

use crate::support::engine::{same, sample, valid};
use crate::support::spool::{Desk, PART, Terms, all, down, patched, source, until};

mod model;

const FROM: &str = "folder/from";
const TO: &str = "folder/to";

async fn opened(desk: &Desk, key: &str) -> Object {
    let engine = &desk.world.engine;
    let opened = engine
        .open(source(desk), &valid(key), OpenOptions::default())
        .await;
    opened.expect("it is there")
}

async fn copy(writer: &Writer, from: &Object, start: u64, end: u64) -> bool {
    let copied = writer
        .copy_published(from, ByteRange::new(start, end))
        .await;
    copied.expect("no error")
}

/// Puts an object past the gateway, so that nothing of it is cached.
fn foreign(desk: &Desk, key: &str, bytes: &Bytes) {
    desk.bucket().put(key, bytes.clone());
}

/// Returns the bytes that went to the bucket, or came from it.
fn moved(desk: &Desk) -> u64 {
    desk.bucket().bytes() + desk.bucket().arrived()
}

#[tokio::test(start_paused = true)]
async fn no_byte_crosses_the_network() {
    for (how, size) in [
        (OpenMode::Create, 40 * PART),
        (OpenMode::CreateNew, 40 * PART + 7),
    ] {
        for commit in [Commit::Close, Commit::Background] {
            let desk = Desk::plain();
            let bytes = sample(size, size);
            foreign(&desk, FROM, &bytes);
            let from = opened(&desk, FROM).await;
            let writer = desk.open(TO, how).await.expect("opened");
            let before = moved(&desk);
            // As cp calls it: in steps, at growing offsets.
            for start in (0..size).step_by(16 * PART as usize) {
                assert!(copy(&writer, &from, start, size.min(start + 16 * PART)).await);
            }
            assert_eq!(writer.size(), size);
            writer.commit(commit).await.expect("committed");
            same(&desk.object(TO).expect("there"), &bytes);
            assert_eq!(moved(&desk), before, "{how:?}");
            assert_eq!(desk.writers.spooled().0, 0);
            let (version, _) = desk.bucket().object(TO).expect("there");
            let kind = version.header(&http::header::CONTENT_TYPE);
            assert_eq!(kind, Some("text/x-test"));
        }
    }
}

/// A file below 1 MiB, which `cp` makes as one that must be new. Its bytes are sent from the cache, or copied by the store.
#[tokio::test(start_paused = true)]
async fn no_byte_of_a_small_copy_crosses_the_network_twice() {
    for size in [1, PART - 1, 20 * PART] {
        for commit in [Commit::Close, Commit::Background] {
            for is_cached in [false, true] {
                let desk = Desk::plain();
                let bytes = sample(size, size);
                foreign(&desk, FROM, &bytes);
                let from = opened(&desk, FROM).await;
                let range = ByteRange::new(0, size);
                if is_cached {
                    let read: Vec<_> = from.read_at(range).collect().await;
                    assert!(read.iter().all(Result::is_ok));
                }
                let writer = desk.open(TO, OpenMode::CreateNew).await.expect("opened");
                let before = moved(&desk);
                assert!(copy(&writer, &from, 0, size).await);
                writer.commit(commit).await.expect("committed");
                desk.writers.settled().await;
                same(&desk.object(TO).expect("there"), &bytes);
                let sent = if is_cached && size < PART { size } else { 0 };
                assert_eq!(moved(&desk) - before, sent, "{size} {commit:?} {is_cached}");
            }
        }
    }
}

/// A store copies a range of no object of 5 MiB or less (`x-amz-copy-source-range`), but such an object as a whole.
#[tokio::test(start_paused = true)]
async fn a_part_of_a_small_object_is_sent() {
    let desk = Desk::plain();
    let bytes = sample(1, PART);
    foreign(&desk, FROM, &bytes);
    let from = opened(&desk, FROM).await;
    let writer = desk.open(TO, OpenMode::CreateNew).await.expect("opened");
    assert!(copy(&writer, &from, 0, PART - 1).await);
    writer.commit(Commit::Close).await.expect("committed");
    same(
        &desk.object(TO).expect("there"),
        &bytes.slice(..PART as usize - 1),
    );
    assert_eq!(desk.bucket().writes(), ["put"]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_copied_is_said_to_be() {
    let desk = Desk::plain();
    let bytes = sample(1, 10 * PART);
    foreign(&desk, FROM, &bytes);
    foreign(&desk, "other", &bytes);
    let (from, other) = (opened(&desk, FROM).await, opened(&desk, "other").await);
    let writer = desk.create(TO).await;
    assert!(!copy(&writer, &from, PART, 2 * PART).await, "other offsets");
    assert!(copy(&writer, &from, 0, PART).await);
    assert!(
        !copy(&writer, &other, PART, 2 * PART).await,
        "another object"
    );
    assert!(!copy(&writer, &from, 3 * PART, 4 * PART).await, "a gap");
    assert!(!copy(&writer, &from, 0, PART).await, "it has these");
    assert!(
        !copy(&writer, &from, PART, 11 * PART).await,
        "beyond its end"
    );
    assert!(copy(&writer, &from, PART, 2 * PART).await);
    writer.sync().await.expect("durable");
    assert!(!copy(&writer, &from, 2 * PART, 3 * PART).await, "promised");
    writer.commit(Commit::Close).await.expect("committed");
    same(
        &desk.object(TO).expect("there"),
        &bytes.slice(..2 * PART as usize),
    );
    let own = opened(&desk, TO).await;
    let writer = desk.create(TO).await;
    assert!(!copy(&writer, &own, 0, PART).await, "onto itself");
}

/// A change of the source, here or elsewhere, before the copy is published.
#[tokio::test(start_paused = true)]
async fn a_source_that_changes_gives_its_old_bytes_or_an_error() {
    for seed in 0..24 {
        println!("seed {seed}");
        let desk = Desk::plain();
        let bytes = sample(seed, 30 * PART);
        foreign(&desk, FROM, &bytes);
        let from = opened(&desk, FROM).await;
        let writer = desk.create(TO).await;
        assert!(copy(&writer, &from, 0, 30 * PART).await);
        let patch = sample(9, 3 * PART);
        writer
            .write_at(7 * PART + 5, patch.clone())
            .await
            .expect("written");
        let truth = patched(&bytes, 7 * PART + 5, &patch);
        let is_cached = seed % 2 == 0;
        if is_cached {
            same(&all(&writer).await, &truth);
        }
        let is_ours = match seed / 2 % 4 {
            0 => {
                let removed = desk.writers.remove(source(&desk), &valid(FROM)).await;
                removed.expect("removed");
                true
            }
            1 => {
                desk.write(FROM, &sample(99, 100)).await;
                true
            }
            2 => {
                desk.bucket().delete(FROM);
                false
            }
            _ => {
                foreign(&desk, FROM, &sample(99, 30 * PART));
                false
            }
        };
        let commit = match seed / 8 {
            0 => Commit::Close,
            _ => Commit::Background,
        };
        match writer.commit(commit).await {
            Ok(()) => {
                desk.writers.settled().await;
                same(&desk.object(TO).expect("there"), &truth);
            }
            Err(error) => {
                assert!(!is_ours && !is_cached, "{error}");
                assert_eq!(error, WriteError::Lost);
                assert_eq!(desk.object(TO), None);
                // What is cut off is not missing any more.
                writer.truncate(0).await.expect("cut");
                writer.write_at(0, "new".into()).await.expect("written");
                writer.commit(Commit::Close).await.expect("committed");
                assert_eq!(desk.object(TO).as_deref(), Some(&b"new"[..]));
            }
        }
    }
}

/// The source is deleted through another access to the same bucket.
#[tokio::test(start_paused = true)]
async fn a_source_that_another_access_deletes_gives_its_bytes_first() {
    let (desk, other) = Desk::of_two_accesses(&Terms::default());
    let bytes = sample(1, 10 * PART);
    foreign(&desk, FROM, &bytes);
    let from = opened(&desk, FROM).await;
    let writer = desk.create(TO).await;
    assert!(copy(&writer, &from, 0, 10 * PART).await);
    let removed = desk.writers.remove(&other, &valid(FROM)).await;
    removed.expect("removed");
    assert_eq!(writer.commit(Commit::Close).await, Ok(()));
    same(&desk.object(TO).expect("there"), &bytes);
}

/// A promise rests on no other object.
#[tokio::test(start_paused = true)]
async fn what_is_synced_is_published_after_a_crash_whatever_the_source_is_then() {
    for commits in [false, true] {
        println!("commits {commits}");
        let desk = Desk::new(Terms::background());
        let bytes = sample(1, 20 * PART);
        foreign(&desk, FROM, &bytes);
        let from = opened(&desk, FROM).await;
        let writer = desk.create(TO).await;
        assert!(copy(&writer, &from, 0, 20 * PART).await);
        writer.write_at(3, "!".into()).await.expect("written");
        match commits {
            true => {
                // The cache has what the bucket cannot give.
                all(&writer).await;
                desk.bucket().set_faults([down()]);
                writer.commit(Commit::Background).await.expect("durable");
            }
            false => writer.sync().await.expect("durable"),
        }
        desk.bucket().delete(FROM);
        let bucket = desk.bucket().clone();
        let again = desk.switched_off([writer], &Terms::background()).await;
        bucket.set_faults([]);
        again.writers.settled().await;
        same(
            &again.object(TO).expect("promised"),
            &patched(&bytes, 3, b"!"),
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_promised_is_gone_after_a_crash() {
    let desk = Desk::plain();
    foreign(&desk, FROM, &sample(1, 20 * PART));
    let from = opened(&desk, FROM).await;
    let writer = desk.create(TO).await;
    assert!(copy(&writer, &from, 0, 20 * PART).await);
    writer
        .write_at(3 * PART, "!".into())
        .await
        .expect("written");
    let again = desk.switched_off([writer], &Terms::default()).await;
    again.writers.settled().await;
    assert_eq!(again.object(TO), None);
    until(|| again.writers.spooled().0 == 0).await;
    assert!(
        again.object(FROM).is_some(),
        "a base that is another object stays"
    );
}

/// A part of a range reads as zero; the rest is as it was.
#[tokio::test(start_paused = true)]
async fn ranges_become_zero() {
    let desk = Desk::plain();
    let bytes = sample(1, 10 * PART);
    desk.write(TO, &bytes).await;
    for (start, end) in [
        (5, 700),
        (9 * PART, 20 * PART),
        (0, 10 * PART),
        (20 * PART, 30 * PART),
    ] {
        let writer = desk.change(TO).await;
        let mut truth = all(&writer).await.to_vec();
        writer.zero(ByteRange::new(start, end)).await.expect("zero");
        let end = truth.len().min(end as usize);
        if (start as usize) < end {
            truth[start as usize..end].fill(0);
        }
        same(&all(&writer).await, &Bytes::from(truth.clone()));
        writer.commit(Commit::Close).await.expect("committed");
        same(&desk.object(TO).expect("there"), &Bytes::from(truth));
    }
}

/// Another writer appends, grows the object or cuts it off meanwhile.
#[tokio::test(start_paused = true)]
async fn zeros_leave_the_length_to_other_writers() {
    let desk = Desk::plain();
    let size = 40 * PART;
    desk.write(TO, &sample(1, size)).await;
    let (writer, other) = (desk.change(TO).await, desk.change(TO).await);
    let zeroed = writer.zero(ByteRange::new(5 * PART, size));
    let (zeroed, at) = tokio::join!(zeroed, other.append("end".into()));
    assert_eq!((zeroed, at), (Ok(()), Ok(size)));
    let grown = writer.grow(size + 2);
    let (grown, at) = tokio::join!(other.append("more".into()), grown);
    assert_eq!((grown, at), (Ok(size + 3), Ok(())));
    let mut truth = sample(1, 5 * PART).to_vec();
    truth.resize(size as usize, 0);
    truth.extend_from_slice(b"endmore");
    same(&all(&writer).await, &Bytes::from(truth));
    let zeroed = writer.zero(ByteRange::new(0, 30 * PART));
    let (zeroed, cut) = tokio::join!(zeroed, other.truncate(PART));
    assert_eq!((zeroed, cut), (Ok(()), Ok(())));
    same(&all(&writer).await, &Bytes::from(vec![0; PART as usize]));
}

/// Room that is set aside is there for the draft, and free again afterwards.
#[tokio::test(start_paused = true)]
async fn room_is_set_aside() {
    let desk = Desk::new(Terms {
        size: 60 * PART,
        ..Terms::default()
    });
    let (writer, other) = (desk.create(TO).await, desk.create("other").await);
    let range = ByteRange::new(0, 50 * PART);
    writer
        .set_aside(ByteRange::new(0, 20 * PART))
        .expect("room");
    writer
        .set_aside(ByteRange::new(30 * PART, 50 * PART))
        .expect("another range");
    assert_eq!(desk.writers.spooled().0, 40 * PART);
    writer.set_aside(range).expect("there is room for the rest");
    writer.set_aside(range).expect("it is set aside already");
    assert_eq!(desk.writers.spooled().0, 50 * PART);
    assert_eq!(
        other.set_aside(ByteRange::new(0, 40 * PART)),
        Err(WriteError::Full)
    );
    assert_eq!(writer.size(), 0);
    let bytes = sample(1, 20 * PART);
    writer.write_at(0, bytes.clone()).await.expect("written");
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(TO).expect("there"), &bytes);
    drop((writer, other));
    until(|| desk.writers.spooled().0 == 0).await;
}
