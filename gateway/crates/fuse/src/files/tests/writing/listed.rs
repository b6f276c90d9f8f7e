//! Names, as programs see them while files are written, renamed and deleted here and elsewhere.

use super::*;

#[tokio::test]
async fn names_change_at_once() {
    let world = World::writable();
    let (ino, handle) = world.create("file").await;
    world.write(handle, 0, "1").await;
    let folder = world.files.mkdir(ROOT_INO, "f".into(), MAKER).await;
    let folder = folder.expect("made").0.ino.0;
    world.done(handle).await;
    let rename = |from, to, keep| world.files.rename(from, to, keep);
    let file = || (ROOT_INO, OsString::from("file"));
    let moved = || (folder, OsString::from("moved"));
    assert_eq!(rename(file(), moved(), true).await, Ok(()));
    assert_eq!(world.look(ROOT_INO, "file").await, Err(Errno::ENOENT));
    let there = world.look(folder, "moved").await.expect("there");
    assert_eq!((there.ino.0, there.size), (ino, 1));
    assert_eq!(world.stored("p/f/moved").expect("there"), "1");
    let (_, other) = world.create("file").await;
    world.write(other, 0, "22").await;
    assert_eq!(rename(file(), moved(), true).await, Err(Errno::EEXIST));
    let top = (ROOT_INO, OsString::from("f"));
    assert_eq!(rename(top, file(), false).await, Err(Errno::ENOTDIR));
    assert_eq!(
        world.files.rmdir(ROOT_INO, "f".into()).await,
        Err(Errno::ENOTEMPTY)
    );
    assert_eq!(rename(file(), moved(), false).await, Ok(()));
    world.write(other, 2, "33").await;
    world.done(other).await;
    assert_eq!(world.stored("p/f/moved").expect("there"), "2233");
    assert_eq!(world.stored("p/file"), None);
    assert_eq!(world.files.unlink(folder, "moved".into()).await, Ok(()));
    assert_eq!(world.look(folder, "moved").await, Err(Errno::ENOENT));
    assert_eq!(world.files.rmdir(ROOT_INO, "f".into()).await, Ok(()));
    assert_eq!(world.look(ROOT_INO, "f").await, Err(Errno::ENOENT));
}

/// The known version of a file may be older than the one that a rename moves. A reader of the older one does not read
/// the newer one's bytes under the new name, nor does the kernel keep its pages for it.
#[tokio::test]
async fn a_rename_moves_what_is_there_not_what_is_known() {
    let world = World::writable();
    world.bucket.put("p/old", "remembered");
    let ino = world.look(ROOT_INO, "old").await.expect("there").ino.0;
    let (handle, _) = world.open(ino).await;
    assert_eq!(world.text(handle).await, "remembered");
    world.bucket.put("p/old", "from elsewhere");
    let (old, new) = (OsString::from("old"), OsString::from("new"));
    let renamed = world
        .files
        .rename((ROOT_INO, old), (ROOT_INO, new), false)
        .await;
    assert_eq!(renamed, Ok(()));
    assert_eq!(world.stored("p/new").expect("there"), "from elsewhere");
    assert_eq!(world.text(handle).await, "remembered", "it is cached");
    world.files.close(handle).await;
    let there = world.look(ROOT_INO, "new").await.expect("there");
    assert_eq!((there.ino.0, there.size), (ino, 14));
    world.ear.heard();
    let (handle, _) = world.open(ino).await;
    assert_eq!(world.text(handle).await, "from elsewhere");
    assert_eq!(world.ear.heard(), [format!("pages {ino}")]);
}

