//! The spool: writers that find it too small, its one owner, and what a writer reads back from it.

use bytes::Bytes;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::ByteRange;
use tidegate_plan::upload::kept_end;
use tidegate_write::{Commit, OpenMode, Settings, WritePath, left_in_spool};
use tidegate_write::{WriteError, Writers};

use super::{KEY, ends_with_nothing_left};
use crate::support::engine::{same, sample, valid};
use crate::support::spool::{Desk, FILES, PART, Terms, copy_of, patched, put, source, until};

#[tokio::test]
async fn a_full_spool_lets_go_of_what_was_sent() {
    let desk = Desk::new(Terms {
        size: 20 * PART,
        ..Terms::default()
    });
    let bytes = sample(1, 200 * PART + 5);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    assert!(desk.writers.spooled().0 <= 20 * PART + FILES);
    same(
        &writer
            .read_at(ByteRange::new(0, 2 * PART))
            .await
            .expect("kept"),
        &bytes.slice(..2 * PART as usize),
    );
    put(&writer, 5, &"head".into()).await;
    put(&writer, 200 * PART, &"tail!".into()).await;
    let gone = writer.write_at(100 * PART + 1, "x".into()).await;
    assert!(matches!(gone, Err(WriteError::Gone(_))), "{gone:?}");
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&patched(&bytes, 5, b"head"), 200 * PART, b"tail!");
    same(&desk.object(KEY).expect("there"), &truth);
    drop(writer);
    until(|| desk.writers.spooled().0 == 0).await;
}

/// The smallest spool that can be set takes a larger object, with parts of the usual size.
#[tokio::test]
async fn a_spool_that_is_small_takes_an_object_that_is_not() {
    let (desk, size) = (Desk::plain(), 64 << 20);
    let spool = tempfile::tempdir().expect("a folder");
    let settings = Settings {
        size,
        kept: kept_end(size),
        ..Settings::new(spool.path().to_owned())
    };
    let sources = std::slice::from_ref(source(&desk));
    let writers =
        Writers::start(&WritePath::new(&desk.world.engine), settings, sources).expect("a spool");
    let key = valid(KEY);
    let writer = writers.open(source(&desk), &key, OpenMode::Create, vec![]);
    let writer = writer.await.expect("opened");
    let bytes = sample(1, 200 << 20);
    put(&writer, 0, &bytes).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert!(desk.object(KEY).expect("there") == bytes);
}

#[tokio::test]
async fn a_reader_that_goes_back_and_forth_gets_back_what_is_gone() {
    let desk = Desk::new(Terms {
        size: 20 * PART,
        ..Terms::default()
    });
    let _ = desk.bucket().clone().with_versions();
    let mut truth = sample(1, 14 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &truth).await;
    until(|| desk.bucket().count("part") == 14).await;
    for round in 0..60 {
        let at = (round * 37 % 100) * PART + 13;
        let patch = sample(round, PART + 100);
        put(&writer, at, &patch).await;
        truth = patched(&truth, at, &patch);
        let look = ByteRange::new(at.saturating_sub(PART), at + 2 * PART);
        let read = writer.read_at(look).await.expect("readable");
        same(
            &read,
            &truth.slice(look.start as usize..truth.len().min(look.end as usize)),
        );
    }
    assert_eq!(desk.object(KEY), None);
    ends_with_nothing_left(&desk, writer, &truth).await;
    assert_eq!(desk.bucket().kept(), 1, "old versions of hidden objects");
}

/// The option applies to a draft that was written in order, too.
#[tokio::test(start_paused = true)]
async fn what_was_written_in_order_is_read_back_too_if_so_set() {
    let desk = Desk::new(Terms {
        size: 20 * PART,
        read_back: true,
        ..Terms::default()
    });
    let bytes = sample(1, 60 * PART + 5);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    let patch = sample(2, PART);
    put(&writer, 30 * PART + 1, &patch).await;
    let truth = patched(&bytes, 30 * PART + 1, &patch);
    let look = ByteRange::new(10 * PART, 12 * PART);
    let read = writer.read_at(look).await.expect("readable");
    same(&read, &truth.slice(look.start as usize..look.end as usize));
    assert_eq!(desk.object(KEY), None);
    ends_with_nothing_left(&desk, writer, &truth).await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_finds_no_room_is_held_back_and_told_in_the_end() {
    let desk = Desk::new(Terms {
        size: 30 * PART,
        ..Terms::default()
    });
    let bytes = sample(1, 60 * PART);
    desk.bucket()
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    let writer = desk.create(KEY).await;
    let mut at = 0;
    let error = loop {
        let piece = bytes.slice(at..at + 500);
        match writer.write_at(at as u64, piece).await {
            Ok(()) => at += 500,
            Err(error) => break error,
        }
    };
    assert_eq!(error, WriteError::Full);
    assert!(at as u64 > 15 * PART);
    // The origin comes back, and with it the room.
    desk.bucket().set_faults([]);
    put(&writer, at as u64, &bytes.slice(at..)).await;
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(KEY).expect("there"), &bytes);
}

#[tokio::test]
async fn a_spool_belongs_to_one_process() {
    let desk = Desk::plain();
    let terms = Terms::default();
    let again = Writers::start(
        &WritePath::new(&desk.world.engine),
        terms.settings(desk.spool.path()),
        &[],
    );
    assert!(matches!(again, Err(tidegate_write::SpoolError::InUse(_))));
}

#[tokio::test(start_paused = true)]
async fn what_is_never_sent_is_counted_in_a_spool_that_no_process_has() {
    let desk = Desk::plain();
    let writer = desk.create("folder/object").await;
    put(&writer, 0, &Bytes::from_static(b"safe")).await;
    writer.sync().await.expect("durable");
    let left = |directory: &std::path::Path| left_in_spool(directory).expect("it can be read");
    assert_eq!(left(desk.spool.path()), 0, "its process lives");
    assert_eq!(left(copy_of(&desk.spool).path()), 1);
    assert_eq!(left(&desk.spool.path().join("none")), 0);
}
