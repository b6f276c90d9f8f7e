//! Files whose name is gone while they are open, and copies, as the mount sees them.

use rustix::fs::FallocateFlags;

use super::*;
use crate::files::CopyEnd;
use tidegate_plan::attributes::UnixTime;

impl World {
    async fn nlink_and_size(&self, ino: u64) -> (u32, u64) {
        let (attr, _) = self.files.getattr(ino).await.expect("it is open");
        (attr.nlink, attr.size)
    }

    async fn copied(&self, from: (u64, u64), to: (u64, u64), length: u64) -> Result<u32, Errno> {
        let end = |(handle, offset)| CopyEnd { handle, offset };
        self.files
            .copy_range(end(from), (end(to), US), length)
            .await
    }
}

#[tokio::test]
async fn a_file_that_is_removed_or_replaced_lives_on() {
    for is_replaced in [false, true] {
        let world = World::writable();
        let (ino, handle) = world.create("file").await;
        world.write(handle, 0, "written").await;
        let (reader, _) = world.open(ino).await;
        if is_replaced {
            let (_, other) = world.create("other").await;
            world.write(other, 0, "another").await;
            world.done(other).await;
            let (from, to) = (OsString::from("other"), OsString::from("file"));
            let renamed = world.files.rename((ROOT_INO, from), (ROOT_INO, to), false);
            assert_eq!(renamed.await, Ok(()));
        } else {
            let removed = world.files.unlink(ROOT_INO, "file".into()).await;
            assert_eq!(removed, Ok(()));
        }
        let left = world.stored("p/file");
        assert_eq!(left.as_deref(), is_replaced.then_some(&b"another"[..]));
        assert_eq!(world.text(handle).await, "written");
        assert_eq!(world.nlink_and_size(ino).await, (0, 7));
        world.write(handle, 7, " on").await;
        assert_eq!(world.text(reader).await, "written on");
        let set = SetAttr {
            size: Some(4),
            modified: Some(UnixTime::new(1_700_000_000, 5)),
            ..SetAttr::default()
        };
        let (attr, _) = world.files.setattr(ino, set).await.expect("it has a draft");
        assert_eq!((attr.nlink, attr.size), (0, 4));
        assert_eq!(world.files.fsync(ino, handle).await, Ok(()));
        world.done(handle).await;
        assert_eq!(world.text(reader).await, "writ", "until the last close");
        // Another file of the name has nothing to do with it.
        let (there, next) = world.create("file").await;
        assert_ne!(there, ino);
        world.write(next, 0, "another one").await;
        assert_eq!(world.text(reader).await, "writ");
        world.done(next).await;
        world.files.close(reader).await;
        assert_eq!(world.stored("p/file").expect("there"), "another one");
        assert_eq!(world.files.getattr(ino).await, Err(Errno::ESTALE));
        let writers = &world.files.writable.as_ref().expect("writable").writers;
        writers.settled().await;
        assert_eq!(writers.spooled().0, 0);
    }
}

#[tokio::test]
async fn a_reader_of_a_removed_version_has_what_is_cached() {
    let world = World::writable();
    let long = "0123456789".repeat(300_000);
    world.bucket.put("p/file", long.clone());
    let ino = world.walk("file").await.ino.0;
    let (handle, _) = world.open(ino).await;
    assert_eq!(world.text(handle).await, long[..1 << 20]);
    assert_eq!(world.files.unlink(ROOT_INO, "file".into()).await, Ok(()));
    assert_eq!(world.nlink_and_size(ino).await, (0, 3_000_000));
    assert_eq!(world.text(handle).await, long[..1 << 20]);
    let rest = world.files.read(handle, 2_900_000, 100).await;
    assert_eq!(rest.map(drop), Err(Errno::EIO));
}

#[tokio::test]
async fn a_copy_is_made_by_the_store_or_through_the_spool() {
    let world = World::writable();
    let long = Bytes::from("0123456789".repeat(300_000));
    world.bucket.put("p/file", long.clone());
    let ino = world.walk("file").await.ino.0;
    let (from, _) = world.open(ino).await;
    let (_, to) = world.create("copy").await;
    let before = world.bucket.bytes();
    assert_eq!(
        world.copied((from, 0), (to, 0), 1 << 40).await,
        Ok(3_000_000)
    );
    assert_eq!(
        world.copied((from, 3_000_000), (to, 3_000_000), 99).await,
        Ok(0)
    );
    world.done(to).await;
    assert_eq!(world.stored("p/copy"), Some(long.clone()));
    assert!(
        world.bucket.bytes() - before < 1 << 20,
        "the first chunk at most"
    );

    // To another offset, from a draft, and onto itself.
    let (_, to) = world.create("shifted").await;
    world.write(to, 0, "head ").await;
    assert_eq!(world.copied((from, 10), (to, 5), 20).await, Ok(20));
    assert_eq!(world.copied((to, 0), (to, 25), 5).await, Ok(5));
    let (_, more) = world.create("more").await;
    assert_eq!(world.copied((to, 0), (more, 0), 4).await, Ok(4));
    world.done(to).await;
    world.done(more).await;
    let shifted = "head 01234567890123456789head ";
    assert_eq!(world.stored("p/shifted").expect("there"), shifted);
    assert_eq!(world.stored("p/more").expect("there"), "head");
    let refused = world.copied((to, 0), (from, 0), 4).await;
    assert_eq!(refused, Err(Errno::EBADF), "it is not open to be written");
}

#[tokio::test]
async fn ranges_are_zeroed_and_other_modes_refused() {
    let world = World::writable();
    let (ino, handle) = world.create("file").await;
    world.write(handle, 0, "0123456789").await;
    let mode = |flags: FallocateFlags| i32::try_from(flags.bits()).expect("small");
    let keep = FallocateFlags::KEEP_SIZE;
    let allocate = |at, length, flags| world.files.allocate(handle, at, length, mode(flags));
    let hole = FallocateFlags::PUNCH_HOLE;
    assert_eq!(allocate(2, 3, hole | keep).await, Ok(()));
    assert_eq!(world.text(handle).await, "01\x00\x00\x0056789");
    assert_eq!(allocate(8, 4, FallocateFlags::ZERO_RANGE).await, Ok(()));
    assert_eq!(
        world.text(handle).await,
        "01\x00\x00\x00567\x00\x00\x00\x00"
    );
    assert_eq!(allocate(0, 1 << 20, keep).await, Ok(()));
    assert_eq!(world.nlink_and_size(ino).await, (1, 12));
    assert_eq!(allocate(0, 14, FallocateFlags::empty()).await, Ok(()));
    assert_eq!(world.nlink_and_size(ino).await, (1, 14));
    for flags in [hole, FallocateFlags::COLLAPSE_RANGE] {
        assert_eq!(allocate(0, 4096, flags).await, Err(Errno::EOPNOTSUPP));
    }
    let refused = world.files.allocate(handle, u64::MAX, 2, 0).await;
    assert_eq!(refused, Err(Errno::EFBIG));
}
