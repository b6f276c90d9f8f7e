//! Objects of the same bytes with other attributes.

use tidegate_plan::attributes::UID_HEADER;
use tidegate_write::{Commit, OpenMode, WriteError};

use super::KEY;
use crate::support::engine::{Setup, sample};
use crate::support::spool::{Desk, PART, Terms, down, put, set_owner};

/// A put is not carried out, and the object before has the same bytes: its attributes show that it is not ours.
#[tokio::test(start_paused = true)]
async fn equal_bytes_with_other_attributes_are_not_what_was_put() {
    let desk = Desk::plain();
    let uid = UID_HEADER;
    desk.bucket().put_with(KEY, "bytes", &[(uid.as_str(), "7")]);
    let writer = desk.change(KEY).await;
    put(&writer, 0, &"bytes".into()).await;
    set_owner(&writer, 8).await;
    desk.bucket().fail_from("put", [down()], []);
    let failed = writer.commit(Commit::Close).await;
    assert!(failed.expect_err("it was not put").is_passing());
    writer.commit(Commit::Close).await.expect("put");
    let (version, _) = desk.bucket().object(KEY).expect("there");
    assert_eq!(version.header(&uid), Some("8"));
}

/// The same parts, made by another writer with other attributes.
#[tokio::test(start_paused = true)]
async fn equal_parts_with_other_attributes_are_another_writers() {
    let desk = Desk::plain();
    let bytes = sample(1, 3 * PART);
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    set_owner(&writer, 7).await;
    put(&writer, 0, &bytes).await;
    let world = Setup::bucket(desk.bucket().seen_by("other")).build();
    let folder = tempfile::tempdir().expect("a folder");
    let other = Desk::over(world, folder, &Terms::default());
    let theirs = other.create(KEY).await;
    set_owner(&theirs, 8).await;
    put(&theirs, 0, &bytes).await;
    theirs.commit(Commit::Close).await.expect("first");
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
    let (version, _) = desk.bucket().object(KEY).expect("there");
    assert_eq!(version.header(&UID_HEADER), Some("8"));
}
