//! Folders that the bucket lists although no key is in them: MinIO with versions does.

use super::*;

/// Returns a world in which every name is asked for anew.
fn forgetful() -> World {
    let profile = Profile {
        ttl: Duration::ZERO,
        negative_ttl: Duration::ZERO,
        ..Profile::web()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let bucket = FakeOrigin::new().with_remnants();
    World::over((bucket, folder), profile, |_| {}, World::write_access)
}

#[tokio::test]
async fn a_folder_that_was_renamed_or_removed_stays_away() {
    let world = forgetful();
    world.bucket.put("p/old/deep/a", "a");
    world.bucket.put("p/removed/", "");
    assert_eq!(world.scan(ROOT_INO).await, ["old", "removed"]);
    assert_eq!(world.rename_top("old", "new").await, Ok(()));
    let removed = world.files.rmdir(ROOT_INO, "removed".into()).await;
    assert_eq!(removed, Ok(()));
    assert_eq!(world.scan(ROOT_INO).await, ["new"]);
    for gone in ["old", "removed"] {
        assert_eq!(world.look(ROOT_INO, gone).await, Err(Errno::ENOENT));
    }
}

#[tokio::test]
async fn a_folder_without_a_key_is_removed_for_good_and_can_be_made_again() {
    let world = forgetful();
    world.bucket.put("p/gone/a", "a");
    world.bucket.delete("p/gone/a");
    assert_eq!(world.scan(ROOT_INO).await, ["gone"], "as the bucket says");
    let removed = world.files.rmdir(ROOT_INO, "gone".into()).await;
    assert_eq!(removed, Ok(()));
    assert!(world.scan(ROOT_INO).await.is_empty());
    let made = world.files.mkdir(ROOT_INO, "gone".into(), MAKER).await;
    assert!(made.is_ok());
    assert_eq!(world.scan(ROOT_INO).await, ["gone"]);
}
