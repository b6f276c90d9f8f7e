//! Objects that other writers make or change while this mount knows something else of them.

use std::os::unix::ffi::OsStringExt as _;

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
        // The refusal has told of it.
        assert_eq!(world.look(folder, "log").await.expect("there").size, 6);
    }
    assert_eq!(world.look(ROOT_INO, "cut").await, Err(Errno::ENOENT));
    world.bucket.put("p/cut", "theirs");
    let handle = world.create_with(ROOT_INO, "cut", OFlags::TRUNC).await;
    world.write(handle, 0, "ours").await;
    world.done(handle).await;
    assert_eq!(world.stored("p/cut").expect("there"), "ours");
}

/// `touch` of a name that is known to be missing, and that another writer makes: an empty file must not hide theirs.
#[tokio::test(start_paused = true)]
async fn a_file_that_was_only_touched_gives_way_to_another_writers() {
    let world = World::writable();
    assert_eq!(world.look(ROOT_INO, "log").await, Err(Errno::ENOENT));
    let (_, handle) = world.create("log").await;
    world.bucket.put("p/log", "theirs");
    world.done(handle).await;
    world.settled().await;
    assert_eq!(world.look(ROOT_INO, "log").await.expect("there").size, 6);
    let writers = &world.files.writable.as_ref().expect("writable").writers;
    assert!(writers.pending().is_empty());
    assert_eq!(world.stored("p/log").expect("there"), "theirs");
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

/// `RENAME_NOREPLACE`: the new name is known to be missing, and another writer makes the file.
#[tokio::test]
async fn a_file_that_is_there_by_now_stays_if_a_rename_must_not_replace() {
    let world = World::writable();
    world.bucket.put("p/stored", "ours");
    for name in ["sent", "unsent", "stored"] {
        let handle = match name {
            "stored" => None,
            _ => Some(world.create(name).await.1),
        };
        if let Some(handle) = handle {
            world.write(handle, 0, "ours").await;
        }
        if name == "sent" {
            assert_eq!(world.files.flush(handle.expect("open"), US).await, Ok(()));
        }
        let target = format!("{name}.new");
        assert_eq!(world.look(ROOT_INO, &target).await, Err(Errno::ENOENT));
        let key = format!("p/{target}");
        world.bucket.put(&key, "theirs");
        let names = ((ROOT_INO, name.into()), (ROOT_INO, target.clone().into()));
        let renamed = world.files.rename(names.0, names.1, true).await;
        assert_eq!(renamed, Err(Errno::EEXIST), "{name}");
        if let Some(handle) = handle {
            world.done(handle).await;
        }
        assert_eq!(world.stored(&key).expect("there"), "theirs");
        assert_eq!(world.stored(&format!("p/{name}")).expect("there"), "ours");
    }
}

/// An object whose key ends in `/` has bytes: it is no folder's marker, but another program's.
#[tokio::test(start_paused = true)]
async fn an_object_of_a_folders_name_stays_as_it_is() {
    let world = World::keeping();
    let own = world.files.mkdir(ROOT_INO, "own".into(), MAKER).await;
    own.expect("made");
    for (name, is_listed) in [("found", false), ("listed", true), ("own", false)] {
        let key = format!("p/{name}/");
        world.bucket.put(&key, "bytes");
        let folder = world.walk(name).await.ino.0;
        if is_listed {
            let handle = world.files.open_folder(folder).expect("a folder");
            let page = world.files.folder(handle).expect("open").at(0).await;
            assert!(page.expect("names").from(0).is_empty());
        }
        if name != "own" {
            let removed = world.files.rmdir(ROOT_INO, name.into()).await;
            assert_eq!(removed, Err(Errno::ENOTEMPTY), "{name}");
        }
        let set = SetAttr {
            mode: Some(0o700),
            ..SetAttr::default()
        };
        world.files.setattr(folder, set).await.expect("noted");
        world.settled().await;
        assert_eq!(world.stored(&key).expect("there"), "bytes", "{name}");
    }
}

/// The upload of a large file whose bytes must be read back is an object beside it.
#[tokio::test]
async fn a_staging_object_has_no_name() {
    let world = World::writable();
    let name = format!(".tidegate-{}", "0123456789abcdef".repeat(2));
    let key = format!("p/f/{name}");
    world.bucket.put(&key, "parts");
    world.bucket.put("p/f/file", "x");
    let folder = world.walk("f").await.ino.0;
    let handle = world.files.open_folder(folder).expect("a folder");
    let page = world.files.folder(handle).expect("open").at(0).await;
    let page = page.expect("names");
    let names = page.from(0).iter().map(|(name, _)| name.clone());
    assert_eq!(Vec::from_iter(names), ["file"]);
    assert_eq!(world.look(folder, &name).await, Err(Errno::ENOENT));
    let there = || (folder, name.clone().into());
    let removed = world.files.unlink(folder, name.clone().into()).await;
    assert_eq!(removed, Err(Errno::EINVAL));
    let replaced = (folder, "file".into());
    for (from, to) in [(there(), replaced.clone()), (replaced, there())] {
        let renamed = world.files.rename(from, to, false).await;
        assert_eq!(renamed, Err(Errno::EINVAL));
    }
    let made = world.files.create(folder, name.clone().into(), 0, MAKER);
    assert_eq!(made.await.map(drop), Err(Errno::EINVAL));
    assert_eq!(world.stored(&key).expect("there"), "parts");
}

/// A key is text. A look-up finds no other name, and nothing makes one.
#[tokio::test]
async fn a_name_that_is_no_text_is_refused_as_such() {
    let world = World::keeping();
    let odd = || OsString::from_vec(b"caf\xe9".to_vec());
    let looked_up = world.files.look_up(ROOT_INO, odd()).await;
    assert_eq!(looked_up.map(drop), Err(Errno::ENOENT));
    let created = world.files.create(ROOT_INO, odd(), 0, MAKER).await;
    assert_eq!(created.map(drop), Err(Errno::EILSEQ));
    let made = world.files.mkdir(ROOT_INO, odd(), MAKER).await;
    assert_eq!(made.map(drop), Err(Errno::EILSEQ));
    let linked = world.files.symlink((ROOT_INO, odd()), "x".into(), MAKER);
    assert_eq!(linked.await.map(drop), Err(Errno::EILSEQ));
    let target = odd().into();
    let linked = world
        .files
        .symlink((ROOT_INO, "link".into()), target, MAKER);
    assert_eq!(linked.await.map(drop), Err(Errno::EILSEQ));
    world.bucket.put("p/file", "x");
    let (from, to) = ((ROOT_INO, "file".into()), (ROOT_INO, odd()));
    let renamed = world.files.rename(from, to, false).await;
    assert_eq!(renamed, Err(Errno::EILSEQ));
    world.settled().await;
    assert_eq!(world.bucket.keys(), ["p/file"]);
}

/// `open("ab")`, a write, and a close with ESTALE: the next one is of the version that the other writer has made.
#[tokio::test]
async fn the_open_after_a_refused_close_is_of_their_version() {
    let world = World::writable();
    world.bucket.put("p/log", "before");
    let ino = world.look(ROOT_INO, "log").await.expect("there").ino.0;
    let open = || world.files.open(ino, OpenFlags(2), BY);
    let (handle, _) = open().await.expect("opened");
    world.write(handle, 6, "ours").await;
    world.bucket.put("p/log", "theirs");
    assert_eq!(world.files.flush(handle, US).await, Err(Errno::ESTALE));
    world.files.close(handle).await;
    world.ear.hears(&format!("name {ROOT_INO} log")).await;
    let ino = world.look(ROOT_INO, "log").await.expect("there").ino.0;
    let (handle, _) = world
        .files
        .open(ino, OpenFlags(2), BY)
        .await
        .expect("opened");
    world.write(handle, 6, " and ours").await;
    world.done(handle).await;
    assert_eq!(world.stored("p/log").expect("there"), "theirs and ours");
}
