//! What the kernel is lent to read by itself, without a kernel.

use crate::engine::backing::{Backings, Settings, Under};

use super::*;

const SIZE: usize = 2 << 20;

/// A mount whose kernel reads by itself, and a file of it that is cached whole.
async fn passing() -> (World, u64) {
    let world = World::build(
        Profile::web(),
        |_| {},
        |engine, _, folder| {
            let settings = Settings {
                folder: folder.to_owned(),
                size: 64 << 20,
                min_free: 0,
            };
            let sound = Box::new(|| Under::Sound);
            let backings = Backings::start(engine, settings, sound);
            Access::Read(Some(backings.expect("a folder")))
        },
    );
    let passthrough = world.files.passthrough.as_ref();
    passthrough.expect("it has that").begin(true, true);
    world.bucket.put("p/file", vec![1; SIZE]);
    let ino = world.walk("file").await.ino.0;
    let (handle, _) = world.open(ino).await;
    world.read_all(handle).await;
    world.files.close(handle).await;
    pass().await;
    let (handle, _) = world.open(ino).await;
    assert!(
        world.files.lent(handle).is_none(),
        "what is read once is not laid out"
    );
    world.files.close(handle).await;
    (world, ino)
}

/// Time for an object to be laid out.
async fn pass() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

impl World {
    async fn read_all(&self, handle: u64) {
        for offset in (0..SIZE as u64).step_by(1 << 20) {
            let data = self.files.read(handle, offset, 1 << 20).await;
            assert_eq!(data.expect("read").as_ref().len(), 1 << 20);
        }
    }

    /// Reads the file through us, and waits for what comes of it.
    async fn reread(&self, ino: u64) {
        let (handle, _) = self.open(ino).await;
        self.read_all(handle).await;
        self.files.close(handle).await;
        pass().await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_handles_of_a_node_are_lent_the_same_or_nothing() {
    let (world, ino) = passing().await;
    let (early, _) = world.open(ino).await;
    world.reread(ino).await;
    let (late, flags) = world.open(ino).await;
    assert!(world.files.lent(late).is_none(), "the first is on our side");
    assert_eq!(flags, FopenFlags::FOPEN_KEEP_CACHE);
    world.files.close(early).await;
    world.files.close(late).await;

    let (first, flags) = world.open(ino).await;
    assert_eq!(flags, FopenFlags::empty(), "pages of ours are dropped");
    let lent = world.files.lent(first).expect("it is laid out");
    let (second, _) = world.open(ino).await;
    let same = world.files.lent(second).expect("as the first");
    assert!(Arc::ptr_eq(&lent, &same));
    // Who goes past every cache asks us, on a handle that is like the others for the kernel.
    let direct = OpenFlags(rustix::fs::OFlags::DIRECT.bits().cast_signed());
    let third = world.files.open(ino, direct, 0).await;
    let (third, flags) = third.expect("it opens");
    assert!(flags.contains(FopenFlags::FOPEN_DIRECT_IO));
    assert!(world.files.lent(third).is_some());
    world.read_all(third).await;
    for handle in [first, second] {
        world.files.close(handle).await;
    }
    let (fourth, _) = world.open(ino).await;
    assert!(world.files.lent(fourth).is_some(), "one is open still");
    for handle in [third, fourth] {
        world.files.close(handle).await;
    }
    // Plain files are closed behind the caller's back.
    pass().await;

    let third = world.files.open(ino, direct, 0).await;
    let (third, _) = third.expect("it opens");
    assert!(world.files.lent(third).is_none(), "alone it asks us");
    let (with_it, _) = world.open(ino).await;
    assert!(world.files.lent(with_it).is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_only_looked_into_is_not_laid_out() {
    let (world, ino) = passing().await;
    for _ in 0..10 {
        let (handle, _) = world.open(ino).await;
        world.files.read(handle, 0, 64 << 10).await.expect("read");
        world.files.close(handle).await;
        pass().await;
    }
    let (handle, _) = world.open(ino).await;
    assert!(world.files.lent(handle).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_kernel_that_refuses_is_asked_no_more() {
    let (world, ino) = passing().await;
    world.reread(ino).await;
    let passthrough = world.files.passthrough.as_ref().expect("it has that");
    let refused = || Err(std::io::Error::from(rustix::io::Errno::PERM));
    let (first, _) = world.open(ino).await;
    let lent = world.files.lent(first).expect("it is laid out");
    assert!(passthrough.known(&lent, |_| refused()).is_none());
    // Handles of this node that were lent it before go on alike.
    let (second, _) = world.open(ino).await;
    let same = world.files.lent(second).expect("as the first");
    let known = passthrough.known(&same, |_| unreachable!("it was asked"));
    assert!(known.is_none());
    for handle in [first, second] {
        world.files.close(handle).await;
    }
    pass().await;
    let (third, _) = world.open(ino).await;
    assert!(world.files.lent(third).is_none());
    world.read_all(third).await;
}
