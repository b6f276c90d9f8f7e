//! Writes, as the mount sees them.

use super::*;
use tidegate_plan::attributes::{MTIME_HEADER, UnixTime};

mod closes;
mod emptied;
mod listed;
mod meetings;
mod nameless;
mod others;
mod sending;
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
