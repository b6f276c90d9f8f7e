//! Reads of open files, and the fetches that they cause.

use super::*;

#[tokio::test]
async fn reads_end_where_the_file_does() {
    let world = World::new();
    let bytes: Vec<u8> = (0..700_000_u32).map(|n| (n % 251) as u8).collect();
    world.bucket.put("p/file", bytes.clone());
    let (handle, _) = world.open(world.walk("file").await.ino.0).await;
    for (offset, size) in [
        (0, 10),
        (0, 1 << 20),
        (262_140, 8),
        (699_999, 9),
        (700_000, 1),
    ] {
        let read = world.files.read(handle, offset as u64, size as u32).await;
        let read = read.expect("read");
        let end = bytes.len().min(offset + size);
        assert!(read.as_ref() == &bytes[offset..end], "{offset} {size}");
    }
    // A read within one chunk returns the chunk's bytes without a copy.
    let inside = world.files.read(handle, 100, 1000).await.expect("read");
    assert!(matches!(inside, ReadData::Shared(_)));
    world.files.close(handle).await;
    let closed = world.files.read(handle, 0, 1).await.map(drop);
    assert_eq!(closed, Err(Errno::EBADF));
}

#[tokio::test]
async fn an_open_file_stays_on_its_version() {
    let world = World::with(
        Profile {
            ttl: Duration::ZERO,
            stale_while_revalidate: Duration::ZERO,
            ..Profile::web()
        },
        |_| {},
    );
    world.bucket.put("p/file", "old");
    let ino = world.walk("file").await.ino.0;
    let (old, flags) = world.open(ino).await;
    assert_eq!(flags, FopenFlags::FOPEN_KEEP_CACHE);
    assert_eq!(world.read(old).await.expect("read"), b"old");

    world.bucket.put("p/file", "newer");
    // The kernel cuts pages off by the size it is shown.
    assert_eq!(world.walk("file").await.size, 3);
    let refused = world.files.open(ino, OpenFlags(0), (0, 0)).await.map(drop);
    assert_eq!(refused, Err(Errno::ESTALE), "it looks again");
    let there = world.walk("file").await;
    assert_ne!(there.ino.0, ino);
    assert_eq!(there.size, 5);
    let (new, flags) = world.open(there.ino.0).await;
    assert_eq!(flags, FopenFlags::FOPEN_KEEP_CACHE);
    assert_eq!(world.read(new).await.expect("read"), b"newer");
    assert_eq!(world.read(old).await.expect("read"), b"old");
    let (attr, _) = world.files.getattr(ino).await.expect("attributes");
    assert_eq!(attr.size, 3);
    world.files.close(new).await;
    world.files.close(old).await;
    let ino = there.ino.0;

    // No handle has it open: its pages are dropped.
    world.bucket.put("p/file", "newest");
    let (third, flags) = world.open(ino).await;
    assert_eq!(flags, FopenFlags::FOPEN_KEEP_CACHE);
    assert_eq!(world.ear.heard(), [format!("pages {ino}")]);
    assert_eq!(world.read(third).await.expect("read"), b"newest");
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a flag");
    let (_, flags) = world
        .files
        .open(ino, OpenFlags(direct), BY)
        .await
        .expect("open");
    assert!(flags.contains(FopenFlags::FOPEN_DIRECT_IO));
}

