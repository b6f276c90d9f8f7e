//! Writes, as the mount sees them.

use super::*;
use tidegate_plan::attributes::{MTIME_HEADER, UnixTime};

mod closes;
mod emptied;
mod meetings;
mod nameless;
mod others;
mod times;
mod versions;

const WRITE: OpenFlags = OpenFlags(1);

/// An unknown thread: its process cannot be found.
const US: u32 = 0;

/// A thread of a process that /proc hides.
const UNSEEN: u32 = u32::MAX;

impl World {
    async fn create(&self, name: &str) -> (u64, u64) {
        let created = self.files.create(ROOT_INO, name.into(), 0, MAKER).await;
        let ((attr, _), handle, _) = created.expect("created");
        (attr.ino.0, handle)
    }

    async fn write(&self, handle: u64, offset: u64, bytes: &'static str) {
        let written = self
            .files
            .write((handle, US), offset, bytes.into(), false)
            .await;
        assert_eq!(written, Ok(u32::try_from(bytes.len()).expect("short")));
    }

    async fn text(&self, handle: u64) -> String {
        let read = self.read(handle).await.expect("read");
        String::from_utf8(read).expect("text")
    }

    async fn done(&self, handle: u64) {
        assert_eq!(self.files.flush(handle, US).await, Ok(()));
        self.files.close(handle).await;
    }

    /// Returns the number of requests to the bucket so far.
    pub(super) fn requests(&self) -> u64 {
        let bucket = &self.bucket;
        let writes = bucket.writes().len() as u64;
        bucket.gets() + bucket.heads() + bucket.lists() + writes
    }

    pub(super) fn stored(&self, key: &str) -> Option<Bytes> {
        self.bucket.object(key).map(|(_, bytes)| bytes)
    }
}

#[tokio::test]
async fn everybody_reads_the_draft_and_then_what_was_committed() {
    let world = World::writable();
    world.bucket.put("p/file", "before");
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    assert_eq!(world.text(reader).await, "before");
    world.ear.heard();
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    assert!(world.ear.heard().is_empty(), "the pages are of the base");
    world.write(writer, 6, " and after").await;
    assert_eq!(world.text(reader).await, "before and after");
    assert_eq!(world.look(ROOT_INO, "file").await.expect("there").size, 16);
    assert_eq!(world.stored("p/file").expect("there"), "before");
    world.done(writer).await;
    assert_eq!(world.stored("p/file").expect("there"), "before and after");
    assert_eq!(world.text(reader).await, "before and after");
    let (again, flags) = world.open(ino).await;
    assert_eq!(flags, FopenFlags::FOPEN_KEEP_CACHE);
    assert_eq!(world.text(again).await, "before and after");
    assert!(world.ear.heard().is_empty(), "and nothing was dropped");
}

#[tokio::test]
async fn a_version_from_elsewhere_has_a_node_of_its_own_when_it_is_written_to() {
    let world = World::writable();
    world.bucket.put("p/file", "one");
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    assert_eq!(world.text(reader).await, "one");
    world.bucket.put("p/file", "another");
    let refused = world.files.open(ino, WRITE, BY).await.map(drop);
    assert_eq!(refused, Err(Errno::ESTALE), "it looks again");
    let there = world.walk("file").await.ino.0;
    let (writer, _) = world.files.open(there, WRITE, BY).await.expect("it opens");
    world.write(writer, 0, "ANOTHER").await;
    assert_eq!(world.text(reader).await, "one", "it stays on its version");
    world.done(writer).await;
    assert_eq!(world.text(reader).await, "one");
    world.files.close(reader).await;
    assert_eq!(world.stored("p/file").expect("there"), "ANOTHER");
}

#[tokio::test]
async fn a_new_file_costs_a_request() {
    let world = World::writable();
    let made = world.files.mkdir(ROOT_INO, "new".into(), MAKER).await;
    let folder = made.expect("made").0.ino.0;
    let before = world.requests();
    for name in ["a", "b"] {
        assert_eq!(world.look(folder, name).await, Err(Errno::ENOENT));
        let exclusive = i32::try_from(rustix::fs::OFlags::EXCL.bits()).expect("small");
        let created = world
            .files
            .create(folder, name.into(), exclusive, MAKER)
            .await;
        let (_, handle, _) = created.expect("created");
        world.write(handle, 0, "12345").await;
        world.done(handle).await;
        assert_eq!(world.look(folder, name).await.expect("there").size, 5);
        let again = world
            .files
            .create(folder, name.into(), exclusive, MAKER)
            .await;
        assert_eq!(again.map(|(_, handle, _)| handle), Err(Errno::EEXIST));
    }
    assert_eq!(world.requests() - before, 2);
    assert_eq!(world.stored("p/new/a").expect("there"), "12345");
}

#[tokio::test]
async fn what_was_closed_is_read_without_a_request() {
    let world = World::writable();
    let (ino, writer) = world.create("file").await;
    world.write(writer, 0, "12345").await;
    world.done(writer).await;
    let before = world.requests();
    let (reader, _) = world.open(ino).await;
    assert_eq!(world.text(reader).await, "12345");
    world.files.close(reader).await;
    assert_eq!(world.look(ROOT_INO, "file").await.expect("there").size, 5);
    assert_eq!(world.requests(), before);
}

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

