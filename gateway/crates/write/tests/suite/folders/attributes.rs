//! Attributes of folders that are not in the bucket yet, while their folder is removed.

use std::time::Duration;

use tidegate_origin::fake::Fault;
use tidegate_plan::attributes::Attributes;

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
