//! Attributes of a folder that is renamed over an empty one.

use super::*;

impl World {
    async fn folder(&self, name: &str, mode: u32) -> u64 {
        let creator = Creator { mode, ..CLERK };
        let made = self.files.mkdir(ROOT_INO, name.into(), creator).await;
        made.expect("made").0.ino.0
    }

    /// Renames the folder `a` to `b`.
    async fn replace(&self) -> Result<(), Errno> {
        let names = ((ROOT_INO, "a".into()), (ROOT_INO, "b".into()));
        let renamed = self.files.rename(names.0, names.1, false).await;
        self.all_sent().await;
        renamed
    }

    /// Returns the mode of `b` that programs see, after a check that the bucket has it.
    async fn mode(&self) -> u16 {
        let shown = self.walk("b").await.perm;
        let stored = self.attributes("p/b/").permissions();
        assert_eq!(stored, Some(shown.into()));
        shown
    }
}

#[tokio::test]
async fn a_folder_keeps_its_mode_over_an_empty_one() {
    for waits in [false, true] {
        let world = World::keeping();
        world.folder("a", 0o700).await;
        let replaced = world.folder("b", 0o755).await;
        world.bucket.put("p/a/file", "bytes");
        if waits {
            world.set(replaced, mode(0o777)).await;
        }
        assert_eq!(world.replace().await, Ok(()));
        assert_eq!(world.mode().await, 0o700, "{waits}");
        assert_eq!(world.bucket.keys(), ["p/b/", "p/b/file"]);
        // A change that waits comes along.
        let world = World::keeping();
        let folder = world.folder("a", 0o755).await;
        world.folder("b", 0o755).await;
        world.set(folder, mode(0o700)).await;
        assert_eq!(world.replace().await, Ok(()));
        assert_eq!(world.mode().await, 0o700);
    }
}

#[tokio::test]
async fn a_folder_without_a_marker_takes_none_over() {
    for waits in [false, true] {
        let world = World::keeping();
        world.bucket.put("p/a/file", "bytes");
        world.folder("b", 0o700).await;
        let shown = world.walk("a").await;
        if waits {
            world.set(shown.ino.0, mode(0o711)).await;
        }
        assert_eq!(world.replace().await, Ok(()));
        assert_eq!(world.walk("b/file").await.size, 5);
        if waits {
            assert_eq!(world.mode().await, 0o711);
        } else {
            assert_eq!(world.walk("b").await.perm, shown.perm);
            assert_eq!(world.bucket.keys(), ["p/b/file"]);
        }
    }
}

#[tokio::test]
async fn an_empty_folder_that_is_not_replaced_keeps_its_mode() {
    let world = World::keeping();
    world.folder("a", 0o700).await;
    world.folder("b", 0o755).await;
    world.bucket.put("p/a/file", "bytes");
    let down = Fault::Refuse(OriginError::Unavailable("down"));
    world.bucket.fail_from("copy", [down], []);
    assert_eq!(world.replace().await, Err(Errno::EIO));
    assert_eq!(world.mode().await, 0o755);
    assert_eq!(world.bucket.keys(), ["p/a/", "p/a/file", "p/b/"]);
}