#[tokio::test]
async fn a_file_to_which_nothing_was_written_is_committed_at_the_end() {
    let world = World::writable();
    let (_, handle) = world.create("empty").await;
    assert_eq!(world.files.flush(handle, US).await, Ok(()));
    assert_eq!(world.stored("p/empty"), None);
    assert_eq!(world.look(ROOT_INO, "empty").await.expect("there").size, 0);
    world.files.close(handle).await;
    let writers = &world.files.writable.as_ref().expect("writable").writers;
    writers.settled().await;
    assert_eq!(world.stored("p/empty").expect("there"), "");
}

#[tokio::test]
async fn only_a_writer_says_that_it_is_complete() {
    let world = World::writable();
    let (init, us) = (1, std::process::id());
    let maker = Creator {
        thread: us,
        ..MAKER
    };
    let created = world.files.create(ROOT_INO, "file".into(), 0, maker).await;
    let (_, handle, _) = created.expect("created");
    let written = world.files.write((handle, us), 0, "half".into(), false);
    assert_eq!(written.await, Ok(4));
    assert_eq!(world.files.flush(handle, init).await, Ok(()));
    assert_eq!(
        world.stored("p/file"),
        None,
        "a child that has it by chance"
    );
    assert_eq!(world.files.flush(handle, us).await, Ok(()));
    assert_eq!(world.stored("p/file").expect("there"), "half");
    let written = world.files.write((handle, init), 4, " whole".into(), false);
    assert_eq!(written.await, Ok(6));
    assert_eq!(world.files.flush(handle, init).await, Ok(()));
    assert_eq!(world.stored("p/file").expect("there"), "half whole");
    world.files.close(handle).await;
}

#[tokio::test]
async fn what_may_not_be_written_is_refused() {
    let world = World::new();
    world.bucket.put("p/file", "x");
    let ino = world.walk("file").await.ino.0;
    assert_eq!(world.files.open(ino, WRITE, BY).await, Err(Errno::EROFS));
    let created = world.files.create(ROOT_INO, "new".into(), 0, MAKER).await;
    assert_eq!(created.map(|(_, handle, _)| handle), Err(Errno::EROFS));
    assert_eq!(
        world.files.unlink(ROOT_INO, "file".into()).await,
        Err(Errno::EROFS)
    );
}

/// The answer to an open carries no size: the kernel seeks by the size that it was told before.
#[tokio::test]
async fn a_writer_finds_the_end_where_it_is() {
    let world = World::writable();
    world.bucket.put("p/file", "12345");
    let ino = world.walk("file").await.ino.0;
    world.bucket.put("p/file", "1234567890");
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    assert_eq!(world.ear.heard(), [format!("pages {ino}")]);
    let (shown, _) = world.files.getattr(ino).await.expect("there");
    assert_eq!(shown.size, 10);
    let (second, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    assert!(world.ear.heard().is_empty(), "it was told of the draft");
    world.files.close(second).await;
    world.files.close(writer).await;
}

/// A program that changes a file by its name cannot tell whether another writer's bytes are complete.
#[tokio::test]
async fn a_time_or_length_publishes_nothing_that_is_still_written() {
    let world = World::keeping();
    let (ino, handle) = world.create("file").await;
    world.write(handle, 0, "half").await;
    let time = UnixTime::new(1_600_000_000, 0);
    let set = |size, modified| {
        let set = SetAttr {
            size,
            modified,
            ..SetAttr::default()
        };
        world.files.setattr(ino, set)
    };
    assert_eq!(world.stored("p/file"), None);
    let (other, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    world.done(other).await;
    assert_eq!(world.stored("p/file"), None, "it has written nothing");
    set(Some(2), None).await.expect("cut");
    assert_eq!(world.stored("p/file"), None);
    assert_eq!(world.text(handle).await, "ha");
    set(None, Some(time)).await.expect("set");
    assert_eq!(world.stored("p/file"), None);
    assert_eq!(world.files.flush(handle, US).await, Ok(()));
    let (version, bytes) = world.bucket.object("p/file").expect("there");
    assert_eq!(bytes, "ha");
    assert_eq!(version.header(&MTIME_HEADER), Some("1600000000"));
    // The file is open, but all of it is in the bucket: no close is missing.
    set(Some(1), None).await.expect("cut");
    assert_eq!(world.stored("p/file").expect("there"), "h");
    world.files.close(handle).await;
    set(Some(0), None).await.expect("cut");
    assert_eq!(world.stored("p/file").expect("there"), "");
}

/// `futimens` comes without the handle that it was called for.
#[tokio::test]
async fn what_is_written_after_a_time_was_given_has_a_later_one() {
    let world = World::keeping();
    let (ino, handle) = world.create("file").await;
    world.write(handle, 0, "old").await;
    let time = UnixTime::new(1_600_000_000, 0);
    let set = SetAttr {
        modified: Some(time),
        ..SetAttr::default()
    };
    let kept = || {
        let (version, _) = world.bucket.object("p/file").expect("there");
        version.header(&MTIME_HEADER).map(str::to_owned)
    };
    world.files.setattr(ino, set).await.expect("set");
    assert_eq!(world.files.flush(handle, US).await, Ok(()));
    assert_eq!(kept().as_deref(), Some("1600000000"));
    world.files.setattr(ino, set).await.expect("set");
    world.write(handle, 0, "new").await;
    assert_eq!(world.files.flush(handle, US).await, Ok(()));
    let later = kept().expect("kept");
    assert!(later.as_str() > "1700000000", "{later}");
    world.files.close(handle).await;
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
