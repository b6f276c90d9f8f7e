use std::sync::atomic::{AtomicUsize, Ordering};

use futures_core::future::BoxFuture;
use tidegate_plan::{ChangeKind, FolderChange, KeyChange, ObjectKey, Timestamp};
use tokio::sync::Semaphore;

use super::*;
use crate::ApplyError;
use crate::fleet::{FleetChange, FleetMetrics, FleetSink};

/// Applies nothing until it has permits, and counts what it is told.
struct SlowKernel {
    permits: Semaphore,
    applied: AtomicUsize,
    hooks: AtomicUsize,
    doubts: AtomicUsize,
}

impl FleetSink for SlowKernel {
    fn apply<'a>(&'a self, _: &'a FleetChange) -> BoxFuture<'a, Result<bool, ApplyError>> {
        Box::pin(async {
            let _permit = self.permits.acquire().await;
            self.applied.fetch_add(1, Ordering::Relaxed);
            Ok(true)
        })
    }

    fn doubt(&self) -> BoxFuture<'_, Result<(), ApplyError>> {
        self.doubts.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }

    fn call_hooks(&self, _: &KeyChange) {
        self.hooks.fetch_add(1, Ordering::Relaxed);
    }

    fn call_hooks_below(&self, _: &FolderChange) {}

    fn hook_delay(&self, _: &KeyChange) -> Option<Duration> {
        None
    }
}

fn member(sink: Arc<SlowKernel>) -> Arc<Fleet> {
    let clock = Arc::new(|| Timestamp(1000));
    let made = Fleet::new(None, sink, clock, FleetMetrics::default());
    made.expect("chance")
}

fn sink() -> Arc<SlowKernel> {
    Arc::new(SlowKernel {
        permits: Semaphore::new(0),
        applied: AtomicUsize::new(0),
        hooks: AtomicUsize::new(0),
        doubts: AtomicUsize::new(0),
    })
}

#[tokio::test(start_paused = true)]
async fn messages_are_taken_while_changes_wait_and_no_hook_is_forgotten() {
    let (from, kernel) = (member(sink()), sink());
    let fleet = member(kernel.clone());
    let beyond = 100;
    let count = MAX_WAITING + super::super::AT_ONCE + beyond;
    let mut texts = Vec::new();
    for n in 0..count {
        let key = ObjectKey::new(&n.to_string()).expect("a key");
        let change = KeyChange::of("media", &key, ChangeKind::Created);
        from.publish(FleetChange::Changed(change));
        texts.extend(from.next_message().map(Bytes::from));
    }
    from.connected();
    texts.extend(from.next_message().map(Bytes::from));
    assert_eq!(texts.len(), count + 1);

    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    let applying = apply(receiver, &fleet);
    let taking = async {
        // What applies them takes its part first.
        let texts = stream::iter(texts).then(async |text| {
            tokio::task::yield_now().await;
            text
        });
        take_all(texts, (&fleet, &sender)).await;
        assert_eq!(kernel.applied.load(Ordering::Relaxed), 0);
        assert_eq!(fleet.gateways().len(), 1, "its heartbeat was heard");
        assert_eq!(kernel.hooks.load(Ordering::Relaxed), beyond);
        kernel.permits.add_permits(count);
        drop(sender);
    };
    tokio::join!(applying, taking);
    assert_eq!(kernel.applied.load(Ordering::Relaxed), count - beyond);
    // The receiver is chosen for the hooks, for it has no connection.
    assert_eq!(kernel.hooks.load(Ordering::Relaxed), count);
    let doubted = tokio::time::timeout(Duration::from_secs(5), fleet.doubt_on_request());
    assert!(doubted.await.is_err(), "it goes on");
    assert!(kernel.doubts.load(Ordering::Relaxed) > 0);
}
