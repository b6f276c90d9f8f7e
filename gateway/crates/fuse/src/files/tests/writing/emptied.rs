//! Files that a program empties when it opens them, and how its closes count.

use super::*;

/// Empties a file that was there; returns its handle.
async fn empty(world: &World, thread: u32) -> u64 {
    let truncate = i32::try_from(rustix::fs::OFlags::TRUNC.bits()).expect("small");
    world.bucket.put("p/file", "before");
    let ino = world.walk("file").await.ino.0;
    let opened = world.files.open(ino, OpenFlags(1 | truncate), (thread, 0));
    opened.await.expect("it opens").0
}

/// This process has no other descriptor of the file.
#[tokio::test]
async fn a_file_that_was_there_is_emptied_by_the_close() {
    let (world, thread) = (World::writable(), std::process::id());
    let handle = empty(&world, thread).await;
    let refused = Fault::Refuse(OriginError::Forbidden);
    world.bucket.fail_next([refused]);
    let flush = || world.files.flush(handle, thread);
    assert_eq!(flush().await, Err(Errno::EACCES));
    assert_eq!(world.stored("p/file").expect("there"), "before");
    assert_eq!(flush().await, Ok(()));
    assert_eq!(world.stored("p/file").expect("there"), "");
    world.files.close(handle).await;
}

/// Whether the process has another descriptor of the file is not seen.
#[tokio::test]
async fn what_a_process_that_cannot_be_seen_empties_goes_by_its_last_close() {
    for thread in [US, UNSEEN] {
        let world = World::writable();
        let handle = empty(&world, thread).await;
        assert_eq!(world.files.flush(handle, thread).await, Ok(()));
        assert_eq!(world.stored("p/file").expect("there"), "before");
        world.files.close(handle).await;
        let writers = &world.files.writable.as_ref().expect("writable").writers;
        writers.settled().await;
        assert_eq!(world.stored("p/file").expect("there"), "");
        // A shell that redirects closes one descriptor before any write, and another one after it.
        let handle = empty(&world, thread).await;
        assert_eq!(world.files.flush(handle, thread).await, Ok(()));
        let written = world
            .files
            .write((handle, thread), 0, "after".into(), false);
        assert_eq!(written.await, Ok(5));
        assert_eq!(world.files.flush(handle, thread).await, Ok(()));
        assert_eq!(world.stored("p/file").expect("there"), "after");
        world.files.close(handle).await;
    }
}
