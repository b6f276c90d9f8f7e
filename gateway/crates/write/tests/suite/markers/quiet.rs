//! Markers that wait until their folder is quiet, while the folder is changed, renamed or removed.

use tidegate_write::FolderRename;

use super::*;

/// A program that copies a tree makes a folder, fills it, and sets its attributes in the end: one PUT for the folder.
#[tokio::test(start_paused = true)]
async fn a_new_folder_costs_one_put_with_the_attributes_that_it_has_in_the_end() {
    let desk = Desk::new(Terms::background());
    let (writers, source, folder) = (&desk.writers, source(&desk), valid("folder/"));
    desk.makes("folder/", Some(with_mode(0o40_700))).await;
    for n in 0..5 {
        pass(secs(1)).await;
        desk.write(&format!("folder/{n}"), &"bytes".into()).await;
        writers.touch_folder(source, "folder/");
    }
    let changed = writers.change_folder(source, &folder, with_mode(0o40_755));
    changed.await.expect("changed");
    pass(secs(3)).await;
    writers.settled().await;
    assert_eq!(desk.bucket().count("put"), 6);
    let (marker, _) = desk.bucket().object("folder/").expect("put");
    assert_eq!(Attributes::of(&marker.headers).mode, Some(0o40_755));
    assert_eq!(desk.bucket().heads(), 0);
}

/// A folder that is filled all the time is in the bucket all the same.
#[tokio::test(start_paused = true)]
async fn a_folder_that_is_never_quiet_waits_for_a_bounded_time() {
    let desk = Desk::new(Terms::background());
    let (writers, source) = (&desk.writers, source(&desk));
    desk.makes("folder/", None).await;
    for second in 0..25 {
        assert_eq!(desk.object("folder/").is_some(), second > 20, "{second}");
        pass(secs(1)).await;
        writers.touch_folder(source, "folder/");
    }
}

/// A folder that is removed before its marker was sent leaves nothing, and no sync waits for it.
#[tokio::test(start_paused = true)]
async fn a_folder_that_is_removed_at_once_is_never_put() {
    let desk = Desk::new(Terms::background());
    let (writers, source, folder) = (&desk.writers, source(&desk), valid("folder/"));
    for _ in 0..2 {
        desk.makes("folder/", None).await;
        writers.remove(source, &folder).await.expect("removed");
        let begun = tokio::time::Instant::now();
        writers.sync_folder(source, "").await.expect("synced");
        assert!(begun.elapsed() < secs(1));
    }
    assert!(writers.markers_below(source, "").is_empty());
    let next = desk.switched_off([], &Terms::background()).await;
    next.writers.settled().await;
    assert_eq!(next.bucket().count("put"), 0);
}

/// A process that ends before the marker was sent leaves it to the next one.
#[tokio::test(start_paused = true)]
async fn a_killed_process_loses_no_new_folder() {
    let desk = Desk::new(Terms::background());
    desk.makes("folder/", Some(with_mode(0o40_700))).await;
    let next = desk.switched_off([], &Terms::background()).await;
    next.writers.settled().await;
    assert_eq!(next.bucket().keys(), ["folder/"]);
}

/// A new folder can be renamed, or replaced by a rename, before its marker was sent.
#[tokio::test(start_paused = true)]
async fn a_new_folder_is_renamed_before_its_marker_is_sent() {
    for (from, to) in [("one/", "other/"), ("one/", "two/"), ("full/", "two/")] {
        let desk = Desk::new(Terms::background());
        let (writers, source) = (&desk.writers, source(&desk));
        desk.bucket().put("full/file", "bytes");
        for (key, mode) in [
            ("one/", 0o40_701),
            ("one/in/", 0o40_702),
            ("two/", 0o40_703),
        ] {
            desk.makes(key, Some(with_mode(mode))).await;
        }
        let lock = writers.lock_folders(source, [from, to]).await;
        let renamed = writers.rename_folder(source, (from, to), 9, &lock).await;
        assert!(
            matches!(renamed, Ok(FolderRename::Copied(_))),
            "{from} {to}"
        );
        drop(lock);
        let is_known = |path: &str| desk.world.engine.known(source, path);
        let known = is_known(from.trim_end_matches('/')).map(|known| known.entry);
        assert!(matches!(known, None | Some(NameKind::Missing)), "{known:?}");
        writers.settled().await;
        let mode = |key: &str| {
            let (marker, _) = desk.bucket().object(key).expect(key);
            Attributes::of(&marker.headers).mode
        };
        let keys = desk.bucket().keys();
        match (from, to) {
            ("full/", _) => assert_eq!(keys, ["one/", "one/in/", "two/file"]),
            (_, "two/") => assert_eq!(keys, ["full/file", "two/", "two/in/"]),
            _ => assert_eq!(keys, ["full/file", "other/", "other/in/", "two/"]),
        }
        if from == "one/" {
            assert_eq!(mode(to), Some(0o40_701));
            assert_eq!(mode(&format!("{to}in/")), Some(0o40_702));
        }
    }
}