/// A signal interrupts an open while the kernel is busy.
#[tokio::test]
async fn pages_that_an_open_had_to_drop_are_dropped_by_the_next_one_if_it_was_given_up() {
    let profile = Profile {
        ttl: Duration::ZERO,
        stale_while_revalidate: Duration::ZERO,
        ..Profile::web()
    };
    let world = World::with(profile, |_| {});
    world.bucket.put("p/file", "old");
    let ino = world.walk("file").await.ino.0;
    let (old, _) = world.open(ino).await;
    world.files.close(old).await;
    world.bucket.put("p/file", "newer");
    assert_eq!(world.walk("file").await.size, 5);
    assert_eq!(world.ear.heard(), [""; 0]);
    let (free, busy) = std::sync::mpsc::channel();
    *world.ear.busy.lock().expect("unpoisoned") = Some(busy);
    let files = world.files.clone();
    let given_up = tokio::spawn(async move { files.open(ino, OpenFlags(0), BY).await.map(drop) });
    while world.ear.busy.lock().expect("unpoisoned").is_some() {
        tokio::task::yield_now().await;
    }
    given_up.abort();
    assert!(given_up.await.is_err(), "it was cut");
    world.open(ino).await;
    assert_eq!(world.ear.heard(), [format!("pages {ino}")]);
    drop(free);
}

#[tokio::test]
async fn a_file_whose_bytes_are_nowhere_is_an_error() {
    let world = World::with(Profile::documents(), |_| {});
    world.bucket.put("p/file", vec![1; 4 << 20]);
    let (handle, _) = world.open(world.walk("file").await.ino.0).await;
    world.bucket.put("p/file", vec![2; 4 << 20]);
    let gone = world.files.read(handle, 3 << 20, 1000).await.map(drop);
    assert_eq!(gone, Err(Errno::EIO));
}

/// A library's scan: the first 64 KB of many files.
#[tokio::test]
async fn a_scan_starts_no_read_ahead() {
    const FILES: u64 = 200;
    let world = World::with(Profile::stream(), |_| {});
    // More than comes whole.
    let bytes = Bytes::from(vec![7; 5 << 18]);
    for n in 0..FILES {
        world.bucket.put(&format!("p/{n}"), bytes.clone());
    }
    let handle = world.files.open_folder(ROOT_INO).expect("the root");
    let folder = world.files.folder(handle).expect("open");
    let names = folder.at(0).await.expect("names");
    for (name, entry) in names.from(0) {
        let path = format!("p/{name}");
        let told = world.files.tell_listed(ROOT_INO, &path, entry);
        let ino = told.expect("it is there").0.ino.0;
        let (file, _) = world.open(ino).await;
        let read = world.files.read(file, 0, 64 << 10).await.expect("read");
        assert_eq!(read.as_ref().len(), 64 << 10);
        world.files.close(file).await;
    }
    // One request a file, for one chunk.
    assert_eq!((world.bucket.gets(), world.bucket.heads()), (FILES, 0));
    assert!(
        world.bucket.bytes() <= FILES * (256 << 10),
        "{}",
        world.bucket.bytes()
    );
}

/// A program that packs a folder of small files.
#[tokio::test]
async fn small_files_are_fetched_ahead_of_a_reader_in_sequence() {
    const FILES: u64 = 20;
    let world = World::new();
    for n in 0..FILES {
        world.bucket.put(&format!("p/{n:02}"), vec![n as u8; 8000]);
    }
    let handle = world.files.open_folder(ROOT_INO).expect("the root");
    let folder = world.files.folder(handle).expect("open");
    let names = folder.at(0).await.expect("names");
    for (n, (name, entry)) in names.from(0).iter().enumerate() {
        let told = world
            .files
            .tell_listed(ROOT_INO, &format!("p/{name}"), entry);
        let ino = told.expect("it is there").0.ino.0;
        let (file, _) = world.open(ino).await;
        // In the pieces that a kernel asks for.
        for piece in 0..2 {
            let read = world.files.read(file, piece * 4096, 4096).await;
            let read = read.expect("read");
            assert!(read.as_ref().iter().all(|byte| usize::from(*byte) == n));
        }
        world.files.close(file).await;
        if n == 2 {
            // Three were read: three more are on their way without a request.
            let arrived = async {
                while world.bucket.gets() < 6 {
                    tokio::task::yield_now().await;
                }
            };
            let arrived = tokio::time::timeout(Duration::from_secs(300), arrived).await;
            arrived.expect("fetched ahead");
        }
    }
    assert_eq!((world.bucket.gets(), world.bucket.heads()), (FILES, 0));
}
