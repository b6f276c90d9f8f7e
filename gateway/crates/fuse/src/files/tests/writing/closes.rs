//! Closes: those that commit, and what they tell other mounts.

use super::*;

/// A program of threads, of another user, with `hidepid`: one opens, another writes, a third closes.
#[tokio::test]
async fn a_close_by_a_process_that_cannot_be_seen_commits() {
    let world = World::writable();
    let maker = Creator {
        thread: UNSEEN,
        ..MAKER
    };
    let created = world.files.create(ROOT_INO, "file".into(), 0, maker).await;
    let (_, handle, _) = created.expect("created");
    let written = world
        .files
        .write((handle, UNSEEN - 1), 0, "whole".into(), false);
    assert_eq!(written.await, Ok(5));
    assert_eq!(world.files.flush(handle, UNSEEN - 2).await, Ok(()));
    assert_eq!(world.stored("p/file").expect("there"), "whole");
    world.files.close(handle).await;
}
