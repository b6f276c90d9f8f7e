//! Objects that other writers make or change while this mount knows something else of them.

use super::*;

impl World {
    async fn create_with(&self, folder: u64, name: &str, flags: rustix::fs::OFlags) -> u64 {
        let flags = i32::try_from(flags.bits()).expect("small");
        let created = self.files.create(folder, name.into(), flags, MAKER).await;
        created.expect("created").1
    }
}

/// A name is known to be missing, from a look-up or because its folder was made here, and another writer makes the file.
#[tokio::test]
async fn a_file_that_is_there_by_now_is_not_replaced_unless_it_is_cut() {
    use rustix::fs::OFlags;
    let world = World::writable();
    let made = world.files.mkdir(ROOT_INO, "new".into(), MAKER).await;
    let new = made.expect("made").0.ino.0;
    for (folder, path) in [(ROOT_INO, "p/log"), (new, "p/new/log")] {
        assert_eq!(world.look(folder, "log").await, Err(Errno::ENOENT));
        world.bucket.put(path, "theirs");
        let handle = world.create_with(folder, "log", OFlags::empty()).await;
        world.write(handle, 0, "ours").await;
        assert_eq!(world.files.flush(handle, US).await, Err(Errno::ESTALE));
        world.files.close(handle).await;
        world.settled().await;
        assert_eq!(world.stored(path).expect("there"), "theirs");
    }
    assert_eq!(world.look(ROOT_INO, "cut").await, Err(Errno::ENOENT));
    world.bucket.put("p/cut", "theirs");
    let handle = world.create_with(ROOT_INO, "cut", OFlags::TRUNC).await;
    world.write(handle, 0, "ours").await;
    world.done(handle).await;
    assert_eq!(world.stored("p/cut").expect("there"), "ours");
}

/// The draft of a new file is renamed before its first request. What another writer has put under its first name is
/// another file.
#[tokio::test]
async fn a_new_file_that_is_renamed_deletes_nothing() {
    let world = World::writable();
    let (_, handle) = world.create("log").await;
    world.write(handle, 0, "ours").await;
    world.bucket.put("p/log", "theirs");
    let names = ((ROOT_INO, "log".into()), (ROOT_INO, "log.1".into()));
    assert_eq!(world.files.rename(names.0, names.1, false).await, Ok(()));
    world.done(handle).await;
    assert_eq!(world.stored("p/log.1").expect("there"), "ours");
    assert_eq!(world.stored("p/log").expect("there"), "theirs");
    assert_eq!(world.bucket.count("delete"), 0);
}
