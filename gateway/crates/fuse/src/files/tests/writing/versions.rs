//! Handles of a file that another one has taken the place of: each stays on its own.

use rustix::fs::OFlags;

use super::*;
use tidegate_write::RefusedChoice;

const TRUNCATE: OpenFlags = OpenFlags(0o1001);
const READ: OpenFlags = OpenFlags(0);

impl World {
    /// Deletes an object as another gateway does it, and lets the mount find that.
    async fn lose(&self, name: &str) {
        self.bucket.delete(&format!("p/{name}"));
        self.purge(&format!("p/{name}")).await;
        assert_eq!(self.look(ROOT_INO, name).await, Err(Errno::ENOENT));
    }

    /// Creates a file with these flags of open(2) besides.
    async fn make(&self, name: &str, flags: OFlags) -> (u64, u64) {
        let flags = i32::try_from(flags.bits()).expect("small");
        let created = self.files.create(ROOT_INO, name.into(), flags, MAKER).await;
        let ((attr, _), handle, _) = created.expect("created");
        (attr.ino.0, handle)
    }

    /// Puts a file and reads it; returns its node and the handle.
    async fn reads_before(&self) -> (u64, u64) {
        self.bucket.put("p/file", "before");
        let ino = self.walk("file").await.ino.0;
        let (reader, _) = self.open(ino).await;
        assert_eq!(self.text(reader).await, "before");
        (ino, reader)
    }

    /// Opens a name as the kernel does it: it looks once more if it is told to.
    async fn open_name(&self, name: &str, flags: OpenFlags) -> u64 {
        let ino = self.walk(name).await.ino.0;
        let opened = match self.files.open(ino, flags, BY).await {
            Err(error) => {
                assert_eq!(error, Errno::ESTALE, "the kernel looks again");
                let ino = self.walk(name).await.ino.0;
                self.files.open(ino, flags, BY).await
            }
            opened => opened,
        };
        opened.expect("it opens").0
    }

