//! Attributes of folders that are not in the bucket yet, while their folder is removed or renamed.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue};
use tidegate_engine::names::NameKind;
use tidegate_engine::times::KnownAttributes;
use tidegate_origin::fake::Fault;
use tidegate_plan::attributes::Attributes;
use tidegate_plan::digest::Digests;
use tidegate_write::FolderRename;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};

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

/// Returns a desk with a folder, and a change that waits for the file in it.
async fn with_a_changed_file() -> Desk {
    let desk = Desk::plain();
    desk.bucket().put("old/", "");
    desk.bucket().put("old/file", "bytes");
    let key = "old/file";
    let since = desk.world.engine.name_epoch();
    let found = desk.world.engine.look_up(source(&desk), key, true).await;
    let NameKind::File(facts) = found.expect("an answer").entry else {
        panic!("no file");
    };
    let attributes = Attributes {
        mode: Some(0o100_600),
        ..Attributes::default()
    };
    let (file, key) = ((&facts, since), valid(key));
    let changed = desk
        .writers
        .change_attributes(source(&desk), &key, file, attributes);
    changed.await.expect("changed");
    desk
}

/// The change of a file is due after the folder was listed: it goes with the copy, and the file is as it was listed.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_due_during_a_rename_goes_with_the_copy() {
    let desk = with_a_changed_file().await;
    let late = |seconds| [Fault::Latency(secs(seconds))];
    // The folder of the new name, and the one of the old.
    for _ in 0..2 {
        desk.bucket().fail_next(late(1));
    }
    desk.bucket().fail_from("copy", late(3), []);
    pass(Duration::from_millis(500)).await;
    rename(&desk).await;
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys(), ["new/", "new/file"]);
    let (file, _) = desk.bucket().object("new/file").expect("there");
    assert_eq!(Attributes::of(&file.headers).mode, Some(0o100_600));
    assert_eq!(desk.bucket().count("copy"), 2, "one an object");
}

/// The change is on its way when another program replaces the file: it is dropped, and the rename takes what is there.
#[tokio::test(start_paused = true)]
async fn a_change_that_comes_too_late_fails_no_rename() {
    let desk = with_a_changed_file().await;
    desk.bucket().fail_from("copy", [Fault::Latency(LATE)], []);
    pass(QUIET).await;
    assert_eq!(desk.bucket().writes(), ["copy"]);
    desk.bucket().put("old/file", "of another program");
    rename(&desk).await;
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys(), ["new/", "new/file"]);
    assert_eq!(desk.object("new/file"), Some("of another program".into()));
}

/// Metadata of another program.
const OTHERS: [(&str, &str); 2] = [("x-amz-meta-mood", "calm"), ("cache-control", "no-store")];

/// Checks that a folder has our mode, and the metadata of another program.
fn has_both(desk: &Desk, key: &str) {
    let (marker, _) = desk.bucket().object(key).expect("there");
    assert_eq!(Attributes::of(&marker.headers).mode, Some(MODE));
    for (name, value) in OTHERS {
        let found = marker.headers.iter().find(|(it, _)| it.as_str() == name);
        let found = found.map(|(_, value)| value.as_bytes());
        assert_eq!(found, Some(value.as_bytes()), "{name}");
    }
}

/// A folder that another program has made has metadata of that program.
#[tokio::test(start_paused = true)]
async fn another_programs_marker_keeps_its_other_metadata() {
    let desk = Desk::plain();
    desk.bucket().put_with("folder/", "", &OTHERS);
    // A HEAD before the first.
    for requests in [2, 1] {
        let before = desk.bucket().heads() as usize + desk.bucket().count("put");
        change(&desk, "folder/").await;
        desk.writers.settled().await;
        let after = desk.bucket().heads() as usize + desk.bucket().count("put");
        assert_eq!(after - before, requests);
        has_both(&desk, "folder/");
    }
}

/// A client puts a marker over HTTP. The gateway knows nothing of it from the one before.
#[tokio::test(start_paused = true)]
async fn a_marker_put_over_http_keeps_its_other_metadata() {
    let desk = Desk::plain();
    change(&desk, "folder/").await;
    desk.writers.settled().await;
    let header = |(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    };
    let incoming = IncomingObject {
        headers: OTHERS.map(header).to_vec(),
        wanted: WriteCondition::Anything,
        length: Some(0),
        digests: Digests::default(),
    };
    let (path, key) = (desk.writers.write_path(), valid("folder/"));
    let body = stream::empty::<Result<Bytes, ClientDisconnect>>();
    let put = path.receive(source(&desk), &key, incoming, body).await;
    put.expect("put");
    change(&desk, "folder/").await;
    desk.writers.settled().await;
    has_both(&desk, "folder/");
}

/// A folder is renamed to a name that an earlier folder had. The gateway knows nothing of its marker from that one.
#[tokio::test(start_paused = true)]
async fn a_renamed_folder_keeps_the_other_metadata_of_its_marker() {
    let desk = Desk::plain();
    desk.bucket().put("new/", "");
    change(&desk, "new/").await;
    desk.writers.settled().await;
    desk.bucket().put_with("old/", "", &OTHERS);
    desk.bucket().put("old/file", "bytes");
    rename(&desk).await;
    change(&desk, "new/").await;
    has_moved(&desk).await;
    has_both(&desk, "new/");
}
