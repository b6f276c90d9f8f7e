//! Every way to change a key in the bucket marks it first.

use bytes::Bytes;
use futures_util::stream;
use tidegate_engine::Error;
use tidegate_plan::digest::Digests;
use tidegate_write::WriteError;
use tidegate_write::receive::{IncomingObject, WriteCondition};
use tidegate_write::{Commit, OpenMode};

use crate::support::engine::{self, sample, valid};
use crate::support::spool::{Desk, PART, Terms, put, set_owner, source, until};

/// A length of more than one part of a received body.
const LARGE: u64 = 9 << 20;

/// A way to change keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Put,
    PutParts,
    Delete,
    Write,
    WriteParts,
    SetHeaders,
    Remove,
    Rename,
    RenameOver,
    MakeFolder,
}

const WAYS: [(Way, &[&str]); 10] = [
    (Way::Put, &["a"]),
    (Way::PutParts, &["a"]),
    (Way::Delete, &["a"]),
    (Way::Write, &["a"]),
    (Way::WriteParts, &["a"]),
    (Way::SetHeaders, &["a"]),
    (Way::Remove, &["a"]),
    (Way::Rename, &["new", "a"]),
    (Way::RenameOver, &["b", "a"]),
    (Way::MakeFolder, &["folder/"]),
];

async fn receive(desk: &Desk, bytes: Bytes) -> Result<(), WriteError> {
    let incoming = IncomingObject {
        headers: Vec::new(),
        wanted: WriteCondition::Anything,
        length: Some(bytes.len() as u64),
        digests: Digests::default(),
    };
    let body = stream::iter([Ok(bytes)]);
    let (write_path, key) = (desk.writers.write_path(), valid("a"));
    let received = write_path.receive(source(desk), &key, incoming, body);
    received.await.map(drop)
}

async fn write(desk: &Desk, bytes: Bytes) -> Result<(), WriteError> {
    let writer = desk.open("a", OpenMode::Create).await?;
    put(&writer, 0, &bytes).await;
    writer.commit(Commit::Close).await
}

async fn change(desk: &Desk, way: Way) -> Result<(), WriteError> {
    let (source, writers) = (source(desk), &desk.writers);
    match way {
        Way::Put => receive(desk, "new".into()).await,
        Way::PutParts => receive(desk, sample(2, LARGE)).await,
        Way::Delete => {
            let wanted = WriteCondition::Anything;
            desk.writers
                .write_path()
                .delete(source, &valid("a"), &wanted)
                .await
        }
        Way::Write => write(desk, "new".into()).await,
        Way::WriteParts => write(desk, sample(2, 10 * PART)).await,
        Way::SetHeaders => {
            let writer = desk.open("a", OpenMode::Change).await?;
            set_owner(&writer, 1).await;
            writer.commit(Commit::Close).await
        }
        Way::Remove => writers.remove(source, &valid("a")).await,
        Way::Rename => writers
            .rename(source, &valid("a"), &valid("new"))
            .await
            .map(drop),
        Way::RenameOver => writers
            .rename(source, &valid("a"), &valid("b"))
            .await
            .map(drop),
        Way::MakeFolder => writers.make_folder(source, &valid("folder/"), None).await,
    }
}

/// Returns whether the bucket got a request that changes its visible objects.
fn was_asked(desk: &Desk) -> bool {
    let changes = ["put", "complete", "copy", "delete"];
    let writes = desk.bucket().writes();
    writes.iter().any(|write| changes.contains(write))
}

/// Returns the visible objects of the bucket.
fn seen(desk: &Desk) -> Vec<(String, Option<Bytes>)> {
    let keys = desk.bucket().keys();
    keys.into_iter()
        .map(|key| (key.clone(), desk.object(&key)))
        .collect()
}

/// Returns the keys that were marked, in order; checks that every change has ended.
fn marked(desk: &Desk) -> Vec<String> {
    let meta = desk.world.meta.lock();
    assert_eq!(meta.changing, 0, "a change has not ended");
    meta.marked.clone()
}

fn desk() -> Desk {
    let desk = Desk::new(Terms::default());
    for key in ["a", "b", "c"] {
        desk.bucket().put(key, format!("old {key}"));
    }
    desk
}

#[tokio::test(start_paused = true)]
async fn every_key_is_marked_before_the_bucket_is_asked() {
    for (way, keys) in WAYS {
        let desk = desk();
        let before = seen(&desk);
        desk.world.meta.lock().refuses_marks = true;
        let refused = change(&desk, way).await.expect_err("no mark, no change");
        assert_eq!(refused, WriteError::Origin(Error::Unavailable), "{way:?}");
        assert!(refused.is_passing(), "{way:?}");
        assert_eq!(
            seen(&desk),
            before,
            "{way:?}: the bucket was asked all the same"
        );
        assert!(!was_asked(&desk), "{way:?}");
        assert!(marked(&desk).is_empty(), "{way:?}");

        let desk = self::desk();
        change(&desk, way).await.expect("changed");
        assert_eq!(marked(&desk), keys, "{way:?}");
        assert!(was_asked(&desk), "{way:?}");
    }
}

/// A promised draft waits in the spool until its key can be marked.
#[tokio::test(start_paused = true)]
async fn a_commit_in_the_background_waits_for_its_mark() {
    let desk = desk();
    desk.world.meta.lock().refuses_marks = true;
    let writer = desk.create("a").await;
    put(&writer, 0, &"new".into()).await;
    writer.commit(Commit::Background).await.expect("promised");
    drop(writer);
    tokio::time::sleep(engine::secs(60)).await;
    assert_eq!(desk.object("a"), Some("old a".into()));
    desk.world.meta.lock().refuses_marks = false;
    until(|| desk.object("a") == Some("new".into())).await;
}
