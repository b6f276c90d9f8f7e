//! Calls that meet another one half way, where they wait for the disk, a lock or room.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::poll;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::support::engine::{pass, sample, secs, settle, valid};
use super::support::spool::{Desk, PART, Terms, down, put, source, until};
use super::{KEYS, crowded};
use crate::spool::faults;
use crate::{Commit, MAX_STREAMS, OpenMode, WriteError};
use tidegate_origin::fake::Fault;

const KEY: &str = KEYS[0];

/// The disk has synced a closed file. Before the task of its close goes on, another program opens the file to replace it.
#[tokio::test(start_paused = true)]
async fn a_sync_that_has_ended_discards_no_edition_that_it_has_made_durable() {
    for length in [100, 5 * PART] {
        let desk = Desk::new(Terms::background());
        let (writer, first) = (desk.create(KEY).await, sample(1, length));
        put(&writer, 0, &first).await;
        settle().await;
        let uploads = desk.bucket().uploads_under_way().len();
        desk.bucket().set_faults([down()]);
        let draft = writer.writing.clone();
        let mut close = Box::pin(writer.commit(Commit::Background));
        assert!(poll!(&mut close).is_pending(), "it syncs");
        until(|| draft.journal.try_lock().is_ok()).await;
        let second = desk.open(KEY, OpenMode::Create).await.expect("opened");
        assert_eq!(close.await, Ok(()));
        let path = desk.writers.write_path().clone();
        let closed = path.closed_draft(source(&desk), &valid(KEY));
        let size = closed.map(|closed| closed.size());
        assert_eq!(size, Some(length), "readers see the closed file");
        desk.bucket().set_faults([]);
        settle().await;
        assert_eq!(desk.bucket().uploads_under_way().len(), uploads);
        drop(writer);
        let again = desk.switched_off([second], &Terms::background()).await;
        again.writers.settled().await;
        assert_eq!(again.object(KEY), Some(first));
    }
}

/// A closed file waits for the bucket. A program replaces it, is told that its close failed, and begins once more.
#[tokio::test(start_paused = true)]
async fn an_edition_whose_sync_failed_does_not_replace_the_promised_one() {
    let desk = Desk::new(Terms::background());
    let (writer, first) = (desk.create(KEY).await, sample(1, 5 * PART));
    put(&writer, 0, &first).await;
    until(|| desk.bucket().count("part") == 5).await;
    desk.bucket().set_faults([down()]);
    writer.commit(Commit::Background).await.expect("promised");
    let second = desk.create(KEY).await;
    put(&second, 0, &"half".into()).await;
    // The queue leaves it to the close of the replacement.
    until(|| !writer.writing.state().phase().is_queued()).await;
    desk.bucket().set_faults([]);
    faults::fail_next(desk.spool.path(), 0, 1);
    let failed = second.commit(Commit::Background).await;
    assert!(failed.expect_err("the disk fails").is_passing());
    second.truncate(0).await.expect("cut");
    put(&second, 0, &"anew".into()).await;
    settle().await;
    assert_eq!(desk.bucket().uploads_under_way().len(), 1);
    let again = desk
        .switched_off([writer, second], &Terms::background())
        .await;
    again.writers.settled().await;
    assert_eq!(again.object(KEY), Some(first));
    assert_eq!(again.bucket().count("part"), 5, "none is sent again");
}

/// The disk fails the sync of a close, and its program is told of the error: HTTP serves what the bucket has, during the
/// sync as well. A close that succeeds is served.
#[test]
fn a_close_that_the_disk_failed_is_not_served() {
    // The calls to the disk have one thread, which the test can hold.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    for is_synced_before in [false, true] {
        runtime.block_on(failed_close(is_synced_before));
    }
}

