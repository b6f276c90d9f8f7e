//! Drafts whose object is deleted or replaced while they are open: their handles go on, and nothing of them is
//! published.

use bytes::Bytes;
use tidegate_plan::ByteRange;
use tidegate_write::{Commit, OpenMode, WriteError};

use crate::support::engine::{same, sample, valid};
use crate::support::spool::{Desk, PART, Terms, all, down, patched, put, source, until};

mod model;

async fn remove(desk: &Desk, key: &str) {
    let removed = desk.writers.remove(source(desk), &valid(key)).await;
    removed.expect("removed");
}

/// Every way in which an open draft loses its name.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Removed,
    Replaced,
}

async fn lose(desk: &Desk, key: &str, loss: Loss) {
    match loss {
        Loss::Removed => remove(desk, key).await,
        Loss::Replaced => {
            desk.write("other", &Bytes::from_static(b"another")).await;
            let (from, to) = (valid("other"), valid(key));
            let renamed = desk.writers.rename(source(desk), &from, &to);
            renamed.await.expect("renamed");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_written_is_read_back_until_the_last_close() {
    for loss in [Loss::Removed, Loss::Replaced] {
        for size in [300, 5 * PART + 77] {
            let desk = Desk::plain();
            let bytes = sample(size, size);
            let writer = desk.create("key").await;
            put(&writer, 0, &bytes).await;
            let reader = desk.writers.find(source(&desk), &valid("key"));
            let reader = reader.expect("it is open");
            lose(&desk, "key", loss).await;
            let left = desk.object("key");
            same(&all(&writer).await, &bytes);
            same(&all(&reader).await, &bytes);

            let patch = sample(9, 2 * PART);
            writer
                .write_at(size - 100, patch.clone())
                .await
                .expect("written");
            let now = patched(&bytes, size - 100, &patch);
            same(&all(&reader).await, &now);
            writer.truncate(50).await.expect("cut");
            writer.sync().await.expect("nothing to do");
            writer.commit(Commit::Close).await.expect("nothing to do");
            let closed = writer.commit(Commit::Background).await;
            closed.expect("nothing to do");
            same(&all(&reader).await, &now.slice(..50));

            // Another object of that name is another draft.
            assert!(desk.writers.find(source(&desk), &valid("key")).is_none());
            let next = desk.create("key").await;
            put(&next, 0, &Bytes::from_static(b"next")).await;
            same(&all(&reader).await, &now.slice(..50));
            next.commit(Commit::Close).await.expect("committed");
            drop((writer, reader, next));
            desk.writers.settled().await;
            assert_ne!(left.as_deref(), Some(&*bytes), "{loss:?}");
            assert_eq!(desk.object("key").as_deref(), Some(&b"next"[..]));
            until(|| desk.writers.spooled().0 == 0).await;
            until(|| desk.bucket().uploads_under_way().is_empty()).await;
        }
    }
}

/// The bytes that a program synced are in the journal alone.
#[tokio::test(start_paused = true)]
async fn what_was_promised_is_read_back_and_does_not_return_after_a_crash() {
    for size in [300, 3 * PART] {
        let desk = Desk::new(Terms::background());
        let bytes = sample(size, size);
        let writer = desk.create("key").await;
        put(&writer, 0, &bytes).await;
        writer.sync().await.expect("durable");
        remove(&desk, "key").await;
        same(&all(&writer).await, &bytes);
        writer.write_at(10, sample(3, 100)).await.expect("written");
        same(&all(&writer).await, &patched(&bytes, 10, &sample(3, 100)));
        writer.sync().await.expect("nothing to do");
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.writers.settled().await;
        assert_eq!(again.object("key"), None);
        assert_eq!(again.writers.spooled().0, 0);
    }
}

/// Another program deletes an object that a handle has open, and a second program makes it anew. The first handle takes
/// the name back neither now nor after a crash.
#[tokio::test(start_paused = true)]
async fn what_was_deleted_elsewhere_and_made_anew_is_not_replaced_by_an_old_handle() {
    for how in [
        OpenMode::Create,
        OpenMode::CreateNew,
        OpenMode::CreateMissing,
    ] {
        let desk = Desk::new(Terms::background());
        let old = desk.create("key").await;
        put(&old, 0, &"old".into()).await;
        old.commit(Commit::Close).await.expect("committed");
        desk.bucket().delete("key");
        desk.world.purge("key").await;
        let engine = &desk.world.engine;
        let looked = engine.look_up(source(&desk), "key", false).await;
        looked.map(drop).expect("it is missing");
        assert!(engine.is_known_missing(source(&desk), &valid("key")));
        desk.bucket().set_faults([down()]);
        let next = desk.open("key", how).await.expect("opened");
        put(&next, 0, &"next".into()).await;
        next.commit(Commit::Background).await.expect("promised");
        drop(next);
        put(&old, 0, &"of old".into()).await;
        old.sync().await.expect("nothing to do");
        old.commit(Commit::Background).await.expect("nothing to do");
        assert_eq!(all(&old).await, "of old");
        let again = desk.switched_off([old], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        assert_eq!(again.object("key"), Some("next".into()), "{how:?}");
        assert_eq!(again.writers.left_alone(), 0);
        until(|| again.writers.spooled().0 == 0).await;
    }
}

/// Bytes of the version that a draft changes are read as long as they are cached.
#[tokio::test(start_paused = true)]
async fn unchanged_bytes_come_from_the_cache_or_not_at_all() {
    let desk = Desk::plain();
    let bytes = sample(1, PART);
    desk.write("key", &bytes).await;
    let writer = desk.change("key").await;
    writer.write_at(5, "!".into()).await.expect("written");
    remove(&desk, "key").await;
    same(&all(&writer).await, &patched(&bytes, 5, b"!"));
    drop(writer);

    desk.bucket().put("foreign", bytes.clone());
    let writer = desk.change("foreign").await;
    writer.write_at(5, "!".into()).await.expect("written");
    remove(&desk, "foreign").await;
    let read = writer.read_at(ByteRange::new(6, PART)).await;
    assert_eq!(read, Err(WriteError::Changed), "never other bytes");
    let written = writer.read_at(ByteRange::new(5, 6)).await;
    assert_eq!(written.expect("in the spool"), "!");
}

/// A draft that is larger than the spool, and in it only in part.
#[tokio::test(start_paused = true)]
async fn what_has_left_the_spool_is_an_error_and_never_other_bytes() {
    let desk = Desk::new(Terms {
        size: 12 * PART,
        ..Terms::default()
    });
    let bytes = sample(1, 40 * PART);
    let writer = desk.create("key").await;
    put(&writer, 0, &bytes).await;
    remove(&desk, "key").await;
    let head = writer.read_at(ByteRange::new(0, PART)).await;
    same(
        &head.expect("it never leaves"),
        &bytes.slice(..PART as usize),
    );
    let middle = ByteRange::new(15 * PART, 16 * PART);
    let read = writer.read_at(middle).await;
    assert!(matches!(read, Err(WriteError::Gone(_))), "{read:?}");
    drop(writer);
    until(|| desk.writers.spooled().0 == 0).await;
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
    assert_eq!(desk.object("key"), None);
}
