//! Attributes of files that are open.

use std::time::{Duration, SystemTime};

use super::*;

/// fchmod(2) through a handle that reads: its file's ctime moves, also once the file has no name.
#[tokio::test]
async fn a_changed_mode_moves_the_ctime_of_a_file_that_is_open() {
    let world = World::keeping();
    let ino = world.filled("file", "12345").await;
    let (handle, _) = world.open(ino).await;
    let show = || async { world.files.getattr(ino).await.expect("open").0 };
    let mut before = show().await;
    for (perm, is_linked) in [(0o600, true), (0o640, false)] {
        if !is_linked {
            let removed = world.files.unlink(ROOT_INO, "file".into()).await;
            assert_eq!(removed, Ok(()));
        }
        // Times have milliseconds.
        while SystemTime::now() <= before.ctime + Duration::from_millis(1) {
            tokio::task::yield_now().await;
        }
        world.set(ino, mode(perm.into())).await;
        let after = show().await;
        assert_eq!((after.perm, after.nlink), (perm, u32::from(is_linked)));
        assert_eq!((after.uid, after.mtime), (before.uid, before.mtime));
        assert!(after.ctime > before.ctime, "{after:?}");
        before = after;
    }
    world.all_sent().await;
    assert_eq!(world.bucket.writes(), ["put", "delete"]);
    world.files.close(handle).await;
    assert_eq!(world.files.getattr(ino).await, Err(Errno::ESTALE));
}

#[tokio::test]
async fn a_file_that_another_user_truncates_lends_no_rights() {
    let world = World::keeping();
    for (caller, perm) in [(0, 0o6755), (1000, 0o755)] {
        let ino = world.filled("file", "12345").await;
        let cut = |size, handle| SetAttr {
            size: Some(size),
            handle,
            caller,
            ..SetAttr::default()
        };
        for size in [3, 9, 0] {
            world.set(ino, mode(0o6755)).await;
            world.set(ino, cut(size, None)).await;
            let shown = world.walk("file").await;
            assert_eq!((shown.perm, shown.size), (perm, size), "by its name");
        }
        world.set(ino, mode(0o6755)).await;
        let opened = world.files.open(ino, OpenFlags(1), BY).await;
        let (handle, _) = opened.expect("it opens");
        world.set(ino, cut(4, Some(handle))).await;
        assert_eq!(world.walk("file").await.perm, perm, "by a handle");
        let removed = world.files.unlink(ROOT_INO, "file".into()).await;
        assert_eq!(removed, Ok(()));
        world.set(ino, mode(0o6755)).await;
        world.set(ino, cut(2, None)).await;
        let shown = world.files.getattr(ino).await.expect("open").0;
        assert_eq!((shown.perm, shown.size), (perm, 2), "without a name");
        world.files.close(handle).await;
    }
}

/// The store gives an object that went up in parts another tag when its metadata is changed. It is the same file.
#[tokio::test]
async fn an_open_file_stays_one_over_a_change_of_its_mode() {
    let world = World::keeping();
    let bytes = Bytes::from(vec![7; 6 << 20]);
    let before = world
        .bucket
        .put_tagged("p/file", "\"parts-2\"", bytes.clone());
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    let head = world.files.read(reader, 0, 1000).await.expect("read");
    assert_eq!(head.as_ref(), &bytes[..1000]);
    world.set(ino, mode(0o600)).await;
    world.all_sent().await;
    let (after, _) = world.bucket.object("p/file").expect("there");
    assert_ne!(before.etag, after.etag, "the test means something");
    let (second, _) = world.open(ino).await;
    let opened = world.files.open(ino, OpenFlags(1), BY).await;
    let (writer, _) = opened.expect("it opens");
    world.files.close(writer).await;
    assert_eq!(world.walk("file").await.ino.0, ino);
    let names = ((ROOT_INO, "file".into()), (ROOT_INO, "moved".into()));
    assert_eq!(world.files.rename(names.0, names.1, false).await, Ok(()));
    assert_eq!(world.walk("moved").await.ino.0, ino);
    for handle in [reader, second] {
        let read = world.files.read(handle, 5 << 20, 1000).await;
        assert_eq!(read.expect("read").as_ref(), &bytes[..1000]);
        world.files.close(handle).await;
    }
}

/// The file is renamed with no open in between that would tell the mount of the copy.
#[tokio::test]
async fn a_reader_goes_on_over_a_change_of_the_mode_and_a_rename() {
    let world = World::keeping();
    let bytes = Bytes::from(vec![7; 6 << 20]);
    world
        .bucket
        .put_tagged("p/file", "\"parts-2\"", bytes.clone());
    let ino = world.walk("file").await.ino.0;
    let (reader, _) = world.open(ino).await;
    world.set(ino, mode(0o600)).await;
    world.all_sent().await;
    let names = ((ROOT_INO, "file".into()), (ROOT_INO, "moved".into()));
    assert_eq!(world.files.rename(names.0, names.1, false).await, Ok(()));
    let read = world.files.read(reader, 5 << 20, 1000).await;
    assert_eq!(read.expect("read").as_ref(), &bytes[..1000]);
    world.files.close(reader).await;
}
