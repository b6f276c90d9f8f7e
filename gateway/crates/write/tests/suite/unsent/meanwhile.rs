//! Writes to either name while a file is renamed that the bucket does not have yet.

use std::sync::Arc;

use futures_util::stream;
use tidegate_engine::ReadContext;
use tidegate_plan::digest::Digests;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};

use super::*;
use crate::support::engine::pass;

/// Puts an object over HTTP, through this access to the bucket.
async fn received(desk: &Desk, access: &Arc<ReadContext>, key: &str, text: &'static str) {
    let incoming = IncomingObject {
        headers: vec![],
        wanted: WriteCondition::Anything,
        length: None,
        digests: Digests::default(),
    };
    let body = stream::iter([Ok::<_, ClientDisconnect>(Bytes::from_static(
        text.as_bytes(),
    ))]);
    let path = desk.writers.write_path();
    let put = path.receive(access, &valid(key), incoming, body).await;
    put.expect("put");
}

/// A client puts the old key through another access, which shows no drafts, while the rename is under way: the rename
/// deletes nothing that was put after it began.
#[tokio::test(start_paused = true)]
async fn what_is_put_under_the_old_name_meanwhile_stays() {
    let (desk, other) = Desk::of_two_accesses(&Terms::background());
    desk.bucket().put(KEY, "earlier");
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"new".into()).await;
    desk.bucket().fail_next([Fault::Latency(secs(3))]);
    let puts = async {
        pass(secs(1)).await;
        received(&desk, &other, KEY, "put").await;
    };
    let (from, to) = (valid(KEY), valid(OTHER));
    let (renamed, ()) = tokio::join!(desk.writers.rename(source(&desk), &from, &to), puts);
    renamed.expect("renamed");
    assert_eq!(desk.object(OTHER), Some("new".into()));
    assert_eq!(desk.object(KEY), Some("put".into()));
}

/// A writer opens the new name while the rename waits for a client that puts it: its draft is replaced, as one that was
/// there before.
#[tokio::test(start_paused = true)]
async fn a_draft_that_begins_under_the_new_name_meanwhile_is_replaced() {
    let desk = closed(&"new".into()).await;
    desk.bucket().fail_next([Fault::Latency(secs(3))]);
    let puts = received(&desk, source(&desk), OTHER, "put");
    let opens = async {
        pass(secs(2)).await;
        let writer = desk.create(OTHER).await;
        put(&writer, 0, &"meanwhile".into()).await;
        writer
    };
    let (from, to) = (valid(KEY), valid(OTHER));
    let renames = async {
        pass(secs(1)).await;
        desk.writers.rename(source(&desk), &from, &to).await
    };
    let ((), writer, renamed) = tokio::join!(puts, opens, renames);
    renamed.expect("renamed");
    writer.commit(Commit::Close).await.expect("it has no name");
    drop(writer);
    desk.writers.settled().await;
    assert_eq!(desk.object(OTHER), Some("new".into()));
    assert!(desk.writers.pending().is_empty());
}

/// The rename of a new file fails, a sync that came meanwhile has promised it, and the machine is switched off: it is there
/// under its old name. Its journal is begun, or written anew, by that sync.
#[tokio::test(start_paused = true)]
async fn what_is_synced_during_a_rename_that_fails_keeps_its_name() {
    for syncs in 0..8 {
        let desk = Desk::plain();
        let writer = desk.create(KEY).await;
        for at in 0..syncs {
            put(&writer, 2 * at, &"x".into()).await;
            writer.sync().await.expect("synced");
        }
        let late = [Fault::Latency(secs(2)), down()];
        desk.bucket().fail_from("put", late, [down()]);
        let (old, new) = (valid(KEY), valid(OTHER));
        let renames = desk.writers.rename(source(&desk), &old, &new);
        let sync = async {
            pass(secs(1)).await;
            writer.sync().await
        };
        let (renamed, synced) = tokio::join!(renames, sync);
        renamed.expect_err("it is down");
        synced.expect("synced");
        let bytes = all(&writer).await;
        let desk = desk.switched_off([writer], &Terms::default()).await;
        desk.bucket().set_faults([]);
        desk.writers.settled().await;
        assert_eq!(desk.bucket().keys(), [KEY], "{syncs}");
        assert_eq!(desk.object(KEY), Some(bytes));
    }
}
