//! Opens, closes, renames and removals at the same time.

use super::*;

impl World {
    fn rename(&self, from: &str, to: &str) -> impl Future<Output = Result<(), Errno>> + 'static {
        let (files, from, to) = (self.files.clone(), from.into(), to.into());
        async move { files.rename((ROOT_INO, from), (ROOT_INO, to), false).await }
    }

    /// Waits until no draft waits for the bucket any more.
    pub(super) async fn settled(&self) {
        let writable = self.files.writable.as_ref().expect("writable");
        writable.writers.settled().await;
    }
}

const LONG: Fault = Fault::Latency(Duration::from_secs(10));
const TRUNCATE: OpenFlags = OpenFlags(0o1001);

/// A file that is opened during its rename is not the file that has the other name then.
#[tokio::test(start_paused = true)]
async fn a_writer_that_begins_during_a_rename_does_not_write_to_what_is_renamed() {
    let world = World::writable();
    world.bucket.put("p/f", "old");
    let ino = world.walk("f").await.ino.0;
    let (reader, _) = world.open(ino).await;
    assert_eq!(world.text(reader).await, "old");
    // The HEAD, and then the copy.
    world.bucket.fail_next([]);
    world.bucket.fail_next([LONG]);
    let renamed = tokio::spawn(world.rename("f", "g"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // Readers need not wait.
    let (other, _) = world.open(ino).await;
    assert_eq!(world.text(other).await, "old");
    assert!(!renamed.is_finished());
    let opened = world.files.open(ino, TRUNCATE, BY).await;
    assert_eq!(opened, Err(Errno::ESTALE));
    assert_eq!(renamed.await.expect("no panic"), Ok(()));
    assert_eq!(world.look(ROOT_INO, "f").await, Err(Errno::ENOENT));
    assert_eq!(world.look(ROOT_INO, "g").await.expect("there").ino.0, ino);
    world.settled().await;
    assert_eq!(world.stored("p/g").expect("there"), "old");
    assert_eq!(world.stored("p/f"), None);
    for handle in [reader, other] {
        assert_eq!(world.text(handle).await, "old");
        world.files.close(handle).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_begins_during_a_removal_finds_it_gone() {
    let world = World::writable();
    world.bucket.put("p/f", "old");
    let ino = world.walk("f").await.ino.0;
    world.bucket.fail_next([LONG]);
    let files = world.files.clone();
    let removed = tokio::spawn(async move { files.unlink(ROOT_INO, "f".into()).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let opened = world.files.open(ino, TRUNCATE, BY).await;
    assert_eq!(opened, Err(Errno::ESTALE));
    assert_eq!(removed.await.expect("no panic"), Ok(()));
    world.settled().await;
    assert_eq!(world.stored("p/f"), None);
}

/// Another mount of the process has written to it: the kernel's pages have none of those bytes.
#[tokio::test]
async fn a_draft_that_others_have_written_to_is_in_no_pages() {
    let world = World::writable();
    world.bucket.put("p/file", "before");
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    let writable = world.files.writable.as_ref().expect("writable");
    let key = ObjectKey::new("p/file").expect("a key");
    let headers = Vec::new();
    let elsewhere = writable.writers.open(
        &world.source,
        &key,
        tidegate_write::OpenMode::Change,
        headers,
    );
    let elsewhere = elsewhere.await.expect("it opens");
    elsewhere
        .write_at(0, "BEFORE".into())
        .await
        .expect("written");
    world.ear.heard();
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    assert_eq!(world.ear.heard(), [format!("pages {ino}")]);
    assert_eq!(world.text(reader).await, "BEFORE");
    world.files.close(writer).await;
    world.files.close(reader).await;
}

/// The kernel copies and maps through the pages, whatever a handle was told.
#[tokio::test]
async fn a_handle_past_the_pages_keeps_another_version_from_them() {
    let world = World::writable();
    let created = world
        .files
        .create(ROOT_INO, "file".into(), WRITE.0, MAKER)
        .await;
    let ((attr, _), filler, _) = created.expect("created");
    let ino = attr.ino.0;
    world.write(filler, 0, "one").await;
    let (joined, flags) = world.open(ino).await;
    assert_eq!(flags, FopenFlags::FOPEN_DIRECT_IO);
    world.done(filler).await;
    world.bucket.put("p/file", "another");
    world.purge("p/file").await;
    let refused = world.files.open(ino, OpenFlags(0), BY).await.map(drop);
    assert_eq!(refused, Err(Errno::ESTALE), "it looks again");
    let there = world.walk("file").await;
    assert!(there.ino.0 != ino && there.size == 7);
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a flag");
    let opened = world.files.open(there.ino.0, OpenFlags(direct), BY).await;
    let (direct, flags) = opened.expect("it opens");
    assert!(flags.contains(FopenFlags::FOPEN_DIRECT_IO));
    world.bucket.put("p/file", "a third");
    world.purge("p/file").await;
    let refused = world.files.open(there.ino.0, OpenFlags(0), BY).await;
    assert_eq!(refused, Err(Errno::ESTALE));
    world.files.close(direct).await;
    world.files.close(joined).await;
}

/// `tail -f log &`, and then `: > log`.
#[tokio::test(start_paused = true)]
async fn what_is_written_is_published_though_a_reader_goes_on() {
    for refused in [false, true] {
        let world = World::writable();
        world.bucket.put("p/log", "before");
        let ino = world.walk("log").await.ino.0;
        let (reader, _) = world.open(ino).await;
        let (writer, _) = world.files.open(ino, TRUNCATE, BY).await.expect("it opens");
        if refused {
            world.write(writer, 0, "after").await;
            let down = Fault::Refuse(OriginError::Unavailable("down"));
            world.bucket.fail_next([down]);
            assert_eq!(world.files.flush(writer, US).await, Err(Errno::EIO));
        } else {
            assert_eq!(world.files.flush(writer, US).await, Ok(()));
        }
        world.files.close(writer).await;
        world.settled().await;
        let truth = if refused { "after" } else { "" };
        assert_eq!(world.stored("p/log").expect("there"), truth);
        assert_eq!(world.text(reader).await, truth);
        world.files.close(reader).await;
    }
}

/// The kernel drops no pages as long as it waits for one of them.
#[tokio::test(start_paused = true)]
async fn an_open_that_truncates_does_so_or_changes_nothing() {
    let world = World::writable();
    world.bucket.put("p/file", "old");
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    assert_eq!(world.text(reader).await, "old");
    let open = || {
        let files = world.files.clone();
        tokio::spawn(async move { files.open(ino, TRUNCATE, BY).await })
    };
    let wait = async |time| {
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(time).await;
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
    };
    // Another request has the turn for longer than the deadline.
    let node = world.files.nodes.get(ino).expect("known");
    let turn = node.turn.lock().await;
    let late = open();
    wait(Duration::from_secs(31)).await;
    assert_eq!(late.await.expect("no panic"), Err(Errno::EIO));
    drop(turn);
    world.settled().await;
    assert_eq!(world.stored("p/file").expect("there"), "old");
    assert_eq!(world.text(reader).await, "old");
    // The kernel is to drop them itself.
    let (free, busy) = mpsc::channel();
    *world.ear.busy.lock().expect("unpoisoned") = Some(busy);
    let opened = open();
    wait(Duration::from_secs(16)).await;
    let (writer, flags) = opened.await.expect("no panic").expect("it opens");
    assert_eq!(flags, FopenFlags::empty());
    drop(free);
    assert_eq!(world.text(reader).await, "");
    world.done(writer).await;
    world.settled().await;
    assert_eq!(world.stored("p/file").expect("there"), "");
    world.files.close(reader).await;
}

/// The kernel refuses writers itself; it sends an open that reads and truncates before it looks.
#[tokio::test(start_paused = true)]
async fn a_program_that_runs_keeps_its_bytes() {
    const RUN: OpenFlags = OpenFlags(0x20);
    const READ_EMPTY: OpenFlags = OpenFlags(0o1000);
    let world = World::writable();
    world.bucket.put("p/program", "code");
    let ino = world.walk("program").await.ino.0;
    let open = async |flags| world.files.open(ino, flags, BY).await;
    let (first, _) = open(RUN).await.expect("it opens");
    let (second, _) = open(RUN).await.expect("it opens");
    for runs in [first, second] {
        assert_eq!(open(READ_EMPTY).await, Err(Errno::ETXTBSY));
        assert_eq!(world.text(runs).await, "code");
        world.files.close(runs).await;
    }
    let (reader, _) = open(READ_EMPTY).await.expect("it runs no more");
    assert_eq!(world.text(reader).await, "");
    world.done(reader).await;
    // The next one runs a draft.
    let (writer, _) = open(TRUNCATE).await.expect("it opens");
    world.write(writer, 0, "new").await;
    let (runs, _) = open(RUN).await.expect("it opens");
    assert_eq!(open(READ_EMPTY).await, Err(Errno::ETXTBSY));
    world.done(writer).await;
    assert_eq!(world.text(runs).await, "new");
    world.files.close(runs).await;
    world.settled().await;
    assert_eq!(world.stored("p/program").expect("there"), "new");
}

/// The bytes are under the new name already, but no handle was told yet.
#[tokio::test(start_paused = true)]
async fn a_read_during_a_rename_finds_its_bytes() {
    let world = World::writable();
    let bytes: Vec<u8> = (0..6 << 20).map(|n: u32| (n % 251) as u8).collect();
    world.bucket.put("p/one", bytes.clone());
    let ino = world.look(ROOT_INO, "one").await.expect("there").ino.0;
    let (handle, _) = world.open(ino).await;
    // Two HEADs and the copy between them, another HEAD, and the deletion.
    for _ in 0..4 {
        world.bucket.fail_next([]);
    }
    world.bucket.fail_next([LONG]);
    let renamed = tokio::spawn(world.rename("one", "two"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.bucket.writes(), ["copy", "delete"]);
    world.bucket.delete("p/one");
    let read = world.files.read(handle, 5 << 20, 1000).await;
    let at = 5 << 20;
    assert!(read.expect("read").as_ref() == &bytes[at..at + 1000]);
    assert_eq!(renamed.await.expect("no panic"), Ok(()));
    world.files.close(handle).await;
}

/// The removal is carried out all the same, and its node's number is not given to a new file of that name.
#[tokio::test(start_paused = true)]
async fn a_removal_whose_caller_has_gone_takes_the_name_too() {
    let world = World::writable();
    world.bucket.put("p/f", "old");
    let ino = world.walk("f").await.ino.0;
    let slow = Fault::Latency(Duration::from_secs(40));
    world.bucket.fail_next([slow]);
    let removed = world.files.unlink(ROOT_INO, "f".into());
    assert_eq!(world.files.bounded(removed).await, Err(Errno::EIO));
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (there, handle) = world.create("f").await;
    assert_ne!(there, ino);
    world.files.close(handle).await;
}

#[tokio::test]
async fn a_path_that_is_too_long_for_a_key_is_said_to_be() {
    let world = World::writable();
    let name = "n".repeat(250);
    let mut folder = ROOT_INO;
    for _ in 0..4 {
        let made = world.files.mkdir(folder, name.clone().into(), MAKER).await;
        folder = made.expect("made").0.ino.0;
    }
    let created = world
        .files
        .create(folder, name.into(), WRITE.0, MAKER)
        .await;
    let refused = created.map(|(_, handle, _)| handle);
    assert_eq!(refused, Err(Errno::ENAMETOOLONG));
}

/// The kernel drops pages when no write of its own is under way: a deletion over HTTP must not block writers while it
/// waits for that.
#[tokio::test]
async fn a_deletion_over_http_waits_for_the_kernel_and_keeps_no_writer_waiting() {
    let world = World::writable();
    world.bucket.put("p/file", "old");
    let ino = world.walk("file").await.ino.0;
    let (writer, _) = world.files.open(ino, TRUNCATE, BY).await.expect("it opens");
    world.write(writer, 0, "new").await;
    world.ear.heard();
    let (free, busy) = mpsc::channel();
    *world.ear.busy.lock().expect("unpoisoned") = Some(busy);
    let (write_path, source) = (world.write_path.clone(), world.source.clone());
    let deleted = tokio::spawn(async move {
        let key = ObjectKey::new("p/file").expect("a key");
        let wanted = tidegate_write::receive::WriteCondition::Anything;
        write_path.delete(&source, &key, &wanted).await
    });
    while world.ear.busy.lock().expect("unpoisoned").is_some() {
        tokio::task::yield_now().await;
    }
    let written = tokio::time::timeout(Duration::from_secs(20), world.write(writer, 3, "er"));
    written.await.expect("nobody holds it");
    drop(free);
    assert_eq!(deleted.await.expect("no panic"), Ok(()));
    world.done(writer).await;
    world.settled().await;
    assert_eq!(world.stored("p/file").expect("there"), "newer");
}
