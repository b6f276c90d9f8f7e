//! Objects that are opened cut to nothing: the disk has no say in it, a caller that gives up has changed nothing, and no
//! other object is emptied.

use std::sync::mpsc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tidegate_origin::fake::Fault;
use tidegate_write::{Commit, OpenMode};

use crate::support::engine::{pass, same, sample, secs, valid};
use crate::support::spool::{Desk, PART, Terms, put, source};

const KEY: &str = "folder/object";
const OTHER: &str = "folder/other";

/// The spool's folder is gone. Readers hold the object open, or a writer is half way through it.
#[tokio::test(start_paused = true)]
async fn what_is_opened_anew_needs_no_disk() {
    for half in [0, 10, 5 * PART] {
        let desk = Desk::plain();
        desk.write(KEY, &"before".into()).await;
        let held = desk.change(KEY).await;
        put(&held, 0, &sample(1, half)).await;
        std::fs::remove_dir_all(desk.spool.path()).expect("removed");
        let writer = desk.open(KEY, OpenMode::Create).await;
        let writer = writer.unwrap_or_else(|error| panic!("{half}: {error}"));
        assert_eq!((writer.size(), held.size()), (0, 0));
        put(&writer, 0, &"after".into()).await;
        writer.commit(Commit::Close).await.expect("committed");
        assert_eq!(desk.object(KEY), Some("after".into()));
    }
}

/// A rename of a published object holds it while another program opens it to replace it.
#[tokio::test(start_paused = true)]
async fn what_is_renamed_meanwhile_is_not_emptied() {
    let desk = Desk::plain();
    let bytes: Bytes = "bytes".into();
    desk.write(KEY, &bytes).await;
    let held = desk.change(KEY).await;
    let late = Fault::Latency(secs(2));
    desk.bucket().fail_from("copy", [late], []);
    let (old, new) = (valid(KEY), valid(OTHER));
    let open = async {
        pass(secs(1)).await;
        desk.create(KEY).await
    };
    let (renamed, writer) = tokio::join!(desk.writers.rename(source(&desk), &old, &new), open);
    renamed.expect("renamed");
    assert_eq!((held.key(), writer.key()), (new, old));
    drop((held, writer));
    desk.writers.settled().await;
    same(&desk.object(OTHER).expect("there"), &bytes);
    assert_eq!(desk.object(KEY), Some(Bytes::new()));
}

/// The disk hangs in a sync, and a caller that wants to begin anew stops waiting for it.
#[test]
fn a_caller_that_gives_up_waiting_for_a_sync_has_changed_nothing() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let desk = Desk::new(Terms::background());
        let writer = desk.create(KEY).await;
        put(&writer, 0, &"bytes".into()).await;
        let (go_on, hangs) = mpsc::channel::<()>();
        let disk = tokio::task::spawn_blocking(move || hangs.recv());
        let mut close = Box::pin(writer.commit(Commit::Background));
        assert!(close.as_mut().now_or_never().is_none(), "it syncs");
        let mut open = Box::pin(desk.open(KEY, OpenMode::Create));
        for _ in 0..100 {
            assert!(open.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(open);
        go_on.send(()).expect("it waits");
        disk.await.expect("ended").expect("told");
        close.await.expect("promised");
        drop(writer);
        desk.writers.settled().await;
        assert_eq!(desk.object(KEY), Some("bytes".into()));
    });
}