async fn failed_close(is_synced_before: bool) {
    let desk = Desk::new(Terms::background());
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"first".into()).await;
    if is_synced_before {
        writer.sync().await.expect("durable");
        put(&writer, 0, &"later".into()).await;
    }
    desk.bucket().set_faults([down()]);
    faults::fail_next(desk.spool.path(), 0, 1);
    let path = desk.writers.write_path().clone();
    let is_served = || path.closed_draft(source(&desk), &valid(KEY)).is_some();
    let (free, held) = std::sync::mpsc::channel::<()>();
    let holds = tokio::task::spawn_blocking(move || held.recv().is_err());
    let mut close = Box::pin(writer.commit(Commit::Background));
    assert!(poll!(&mut close).is_pending(), "it syncs");
    assert!(!is_served(), "nothing is promised yet");
    drop(free);
    close.await.expect_err("the disk fails");
    assert!(holds.await.expect("no panic"));
    assert!(!is_served(), "its program was told of the error");
    writer.commit(Commit::Background).await.expect("durable");
    assert!(is_served());
    drop(writer);
}

/// A program syncs a file that is being published, and waits for the journal until the bucket has it.
#[tokio::test(start_paused = true)]
async fn a_sync_that_waits_until_the_publish_has_ended_promises_nothing() {
    for closes in [false, true] {
        let desk = Desk::plain();
        let writer = desk.create(KEY).await;
        put(&writer, 0, &"bytes".into()).await;
        let late = Fault::Latency(secs(5));
        desk.bucket().fail_from("put", [late], []);
        let mut publish = Box::pin(writer.publish());
        assert!(poll!(&mut publish).is_pending());
        pass(secs(1)).await;
        let journal = writer.writing.journal.clone().lock_owned().await;
        let mut sync = Box::pin(async {
            match closes {
                true => writer.commit(Commit::Background).await,
                false => writer.sync().await,
            }
        });
        assert!(poll!(&mut sync).is_pending(), "it waits for the journal");
        publish.await.expect("published");
        drop(journal);
        assert_eq!(sync.await, Ok(()));
        {
            let state = writer.writing.state();
            assert!(!state.phase().is_promised(), "{:?}", state.phase());
            assert!(state.file().is_none() && state.journal().records().is_empty());
        }
        let again = desk.switched_off([writer], &Terms::default()).await;
        assert!(again.writers.pending().is_empty());
    }
}

/// Parts of a file wait for their turn. The file is removed, and closed.
#[tokio::test(start_paused = true)]
async fn parts_that_wait_to_be_sent_end_with_their_draft() {
    let desk = Desk::plain();
    let streams = desk.writers.0.streams.clone();
    let turns = streams.acquire_many(MAX_STREAMS as u32).await;
    let writer = desk.create(KEY).await;
    put(&writer, 0, &sample(1, 8 * PART)).await;
    let draft = writer.writing.clone();
    assert!(draft.state().retry().is_sending(), "they wait");
    let removed = desk.writers.remove(source(&desk), &valid(KEY)).await;
    removed.expect("removed");
    drop(writer);
    settle().await;
    drop(turns);
    until(|| !draft.state().retry().is_sending()).await;
    settle().await;
    assert_eq!(desk.bucket().count("begin"), 0);
    assert_eq!(desk.writers.spooled().0, 0);
}

/// Counts the lines of the log that say so.
struct EvictionLines(Arc<AtomicUsize>);

impl Visit for EvictionLines {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        if format!("{value:?}").starts_with("cannot evict sent parts") {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Subscriber for EvictionLines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self(self.0.clone()));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A writer waits 20 s for room, and looks five times a second.
#[tokio::test(start_paused = true)]
async fn a_disk_that_keeps_sent_parts_is_told_of_once() {
    let desk = Desk::new(crowded());
    let lines = Arc::new(AtomicUsize::new(0));
    let _log = tracing::subscriber::set_default(EvictionLines(lines.clone()));
    let writer = desk.create(KEY).await;
    put(&writer, 0, &sample(1, 30 * PART)).await;
    until(|| desk.bucket().count("part") == 30).await;
    settle().await;
    faults::fail_next(desk.spool.path(), 0, 10_000);
    let mut at = writer.size();
    let written = loop {
        let written = writer.write_at(at, sample(at, PART)).await;
        if written.is_err() {
            break written;
        }
        at += PART;
    };
    assert_eq!(written, Err(WriteError::Full));
    assert_eq!(lines.load(Ordering::Relaxed), 1);
}
