//! Programs that work in a folder while it is renamed, and other processes that change it.

use super::*;

/// A file that another process adds or changes meanwhile was not copied. The rename deletes neither it nor any other.
#[tokio::test(start_paused = true)]
async fn what_another_process_changes_meanwhile_stays() {
    for (key, bytes) in [("p/old/late", "late"), ("p/old/deep/c", "other")] {
        let world = World::with_a_folder();
        world.walk("old").await;
        let late = Fault::Latency(Duration::from_secs(5));
        world.bucket.fail_from("copy", [late], []);
        let change = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.bucket.put(key, bytes);
        };
        let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), change);
        assert_eq!(renamed, Err(Errno::ESTALE), "{key}");
        assert_eq!(world.stored_text(key), bytes);
        assert!(world.has_no("p/new"));
        assert_eq!(world.look(ROOT_INO, "new").await, Err(Errno::ENOENT));
    }
}

/// A mode that a folder in it gets meanwhile is that of the folder under its new name.
#[tokio::test(start_paused = true)]
async fn a_mode_that_is_set_meanwhile_moves_with_its_folder() {
    let world = World::keeping();
    world.bucket.put("p/old/sub/file", "bytes");
    let sub = world.walk("old/sub").await.ino.0;
    let late = Fault::Latency(Duration::from_secs(5));
    world.bucket.fail_from("copy", [late], []);
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let set = SetAttr {
            mode: Some(0o700),
            ..SetAttr::default()
        };
        world.files.setattr(sub, set).await.expect("set");
    };
    let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), change);
    assert_eq!(renamed, Ok(()));
    world.files.writers().expect("writable").settled().await;
    assert_eq!(world.bucket.keys(), ["p/new/sub/", "p/new/sub/file"]);
    assert_eq!(world.walk("new/sub").await.perm, 0o700);
}

/// Names that are used while their folder is renamed become names in the renamed folder.
#[tokio::test(start_paused = true)]
async fn what_is_begun_in_a_folder_that_is_renamed_comes_under_its_new_name() {
    let world = World::with_a_folder();
    let old = world.walk("old").await.ino.0;
    let b = world.walk("old/b").await.ino.0;
    let late = Fault::Latency(Duration::from_secs(5));
    world.bucket.fail_from("copy", [late], []);
    let begin = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let create = async {
            let created = world.files.create(old, "late".into(), 0, MAKER).await;
            let (_, handle, _) = created.expect("created");
            world.files.close(handle).await;
        };
        let write = async {
            let opened = world.files.open(b, WRITE, BY).await;
            let (handle, _) = opened.expect("opened");
            let bytes = Bytes::from_static(b"changed");
            world
                .files
                .write((handle, 0), 0, bytes, false)
                .await
                .expect("written");
            assert_eq!(world.files.flush(handle, 0).await, Ok(()));
            world.files.close(handle).await;
        };
        let make = world.files.mkdir(old, "sub".into(), MAKER);
        let remove = world.files.unlink(old, "e".into());
        let (made, removed, ..) = tokio::join!(make, remove, create, write);
        assert_eq!((made.map(drop), removed), (Ok(()), Ok(())));
    };
    let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), begin);
    assert_eq!(renamed, Ok(()));
    while world.bucket.object("p/new/late").is_none() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(world.stored_text("p/new/b"), "changed");
    assert!(world.bucket.object("p/new/sub/").is_some());
    assert!(world.bucket.object("p/new/e").is_none());
    assert!(world.has_no("p/old/"));
}

/// A program that waits for a folder's rename waits for longer than the deadline, as long as the rename gets on.
#[tokio::test(start_paused = true)]
async fn a_long_rename_fails_no_program_that_waits_for_it() {
    let world = World::with_a_folder();
    let old = world.walk("old").await.ino.0;
    assert_eq!(world.look(ROOT_INO, "new").await, Err(Errno::ENOENT));
    let begun = tokio::time::Instant::now();
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_secs(9))]);
    let begin = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let made = world.files.mkdir(old, "sub".into(), MAKER).await;
        assert!(begun.elapsed() > world.files.settings.deadline);
        assert_eq!(made.map(drop), Ok(()));
    };
    let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), begin);
    assert_eq!(renamed, Ok(()));
    assert!(world.bucket.object("p/new/sub/").is_some());
    // One that hangs fails it in time.
    let late = Fault::Latency(Duration::from_secs(600));
    world.bucket.set_faults([late]);
    let begin = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = tokio::time::Instant::now();
        let made = world.files.mkdir(old, "more".into(), MAKER).await;
        assert_eq!(made.map(drop), Err(Errno::EIO));
        assert_eq!(began.elapsed(), world.files.settings.deadline);
        world.bucket.set_faults([]);
    };
    let (renamed, ()) = tokio::join!(world.rename_top("new", "old"), begin);
    assert_eq!(renamed, Ok(()));
}

/// While the old objects are deleted they are hidden. A program in the folder finds its files as soon as they have
/// their new names.
#[tokio::test(start_paused = true)]
async fn a_name_in_a_folder_whose_old_objects_are_deleted_is_found_under_the_new_one() {
    let world = World::with_a_folder();
    let (old, a) = (world.walk("old").await.ino.0, world.walk("old/a").await);
    world.walk("old/e").await;
    let late = Fault::Latency(Duration::from_secs(5));
    world.bucket.fail_from("delete", [late], []);
    let begin = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.bucket.count("copy"), 6);
        assert_eq!(world.look(old, "a").await.expect("there").ino, a.ino);
        let moved = world.files.rename(name(old, "e"), name(old, "f"), false);
        assert_eq!(moved.await, Ok(()));
    };
    let (renamed, ()) = tokio::join!(world.rename_top("old", "new"), begin);
    assert_eq!(renamed, Ok(()));
    assert_eq!(world.stored_text("p/new/f"), "e");
}
