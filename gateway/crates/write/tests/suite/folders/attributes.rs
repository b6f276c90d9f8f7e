//! Attributes of folders that are not in the bucket yet, while their folder is removed or renamed.

use std::time::Duration;

use tidegate_engine::times::KnownAttributes;
use tidegate_origin::fake::Fault;
use tidegate_plan::attributes::Attributes;
use tidegate_write::FolderRename;

use crate::support::engine::{pass, secs, valid};
use crate::support::spool::{Desk, source};

/// Longer than a change waits for others.
const QUIET: Duration = secs(3);

/// The delay of an answer of the bucket.
const LATE: Duration = secs(6);

const MODE: u32 = 0o40_700;

/// Gives a folder a mode.
async fn change(desk: &Desk, key: &str) {
    let attributes = Attributes {
        mode: Some(MODE),
        ..Attributes::default()
    };
    let (source, key) = (source(desk), valid(key));
    let changed = desk.writers.change_folder(source, &key, attributes).await;
    changed.expect("changed");
}

/// The change is due while the request that removes the folder is under way.
#[tokio::test(start_paused = true)]
async fn a_removed_folder_does_not_come_back_with_its_change() {
    let desk = Desk::plain();
    desk.bucket().put("folder/", "");
    change(&desk, "folder/").await;
    let late = [Fault::Latency(LATE)];
    desk.bucket().fail_from("delete", late, []);
    let key = valid("folder/");
    let removed = desk.writers.remove(source(&desk), &key).await;
    removed.expect("removed");
    desk.writers.settled().await;
    pass(QUIET).await;
    assert_eq!(desk.bucket().writes(), ["delete"]);
    assert!(desk.bucket().keys().is_empty());
}

/// Renames the folder `old/`.
async fn rename(desk: &Desk) {
    let (writers, names) = (&desk.writers, ["old/", "new/"]);
    let lock = writers.lock_folders(source(desk), names).await;
    let renamed = writers.rename_folder(source(desk), names.into(), 9, &lock);
    assert!(matches!(renamed.await, Ok(FolderRename::Copied(_))));
}

/// Checks that the bucket has the folder under its new name alone, with its mode.
async fn has_moved(desk: &Desk) {
    desk.writers.settled().await;
    pass(LATE).await;
    assert_eq!(desk.bucket().keys(), ["new/", "new/file"]);
    let (marker, _) = desk.bucket().object("new/").expect("there");
    assert_eq!(Attributes::of(&marker.headers).mode, Some(MODE));
}

/// Another program may make a folder of the old name, which has nothing of this one.
#[tokio::test(start_paused = true)]
async fn nothing_is_known_of_a_renamed_folder_under_its_old_name() {
    let desk = Desk::plain();
    desk.bucket().put("old/file", "bytes");
    change(&desk, "old/").await;
    rename(&desk).await;
    let engine = &desk.world.engine;
    let known = engine.known_folder(source(&desk), "old/");
    let attributes = known.map(|known| known.attributes).unwrap_or_default();
    assert_eq!(attributes, KnownAttributes::Unknown);
    has_moved(&desk).await;
}

/// The marker is on its way when the rename begins.
#[tokio::test(start_paused = true)]
async fn a_marker_that_is_just_put_is_renamed_with_its_folder() {
    let desk = Desk::plain();
    desk.bucket().put("old/file", "bytes");
    change(&desk, "old/").await;
    let late = [Fault::Latency(LATE)];
    desk.bucket().fail_from("put", late, []);
    pass(QUIET).await;
    assert_eq!(desk.bucket().writes(), ["put"]);
    rename(&desk).await;
    has_moved(&desk).await;
}
