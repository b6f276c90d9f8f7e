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

const CHANGE: OpenFlags = OpenFlags(2);

impl World {
    /// Returns another writable mount of the bucket.
    pub(super) fn second(&self) -> (Arc<Files>, Arc<Ear>) {
        let files = Files::new(
            self.files.settings.clone(),
            self.engine.clone(),
            self.source.clone(),
            Access::Write(self.files.writable.clone().expect("writable")),
            Metrics::default(),
        );
        let (files, ear) = (Arc::new(files), Arc::new(Ear::default()));
        files.attach(ear.clone());
        let subscriber: Arc<dyn InvalidationSubscriber> = files.clone();
        self.engine.subscribe(Arc::downgrade(&subscriber));
        (files, ear)
    }
}

impl Ear {
    /// Waits until this is heard; returns all that was heard until then.
    pub(super) async fn hears(&self, last: &str) -> Vec<String> {
        let hears = async {
            let mut all = self.heard();
            while !all.iter().any(|heard| heard == last) {
                tokio::task::yield_now().await;
                all.extend(self.heard());
            }
            all
        };
        let heard = tokio::time::timeout(Duration::from_secs(300), hears).await;
        heard.expect("it is told")
    }
}

/// Opens a file of a mount to change it.
async fn open_to_change(files: &Files) -> (u64, u64) {
    let (attr, _) = files.look_up(ROOT_INO, "file".into()).await.expect("there");
    let opened = files.open(attr.ino.0, CHANGE, BY).await;
    let (handle, flags) = opened.expect("it opens");
    assert!(!flags.contains(FopenFlags::FOPEN_DIRECT_IO));
    (attr.ino.0, handle)
}

/// Opens the file on both mounts, and writes to it through each; returns its number and the handles.
async fn both_write(world: &World, second: &Files) -> (u64, u64, u64) {
    let (ino, handle) = open_to_change(&world.files).await;
    let (_, theirs) = open_to_change(second).await;
    world.write(handle, 6, ".").await;
    let written = second.write((theirs, US), 0, "AFTER!".into(), false);
    assert_eq!(written.await, Ok(6));
    (ino, handle, theirs)
}

/// The close commits the bytes of both, and the first one's kernel has pages from before the other's.
#[tokio::test]
async fn pages_from_before_the_write_of_another_mount_do_not_outlive_the_close() {
    for way in ["write", "cut", "cut by name", "empty", "zeros", "none"] {
        let world = World::writable();
        let (second, _) = world.second();
        world.bucket.put("p/file", "before");
        let (ino, handle) = open_to_change(&world.files).await;
        let (reader, _) = world.open(ino).await;
        assert_eq!(world.text(reader).await, "before");
        let (other, theirs) = open_to_change(&second).await;
        let cut = SetAttr {
            size: Some(3),
            handle: (way == "cut").then_some(theirs),
            ..SetAttr::default()
        };
        match way {
            "write" => drop(second.write((theirs, US), 0, "AFTER!".into(), false).await),
            "cut" | "cut by name" => drop(second.setattr(other, cut).await.expect("cut")),
            "empty" => drop(
                second
                    .open(other, OpenFlags(0o1002), BY)
                    .await
                    .expect("cut"),
            ),
            "zeros" => second.allocate(theirs, 0, 6, 0x10).await.expect("zeros"),
            _ => {}
        }
        if way == "cut by name" {
            // It is committed at once, and others are told behind its back.
            world.ear.hears(&format!("name {ROOT_INO} file")).await;
        }
        world.write(handle, 6, ".").await;
        world.ear.heard();
        world.done(handle).await;
        let dropped = match way {
            "none" => vec![],
            _ => vec![format!("pages {ino}")],
        };
        assert_eq!(world.ear.heard(), dropped, "{way}");
        // They are right by now, for those that were open and for the next.
        assert!(world.files.getattr(ino).await.is_ok());
        let (next, flags) = world.open(ino).await;
        assert_eq!(flags, FopenFlags::FOPEN_KEEP_CACHE, "{way}");
        assert!(world.ear.heard().is_empty(), "{way}");
        assert_eq!(world.text(next).await, world.text(reader).await);
    }
}

