//! Symbolic links that are not made.

use super::*;

impl World {
    async fn link(&self) -> Result<(), Errno> {
        let at = (ROOT_INO, "link".into());
        let made = self.files.symlink(at, "target".into(), CLERK).await;
        made.map(drop)
    }

    /// Lists the root, and asks for no types.
    async fn first_page(&self) -> Arc<FolderPage> {
        let handle = self.files.open_folder(ROOT_INO).expect("open");
        let folder = self.files.folder(handle).expect("open");
        let page = folder.listed_at(0).await.expect("listed");
        page.expect("of this folder")
    }
}

/// The error is the answer: nothing of the link follows it, and the program can try again.
#[tokio::test]
async fn a_link_that_failed_is_not_there() {
    let world = World::keeping();
    let down = Fault::Refuse(OriginError::Unavailable("down"));
    world.bucket.fail_from("put", [down], []);
    assert_eq!(world.link().await, Err(Errno::EIO));
    world.all_sent().await;
    assert_eq!(world.stored("p/link"), None);
    assert_eq!(world.look(ROOT_INO, "link").await, Err(Errno::ENOENT));
    assert_eq!(world.link().await, Ok(()));
    assert_eq!(world.stored("p/link").expect("there"), "target");
}

#[tokio::test]
async fn a_link_replaces_no_file_of_another_program() {
    let world = World::keeping();
    assert_eq!(world.look(ROOT_INO, "link").await, Err(Errno::ENOENT));
    world.bucket.put("p/link", "of another program");
    assert_eq!(world.link().await, Err(Errno::EEXIST));
    world.all_sent().await;
    let size = world.walk("link").await.size;
    assert_eq!(size, "of another program".len() as u64);
}

/// Only the headers of a small object say that it is a link. While the bucket does not tell them, it is a regular file, as its
/// listing shows it.
#[tokio::test(start_paused = true)]
async fn a_name_of_unknown_type_is_known_in_an_outage() {
    let down = Fault::Refuse(OriginError::Unavailable("down"));
    let hangs = Fault::Latency(Duration::from_secs(600));
    for fault in [down, hangs] {
        let world = World::keeping();
        world.bucket.put("p/small", "12345");
        world.first_page().await;
        world.bucket.set_faults([fault]);
        let begun = tokio::time::Instant::now();
        let found = world.look(ROOT_INO, "small").await.expect("known");
        assert_eq!((found.kind, found.size), (FileType::RegularFile, 5));
        assert!(begun.elapsed() < world.files.settings.deadline);
        // At once: the bucket has failed a moment before.
        let begun = tokio::time::Instant::now();
        world.files.getattr(found.ino.0).await.expect("known");
        assert!(begun.elapsed() < world.files.settings.deadline);
    }
}

/// A listing waits a bounded time for the types of its names. The bucket that is late with them is asked for others.
#[tokio::test(start_paused = true)]
async fn types_that_a_listing_gave_up_refuse_no_other_name() {
    let world = World::keeping();
    world.bucket.put("p/small", "12345");
    world.bucket.put("p/other/large", vec![7; 5000]);
    let page = world.first_page().await;
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_secs(600))]);
    let learn = world.files.learn_types("p/", &page);
    let given_up = tokio::time::timeout(Duration::from_secs(10), learn).await;
    assert!(given_up.is_err(), "it hangs");
    let healthy = Fault::Latency(Duration::from_millis(20));
    world.bucket.set_faults([healthy]);
    let other = world.walk("other").await.ino.0;
    world
        .look(other, "large")
        .await
        .expect("the bucket answers");
}
