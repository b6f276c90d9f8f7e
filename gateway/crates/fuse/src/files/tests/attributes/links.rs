//! Symbolic links that are not made.

use super::*;

impl World {
    async fn link(&self) -> Result<(), Errno> {
        let at = (ROOT_INO, "link".into());
        let made = self.files.symlink(at, "target".into(), CLERK).await;
        made.map(drop)
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