/// A listing may be read slowly. The attributes of a name are those known by then.
#[tokio::test]
async fn a_listing_that_is_under_way_brings_nothing_old_back() {
    let world = World::writable();
    for name in ["changed", "other", "purged", "removed"] {
        world.bucket.put(&format!("p/{name}"), "12345");
    }
    let handle = world.files.open_folder(ROOT_INO).expect("the root");
    let folder = world.files.folder(handle).expect("open");
    let names = folder.at(0).await.expect("names");
    let ino = world.walk("changed").await.ino.0;
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    world.write(writer, 5, "67890").await;
    world.done(writer).await;
    assert_eq!(world.files.unlink(ROOT_INO, "removed".into()).await, Ok(()));
    world.purge("p/purged").await;
    let told = |name: &str| {
        let (_, entry) = names.from(0).iter().find(|(it, _)| it == name)?;
        let (attr, fresh) = world
            .files
            .tell_listed(ROOT_INO, &format!("p/{name}"), entry)?;
        Some((attr.size, fresh))
    };
    let most = Profile::web().ttl;
    let fresh = |fresh| fresh > Duration::ZERO && fresh <= most;
    assert!(told("changed").is_some_and(|(size, it)| size == 10 && fresh(it)));
    assert!(told("other").is_some_and(|(size, it)| size == 5 && fresh(it)));
    for name in ["purged", "removed"] {
        assert_eq!(told(name), Some((5, Duration::ZERO)), "{name}");
    }
}

#[tokio::test]
async fn a_folder_that_is_read_again_from_its_beginning_is_as_for_a_program_that_opens_it_then() {
    let world = World::writable();
    world.bucket.put("p/one", "1");
    let handle = world.files.open_folder(ROOT_INO).expect("the root");
    let folder = world.files.folder(handle).expect("open");
    let names = async || {
        folder.begin(world.files.drafts_in("p/")).await;
        let names = folder.at(0).await.expect("names");
        let names: Vec<_> = names.from(0).iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(names, world.scan(ROOT_INO).await);
        names
    };
    assert_eq!(names().await, ["one"]);
    world.bucket.put("p/two", "2");
    let (_, handle) = world.create("three").await;
    assert_eq!(names().await, ["one", "three"]);
    assert_eq!(world.bucket.lists(), 1);
    world.done(handle).await;
    for name in ["p/two", "p/"] {
        world.purge(name).await;
    }
    assert_eq!(names().await, ["one", "two", "three"]);
}

/// The kernel opens a name that it believes in without a look-up. If it is told that the file has changed, it looks
/// again, and then creates it.
#[tokio::test]
async fn a_file_that_was_deleted_elsewhere_can_be_created() {
    let world = World::writable();
    world.bucket.put("p/log", "before");
    let names = world.engine.list(&world.source, "p/", None).await;
    assert_eq!(names.expect("listed").names.len(), 1);
    let ino = world.walk("log").await.ino.0;
    world.bucket.delete("p/log");
    let opened = world.files.open(ino, WRITE, BY).await;
    assert_eq!(opened, Err(Errno::ESTALE));
    assert_eq!(world.look(ROOT_INO, "log").await, Err(Errno::ENOENT));
    let (_, handle) = world.create("log").await;
    world.write(handle, 0, "after").await;
    world.done(handle).await;
    assert_eq!(world.stored("p/log").expect("there"), "after");
}

#[tokio::test]
async fn a_reader_goes_along_with_every_rename() {
    let world = World::writable();
    let bytes: Vec<u8> = (0..6 << 20).map(|n: u32| (n % 251) as u8).collect();
    world.bucket.put("p/one", bytes.clone());
    let ino = world.look(ROOT_INO, "one").await.expect("there").ino.0;
    let (handle, _) = world.open(ino).await;
    for (from, to) in [("one", "two"), ("two", "three"), ("three", "four")] {
        let (from, to) = ((ROOT_INO, from.into()), (ROOT_INO, to.into()));
        assert_eq!(world.files.rename(from, to, false).await, Ok(()));
    }
    let read = world.files.read(handle, 5 << 20, 1000).await;
    let at = 5 << 20;
    assert!(read.expect("read").as_ref() == &bytes[at..at + 1000]);
    world.files.close(handle).await;
}
