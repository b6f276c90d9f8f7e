//! Other programs put objects under the new name of a folder while it is renamed. They stay.

use tidegate_write::{Commit, FolderRename, WriteError};

use super::*;
use crate::support::spool::{put, source, until};

const NAMES: (&str, &str) = ("f/", "g/");

async fn rename(desk: &Desk) -> Result<FolderRename, WriteError> {
    let (writers, source) = (&desk.writers, source(desk));
    let lock = writers.lock_folders(source, [NAMES.0, NAMES.1]).await;
    writers.rename_folder(source, NAMES, 9, &lock).await
}

fn with_files() -> Desk {
    let desk = Desk::plain();
    for (key, bytes) in [("f/a", "ours a"), ("f/b", "ours b")] {
        desk.bucket().put(key, bytes);
    }
    desk
}

/// Renames the folder, and puts an object under the new name while requests of a kind are late.
async fn rename_over(
    desk: &Desk,
    kind: &'static str,
    (key, bytes): (&str, &'static str),
) -> Result<FolderRename, WriteError> {
    let before = desk.bucket().count(kind);
    desk.bucket().fail_from(kind, [Fault::Latency(secs(5))], []);
    let theirs = async {
        until(|| desk.bucket().count(kind) > before).await;
        desk.bucket().put(key, bytes);
    };
    tokio::join!(rename(desk), theirs).0
}

fn has_ours(desk: &Desk) {
    assert_eq!(desk.object("f/a"), Some("ours a".into()));
    assert_eq!(desk.object("f/b"), Some("ours b".into()));
}

#[tokio::test(start_paused = true)]
async fn what_comes_while_the_drafts_are_published_stays() {
    for key in ["g/a", "g/other"] {
        let desk = with_files();
        let writer = desk.create("f/a").await;
        put(&writer, 0, &"ours a".into()).await;
        let renamed = rename_over(&desk, "put", (key, "theirs")).await;
        assert!(matches!(renamed, Ok(FolderRename::NotEmpty)), "{renamed:?}");
        assert_eq!(desk.object(key), Some("theirs".into()));
        assert_eq!(desk.bucket().count("copy"), 0);
        writer.commit(Commit::Close).await.expect("it is as it was");
        has_ours(&desk);
    }
}

/// Of the two copies one is late: the other one is overwritten after it was made.
#[tokio::test(start_paused = true)]
async fn what_comes_during_the_copies_stays() {
    let desk = with_files();
    let late = [Fault::Latency(secs(5))];
    is_not_replaced(&desk, late.to_vec(), vec![]).await;
}

/// A store without conditions is asked just before each copy.
#[tokio::test(start_paused = true)]
async fn a_store_without_conditions_is_asked_before() {
    let desk = with_files();
    desk.bucket().set_faults([Fault::RefuseConditions]);
    let renamed = rename(&desk).await.expect("renamed");
    assert!(matches!(renamed, FolderRename::Copied(_)));
    for key in ["g/a", "g/b"] {
        assert!(desk.object(key).is_some(), "{key}");
    }

    let desk = with_files();
    let late = vec![Fault::RefuseConditions, Fault::Latency(secs(5))];
    is_not_replaced(&desk, late, vec![Fault::RefuseConditions]).await;
}

async fn is_not_replaced(desk: &Desk, late: Vec<Fault>, then: Vec<Fault>) {
    desk.bucket().fail_from("copy", late, then);
    let theirs = async {
        until(|| desk.bucket().count("copy") > 1).await;
        pass(secs(1)).await;
        desk.bucket().put("g/a", "theirs");
        desk.bucket().put("g/b", "theirs");
    };
    let (renamed, ()) = tokio::join!(rename(desk), theirs);
    let error = renamed.expect_err("another program's objects are there");
    assert_eq!(error, WriteError::Changed);
    for key in ["g/a", "g/b"] {
        assert_eq!(desk.object(key), Some("theirs".into()), "{key}");
    }
    has_ours(desk);
}

/// Also an equal object is another program's. It is not removed with the copies.
#[tokio::test(start_paused = true)]
async fn what_is_equal_stays_too() {
    let desk = with_files();
    desk.bucket().set_faults([Fault::Latency(secs(5))]);
    let theirs = async {
        until(|| desk.bucket().count("copy") > 0).await;
        desk.bucket().put("g/a", "ours a");
    };
    let (renamed, ()) = tokio::join!(rename(&desk), theirs);
    assert_eq!(renamed.expect_err("it is there"), WriteError::Changed);
    assert_eq!(desk.object("g/a"), Some("ours a".into()));
    assert_eq!(desk.object("g/b"), None);
    has_ours(&desk);
}

/// An object that is no copy ends the rename, too: two folders never become one.
#[tokio::test(start_paused = true)]
async fn what_comes_beside_the_copies_stays() {
    for (key, bytes) in [("g/other", "theirs"), ("g/deep/er", "theirs"), ("g/", "")] {
        let desk = with_files();
        let renamed = rename_over(&desk, "copy", (key, bytes)).await;
        if key == "g/" {
            assert!(
                matches!(renamed, Ok(FolderRename::Copied(_))),
                "{renamed:?}"
            );
        } else {
            assert_eq!(
                renamed.expect_err("not empty"),
                WriteError::Changed,
                "{key}"
            );
            assert_eq!(desk.bucket().keys(), ["f/a", "f/b", key]);
        }
        assert_eq!(desk.object(key), Some(bytes.into()), "{key}");
    }
}

/// A rename lists each folder before the copies and after them.
#[tokio::test(start_paused = true)]
async fn a_rename_costs_two_listings_of_each_folder() {
    let desk = with_files();
    let renamed = rename(&desk).await.expect("renamed");
    assert!(matches!(renamed, FolderRename::Copied(_)));
    assert_eq!(desk.bucket().lists(), 4);
}

/// The marker of an empty folder is replaced. An object with bytes that has come in its place is not.
#[tokio::test(start_paused = true)]
async fn what_comes_in_place_of_a_marker_stays() {
    for has_marker in [true, false] {
        let desk = with_files();
        desk.bucket().put("g/", "");
        if has_marker {
            desk.bucket().put("f/", "");
        }
        let renamed = rename_over(&desk, "copy", ("g/", "theirs")).await;
        assert_eq!(renamed.expect_err("it has bytes"), WriteError::Changed);
        assert_eq!(desk.object("g/"), Some("theirs".into()));
    }
}
