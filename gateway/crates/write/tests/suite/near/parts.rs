//! Objects of several parts stay in the cache too, however each part got there.

use tidegate_engine::Error;
use tidegate_write::Writer;

use super::*;
use crate::support::engine;
use crate::support::spool::{patched, set_owner, until};

/// Writes at an offset, in pieces of 100,000 bytes.
async fn write_at(writer: &Writer, mut offset: u64, bytes: &Bytes) {
    for piece in bytes.chunks(100_000) {
        let piece = Bytes::copy_from_slice(piece);
        let length = piece.len() as u64;
        writer.write_at(offset, piece).await.expect("written");
        offset += length;
    }
}

/// The length of an object that was uploaded in parts is checked with one HEAD, at the end of the commit.
#[tokio::test(start_paused = true)]
async fn an_object_of_several_parts_is_read_without_the_bucket() {
    for commit in [Commit::Close, Commit::Background] {
        for size in [PART + 1, 5 * PART, 5 * PART + CHUNK + 77] {
            let desk = desk(commit);
            let bytes = sample(size, size);
            let writer = desk.create(KEY).await;
            write_at(&writer, 0, &bytes).await;
            writer.commit(commit).await.expect("committed");
            drop(writer);
            desk.writers.settled().await;
            assert_eq!(asked(&desk.world), (0, 1, 0));
            reads_without_asking(&desk.world, KEY, &bytes).await;
            assert_eq!(desk.world.used(), 0, "no memory is kept");
            // Nothing is held under any other address.
            assert_eq!(desk.world.store.held_bytes(), 2 * bytes.len());
        }
    }
}

/// A part that is sent again, after a write to it or a lost answer, replaces its cached chunks.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_sent_again_replaces_what_was_held_of_it() {
    let desk = desk(Commit::Close);
    let bytes = sample(1, 6 * PART + 5);
    let writer = desk.create(KEY).await;
    desk.bucket().fail_next([]);
    desk.bucket().fail_next([Fault::LoseAnswer]);
    desk.bucket().fail_next([Fault::Reset(CHUNK)]);
    write_at(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") > 6).await;
    pass(secs(60)).await;
    let sent = desk.bucket().count("part");
    write_at(&writer, 2 * PART + 9, &"patch".into()).await;
    write_at(&writer, 0, &"head".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&patched(&bytes, 2 * PART + 9, b"patch"), 0, b"head");
    same(&desk.object(KEY).expect("there"), &truth);
    assert_eq!(
        desk.bucket().count("part") - sent,
        3,
        "two again, and the last"
    );
    reads_without_asking(&desk.world, KEY, &truth).await;
}

/// A changed object has the unchanged chunks of its base, and those of the new bytes.
#[tokio::test(start_paused = true)]
async fn a_changed_object_takes_the_chunks_of_its_base() {
    let desk = desk(Commit::Close);
    let bytes = sample(1, 6 * PART);
    let writer = desk.create(KEY).await;
    write_at(&writer, 0, &bytes).await;
    writer.commit(Commit::Close).await.expect("committed");
    drop(writer);
    let writer = desk.change(KEY).await;
    write_at(&writer, 2 * PART + 9, &"patch".into()).await;
    write_at(&writer, 6 * PART, &sample(2, CHUNK + 1)).await;
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&bytes, 2 * PART + 9, b"patch");
    let truth = patched(&truth, 6 * PART, &sample(2, CHUNK + 1));
    same(&desk.object(KEY).expect("there"), &truth);
    assert_eq!(desk.bucket().count("copy_part"), 2);
    assert_eq!(
        asked(&desk.world).0,
        0,
        "also what filled up a part was cached"
    );
    reads_without_asking(&desk.world, KEY, &truth).await;
    // Only headers change: the store gives the copy another tag.
    let (before, _) = desk.bucket().object(KEY).expect("there");
    set_owner(&writer, 7).await;
    writer.commit(Commit::Close).await.expect("committed");
    let (after, _) = desk.bucket().object(KEY).expect("there");
    assert_ne!(before.etag, after.etag);
    reads_without_asking(&desk.world, KEY, &truth).await;
    // Chunks that are not at hand are fetched by the read.
    desk.world.store.forget_everything();
    write_at(&writer, 4 * PART, &"more".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&truth, 4 * PART, b"more");
    same(&desk.world.read(KEY).await.expect("read"), &truth);
}

#[tokio::test(start_paused = true)]
async fn a_renamed_object_takes_its_chunks_along() {
    for size in [PART - 1, 5 * PART + 77] {
        let desk = desk(Commit::Close);
        let bytes = sample(1, size);
        desk.bucket().put("new", "what is there already");
        let writer = desk.create(KEY).await;
        write_at(&writer, 0, &bytes).await;
        writer.commit(Commit::Close).await.expect("committed");
        drop(writer);
        let mut from = KEY;
        for (to, on_disk) in [("new", false), ("newer", true)] {
            if on_disk {
                desk.world.store.evict_memory();
            }
            let (old, new) = (valid(from), valid(to));
            let renamed = desk.writers.rename(source(&desk), &old, &new).await;
            renamed.expect("renamed");
            engine::settle().await;
            assert_eq!(asked(&desk.world).0, 0);
            reads_without_asking(&desk.world, to, &bytes).await;
            assert_eq!(desk.world.read(from).await, Err(Error::NotFound));
            from = to;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_put_over_http_is_read_without_the_bucket() {
    let world = World::plain();
    let bytes = sample(1, (20 << 20) + 77);
    receive(&world, KEY, &bytes, WriteCondition::Anything)
        .await
        .expect("written");
    assert_eq!((world.bucket.count("part"), asked(&world)), (3, (0, 1, 0)));
    reads_without_asking(&world, KEY, &bytes).await;
    assert_eq!(world.used(), 0);
}
