//! Folders that are made here: they are there at once, and one that fails is not.

use super::*;

/// As on any file system, one of two callers makes it, and at that moment it is there for the
/// other.
#[tokio::test(start_paused = true)]
async fn of_two_that_make_a_folder_one_finds_it_made() {
    let world = World::closing(Commit::Close);
    let late = Fault::Latency(Duration::from_secs(5));
    for n in 0..3 {
        let name = format!("{n}");
        world.bucket.fail_from("put", [late.clone()], []);
        let make = async || {
            let made = world
                .files
                .mkdir(ROOT_INO, name.clone().into(), MAKER)
                .await;
            if made.is_err() {
                let folder = world.look(ROOT_INO, &name).await.expect("it is there");
                assert_eq!(folder.kind, FileType::Directory);
                world.put(folder.ino.0, "file").await;
            }
            made.map(drop)
        };
        // A third caller looks the name up while it is missing: that answer is not kept.
        let look = async {
            let found = world.look(ROOT_INO, &name).await.map(drop);
            assert_eq!(found, Err(Errno::ENOENT));
        };
        let (one, other, ()) = tokio::join!(make(), make(), look);
        assert_eq!((one, other), (Ok(()), Err(Errno::EEXIST)));
        let folder = world.look(ROOT_INO, &name).await.expect("made").ino.0;
        assert_eq!(world.scan(folder).await, ["file"]);
    }
    let puts = world.bucket.writes().into_iter();
    assert_eq!(puts.filter(|kind| *kind == "put").count(), 6);
}

/// A folder that could not be made is not there, and can be made.
#[tokio::test]
async fn a_folder_that_could_not_be_made_can_be_made_by_the_next() {
    let world = World::closing(Commit::Close);
    let down = Fault::Refuse(OriginError::Unavailable("down"));
    world.bucket.fail_from("put", [down], []);
    let make = || world.files.mkdir(ROOT_INO, "new".into(), MAKER);
    let (one, other) = tokio::join!(make(), make());
    assert_eq!(one.map(drop), Err(Errno::EIO));
    assert_eq!(other.map(drop), Ok(()));
    assert_eq!(make().await.map(drop), Err(Errno::EEXIST));
}

/// A new folder that follows behind is in the bucket once its parent was synced.
#[tokio::test(start_paused = true)]
async fn a_synced_folder_has_its_new_folders() {
    let world = World::closing(Commit::Background);
    let (year, _) = world
        .files
        .mkdir(ROOT_INO, "2026".into(), MAKER)
        .await
        .expect("made");
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_secs(3))]);
    let made = world.files.mkdir(year.ino.0, "11".into(), MAKER).await;
    made.expect("made");
    assert_eq!(world.files.fsync_folder(year.ino.0).await, Ok(()));
    assert!(world.bucket.object("p/2026/11/").is_some());
    // The bucket hangs: nothing is promised.
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_secs(600))]);
    let made = world.files.mkdir(year.ino.0, "12".into(), MAKER).await;
    made.expect("made");
    assert_eq!(world.files.fsync_folder(year.ino.0).await, Err(Errno::EIO));
    let file = world.files.fsync_folder(4711).await;
    assert_eq!(file, Err(Errno::ESTALE));
}

/// File managers make "New folder", and rename it right after.
#[tokio::test(start_paused = true)]
async fn a_new_folder_is_renamed_before_the_bucket_has_it() {
    let world = World::closing(Commit::Background);
    let made = world.files.mkdir(ROOT_INO, "new".into(), MAKER).await;
    let (folder, _) = made.expect("made");
    assert_eq!(world.look(ROOT_INO, "photos").await, Err(Errno::ENOENT));
    let renamed = (ROOT_INO, "new".into());
    let renamed = world
        .files
        .rename(renamed, (ROOT_INO, "photos".into()), true);
    assert_eq!(renamed.await, Ok(()));
    assert_eq!(world.bucket.writes().len(), 0);
    for settles in [false, true] {
        if settles {
            world.files.writers().expect("writable").settled().await;
        }
        assert_eq!(world.look(ROOT_INO, "new").await, Err(Errno::ENOENT));
        assert_eq!(world.walk("photos").await.ino, folder.ino);
        assert_eq!(world.scan(ROOT_INO).await, ["photos"]);
    }
    assert_eq!(world.bucket.keys(), ["p/photos/"]);
    assert_eq!(world.bucket.writes(), ["put"]);
}