/// As long as the kernel is busy, no open keeps its pages.
#[tokio::test(start_paused = true)]
async fn pages_that_could_not_be_dropped_are_not_kept() {
    let world = World::writable();
    let (second, _) = world.second();
    world.bucket.put("p/file", "before");
    let (ino, handle, _) = both_write(&world, &second).await;
    assert_eq!(world.files.flush(handle, US).await, Ok(()));
    let (free, busy) = mpsc::channel();
    *world.ear.busy.lock().expect("unpoisoned") = Some(busy);
    let files = world.files.clone();
    let closed = tokio::spawn(async move { files.close(handle).await });
    while world.ear.busy.lock().expect("unpoisoned").is_some() {
        tokio::task::yield_now().await;
    }
    tokio::time::advance(Duration::from_secs(16)).await;
    closed.await.expect("no panic");
    drop(free);
    let pages = format!("pages {ino}");
    assert_eq!(world.ear.hears(&pages).await, [&*pages]);
    world.open(ino).await;
    assert_eq!(world.ear.heard(), [pages]);
}

#[tokio::test]
async fn a_close_tells_others_of_bytes_that_they_have_committed() {
    let world = World::writable();
    let (second, ear) = world.second();
    world.bucket.put("p/file", "before");
    let (ino, handle, theirs) = both_write(&world, &second).await;
    world.done(handle).await;
    assert_eq!(world.stored("p/file").expect("there"), "AFTER!.");
    let name = format!("name {ROOT_INO} file");
    ear.hears(&name).await;
    world.ear.heard();
    assert_eq!(second.flush(theirs, US).await, Ok(()));
    assert_eq!(world.ear.hears(&name).await, [format!("pages {ino}"), name]);
    second.close(theirs).await;
}

/// Another mount has begun to write to the file since this one's close.
#[tokio::test]
async fn a_handle_that_goes_publishes_no_half_of_another_mounts_write() {
    let world = World::writable();
    world.bucket.put("p/file", "before");
    let ino = world.walk("file").await.ino.0;
    let (handle, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    world.write(handle, 0, "A").await;
    assert_eq!(world.files.flush(handle, US).await, Ok(()));
    let writers = world.files.writers().expect("writable");
    let key = ObjectKey::new("p/file").expect("a key");
    let how = tidegate_write::OpenMode::Change;
    let elsewhere = writers.open(&world.source, &key, how, Vec::new()).await;
    let elsewhere = elsewhere.expect("opened");
    elsewhere.write_at(0, "half".into()).await.expect("written");
    world.files.close(handle).await;
    writers.settled().await;
    assert_eq!(world.stored("p/file").expect("there"), "Aefore");
    elsewhere.commit(Commit::Close).await.expect("committed");
    assert_eq!(world.stored("p/file").expect("there"), "halfre");
}

/// The close of the program that wrote has failed, and the last handle is one through which nothing was written.
#[tokio::test(start_paused = true)]
async fn what_a_close_could_not_publish_does_not_wait_for_readers() {
    let world = World::writable();
    world.bucket.put("p/file", "before");
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    world.write(writer, 0, "after!").await;
    let (idle, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    let down = Fault::Refuse(OriginError::Unavailable("down"));
    world.bucket.set_faults([down]);
    assert_eq!(world.files.flush(writer, US).await, Err(Errno::EIO));
    world.files.close(writer).await;
    world.bucket.set_faults([]);
    world.files.close(idle).await;
    world.files.writers().expect("writable").settled().await;
    assert_eq!(world.stored("p/file").expect("there"), "after!");
    assert_eq!(world.text(reader).await, "after!");
}

/// A file on its way into the bucket is removed once it is there, as long as something moves.
#[tokio::test(start_paused = true)]
async fn a_file_on_its_way_is_removed_while_something_moves() {
    let world = World::writable();
    let deadline = world.files.settings.deadline;
    for (name, fault, removed) in [
        ("slow", Fault::Rate(200 << 10), Ok(())),
        ("hangs", Fault::Latency(20 * deadline), Err(Errno::EIO)),
    ] {
        let (_, handle) = world.create(name).await;
        let bytes = Bytes::from(vec![7; 12 << 20]);
        let written = world.files.write((handle, US), 0, bytes, false).await;
        written.expect("written");
        world.bucket.set_faults([fault]);
        let removal = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let begun = tokio::time::Instant::now();
            let done = world.files.unlink(ROOT_INO, name.into()).await;
            world.bucket.set_faults([]);
            (done, begun.elapsed())
        };
        let closes = world.files.flush(handle, US);
        let (_, (done, took)) = tokio::join!(closes, removal);
        assert_eq!(done, removed, "{name}");
        match removed {
            Ok(()) => assert!(took > deadline, "{took:?}"),
            Err(_) => assert_eq!(took, deadline),
        }
    }
}