    /// Checks that a handle reads these bytes, or none.
    async fn keeps(&self, handle: u64, bytes: &str) {
        match self.read(handle).await {
            Ok(read) => assert_eq!(String::from_utf8_lossy(&read), bytes),
            Err(error) => assert!([Errno::EIO, Errno::ESTALE].contains(&error), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_file_that_is_made_anew_is_not_the_one_that_is_read() {
    for flags in [OFlags::empty(), OFlags::TRUNC, OFlags::EXCL] {
        let world = World::writable();
        let (ino, reader) = world.reads_before().await;
        world.lose("file").await;
        let (new, writer) = world.make("file", flags).await;
        assert_ne!(new, ino, "{flags:?}");
        world.write(writer, 0, "afterwards").await;
        world.keeps(reader, "before").await;
        assert_eq!(world.walk("file").await.ino.0, new);
        world.done(writer).await;
        world.keeps(reader, "before").await;
        assert_eq!(world.stored("p/file").expect("there"), "afterwards");
        world.files.close(reader).await;
    }
}

#[tokio::test]
async fn a_version_that_is_emptied_is_not_the_one_that_is_read() {
    let world = World::writable();
    let (ino, reader) = world.reads_before().await;
    world.bucket.put("p/file", "another");
    world.purge("p/file").await;
    world.walk("file").await;
    let opened = world.files.open(ino, TRUNCATE, BY).await;
    assert_eq!(opened, Err(Errno::ESTALE), "the kernel looks again");
    let there = world.walk("file").await.ino.0;
    assert_ne!(there, ino);
    let (writer, _) = world
        .files
        .open(there, TRUNCATE, BY)
        .await
        .expect("it opens");
    world.write(writer, 0, "new").await;
    world.keeps(reader, "before").await;
    world.done(writer).await;
    world.keeps(reader, "before").await;
    assert_eq!(world.stored("p/file").expect("there"), "new");
    world.files.close(reader).await;
}

/// The file was written here, and its handles are open still.
#[tokio::test]
async fn a_written_file_that_is_made_anew_is_not_the_one_that_is_open() {
    for flags in [OFlags::empty(), OFlags::TRUNC, OFlags::EXCL] {
        let world = World::writable();
        let (ino, first) = world.create("file").await;
        world.write(first, 0, "one").await;
        assert_eq!(world.files.flush(first, US).await, Ok(()));
        let (reader, _) = world.open(ino).await;
        world.lose("file").await;
        let (new, second) = world.make("file", flags).await;
        assert_ne!(new, ino, "{flags:?}");
        world.write(second, 0, "second").await;
        for handle in [first, reader] {
            world.keeps(handle, "one").await;
        }
        world.done(second).await;
        for handle in [first, reader] {
            world.keeps(handle, "one").await;
        }
        let more = world.files.write((first, US), 3, "more".into(), false);
        assert_eq!(more.await, Ok(4));
        // It has no name any more, so nothing of it is published.
        assert_eq!(world.files.flush(first, US).await, Ok(()));
        for handle in [first, reader] {
            world.keeps(handle, "onemore").await;
        }
        world.files.close(first).await;
        world.files.close(reader).await;
        assert_eq!(world.stored("p/file").expect("there"), "second");
    }
}

/// The file is renamed through another mount of the process, which makes another one of its name.
#[tokio::test]
async fn a_handle_reads_what_it_writes_after_a_rename_through_another_mount() {
    let cases = [false, true].map(|is_sent| [(is_sent, WRITE), (is_sent, READ)]);
    for (is_sent, flags) in cases.into_iter().flatten() {
        let world = World::writable();
        let (other, _) = world.second();
        let (ino, first) = world.create("file").await;
        world.write(first, 0, "one").await;
        if is_sent {
            assert_eq!(world.files.flush(first, US).await, Ok(()));
        }
        let (reader, _) = world.open(ino).await;
        let names = ((ROOT_INO, "file".into()), (ROOT_INO, "moved".into()));
        assert_eq!(other.rename(names.0, names.1, false).await, Ok(()));
        let created = other.create(ROOT_INO, "file".into(), 0, MAKER).await;
        let (_, elsewhere, _) = created.expect("created");
        let written = other.write((elsewhere, US), 0, "second".into(), false);
        assert_eq!(written.await, Ok(6));
        let second = world.open_name("file", flags).await;
        assert_eq!(world.text(second).await, "second", "{is_sent}");
        world.write(first, 3, " more").await;
        assert_eq!(world.text(first).await, "one more", "{is_sent}");
        world.keeps(reader, "one more").await;
        world.done(second).await;
        assert_eq!(other.flush(elsewhere, US).await, Ok(()));
        world.done(first).await;
        world.files.close(reader).await;
        other.close(elsewhere).await;
        world.settled().await;
        assert_eq!(world.stored("p/file").expect("there"), "second");
        assert_eq!(world.stored("p/moved").expect("there"), "one more");
    }
}

/// A close was refused, and the operator keeps the version of the other writer, while a program has the file open.
#[tokio::test]
async fn an_open_after_a_decision_for_theirs_reads_theirs() {
    let world = World::writable();
    world.bucket.put("p/file", "before");
    let ino = world.walk("file").await.ino.0;
    let (handle, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    world.write(handle, 0, "our").await;
    world.bucket.put("p/file", "theirs");
    assert_eq!(world.files.flush(handle, US).await, Err(Errno::ESTALE));
    let writers = &world.files.writable.as_ref().expect("writable").writers;
    let id = world
        .source
        .object(&ObjectKey::new("p/file").expect("a key"));
    let decided = writers.resolve(&id, RefusedChoice::KeepTheirs).await;
    assert_eq!(decided, Ok(()));
    let reader = world.open_name("file", READ).await;
    assert_eq!(world.text(reader).await, "theirs");
    world.keeps(handle, "ourore").await;
    world.files.close(handle).await;
    assert_eq!(world.text(reader).await, "theirs");
    world.files.close(reader).await;
    assert_eq!(world.stored("p/file").expect("there"), "theirs");
}

/// The bytes are the same, so the open file is no other one: it has its number, and reads what is written from then on.
#[tokio::test]
async fn an_open_file_stays_one_over_a_purge() {
    let world = World::writable();
    world.bucket.put("p/file", "12345");
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    assert_eq!(world.read(reader).await.expect("read"), b"12345");
    world.purge("p/file").await;
    world.ear.heard();
    let (second, _) = world.open(ino).await;
    assert_eq!(world.walk("file").await.ino.0, ino);
    let dropped = [format!("pages {ino}")];
    assert_eq!(world.ear.heard(), dropped, "they are from before the purge");
    let (third, _) = world.open(ino).await;
    assert_eq!(world.ear.heard(), [""; 0]);
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    world.write(writer, 5, "67890").await;
    world.done(writer).await;
    for handle in [reader, second, third] {
        assert_eq!(world.read(handle).await.expect("read"), b"1234567890");
        world.files.close(handle).await;
    }
}
