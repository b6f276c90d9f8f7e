//! A subscription over a sink that records, with messages as stores send them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_core::future::BoxFuture;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use super::*;

mod heartbeats;

const NOW: u64 = 1_795_660_205_000;

/// Records what it is told, and fails on demand.
#[derive(Default)]
struct Recorded {
    applied: Mutex<Vec<String>>,
    since: Mutex<Vec<Option<Timestamp>>>,
    renewed: Mutex<Vec<String>>,
    fails: AtomicBool,
}

impl Sink for Recorded {
    fn apply(&self, changes: Vec<KeyChange>) -> BoxFuture<'_, Result<(), ApplyError>> {
        Box::pin(async move {
            if self.fails.load(Ordering::Relaxed) {
                return Err(ApplyError("the disk is full".to_owned()));
            }
            let keys = changes.iter().map(|change| match change.is_overtaken {
                true => format!("{} in doubt", change.key.as_str()),
                false => change.key.as_str().to_owned(),
            });
            self.applied.lock().recover().extend(keys);
            Ok(())
        })
    }

    fn is_heartbeat(&self, key: &ObjectKey) -> bool {
        key.as_str() == "health/heartbeat-other"
    }

    fn renewed(&self, change: KeyChange) -> BoxFuture<'_, ()> {
        self.renewed
            .lock()
            .recover()
            .push(change.key.as_str().to_owned());
        Box::pin(std::future::ready(()))
    }

    fn prove(&self, proof: EventProof) {
        let since = (proof != EventProof::NONE).then_some(proof.since);
        let mut all = self.since.lock().recover();
        // Each heartbeat proves the same chain anew.
        if all.last() != Some(&since) {
            all.push(since);
        }
    }
}

struct World {
    sink: Arc<Recorded>,
    now: Arc<AtomicU64>,
    subscription: Subscription,
    registry: Registry,
}

impl World {
    fn new() -> Self {
        Self::with(Some(HeartbeatSettings {
            key: crate::heartbeat::key(".tidegate/", "bucket").expect("a key"),
            every: Duration::from_secs(10),
        }))
    }

    fn with(heartbeat: Option<HeartbeatSettings>) -> Self {
        let sink = Arc::new(Recorded::default());
        let now = Arc::new(AtomicU64::new(NOW));
        let settings = SubscriptionSettings {
            name: "bucket".to_owned(),
            bucket: "media".to_owned(),
            heartbeat,
            has_connection: false,
        };
        let (metrics, clock) = (Metrics::default(), now.clone());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let clock: Clock = Arc::new(move || Timestamp(clock.load(Ordering::Relaxed)));
        Self {
            subscription: Subscription::new(settings, sink.clone(), clock, &metrics),
            sink,
            now,
            registry,
        }
    }

    async fn deliver(&self, records: &[String]) -> Result<(), DeliverError> {
        let text = format!(r#"{{"Records":[{}]}}"#, records.join(","));
        self.subscription.deliver(text.as_bytes()).await
    }

    fn applied(&self) -> Vec<String> {
        std::mem::take(&mut self.sink.applied.lock().recover())
    }

    fn since(&self) -> Option<Timestamp> {
        self.sink.since.lock().recover().last().copied().flatten()
    }

    fn metrics(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("text");
        text
    }

    fn metric(&self, line: &str) -> String {
        let text = self.metrics();
        let found = text.lines().find_map(|one| one.strip_prefix(line));
        found
            .unwrap_or_else(|| panic!("{line} in {text}"))
            .trim()
            .to_owned()
    }

    fn events(&self, result: &str) -> String {
        self.metric(&format!(
            r#"bucket_events_total{{subscription="bucket",result="{result}"}}"#
        ))
    }
}

fn record(bucket: &str, key: &str, sequencer: &str) -> String {
    format!(
        r#"{{"eventName":"s3:ObjectCreated:Put","eventTime":"2026-11-26T02:30:00.000Z","s3":{{"bucket":{{"name":"{bucket}"}},
        "object":{{"key":"{key}","size":1,"eTag":"tag{sequencer}","sequencer":"{sequencer}"}}}}}}"#
    )
}

#[tokio::test]
async fn changes_are_applied_once_and_late_ones_as_doubts() {
    let world = World::new();
    let one = record("media", "a+b", "02");
    world
        .deliver(&[one.clone(), record("media", "c", "01")])
        .await
        .expect("taken");
    assert_eq!(world.applied(), ["a b", "c"]);
    world
        .deliver(&[one, record("media", "a+b", "01")])
        .await
        .expect("taken");
    assert_eq!(world.applied(), ["a b in doubt"]);
    let batch = [
        record("media", "a+b", "04"),
        record("media", "a+b", "03"),
        record("media", "a+b", "04"),
    ];
    world.deliver(&batch).await.expect("taken");
    assert_eq!(world.applied(), ["a b", "a b in doubt"]);
    for (result, count) in [
        ("applied", "3"),
        ("duplicate", "2"),
        ("late", "2"),
        ("failed", "0"),
    ] {
        assert_eq!(world.events(result), count, "{result}");
    }
    assert_eq!(
        world.metric(r#"bucket_event_lag_seconds_sum{subscription="bucket"}"#),
        "25.0"
    );
}

#[tokio::test]
async fn events_of_other_buckets_and_of_no_change_are_counted_apart() {
    let world = World::new();
    let unknown = record("media", "k", "01").replace("ObjectCreated:Put", "ObjectDreamed:Of");
    let tagged = record("media", "k", "01").replace("ObjectCreated:Put", "ObjectTagging:Put");
    let records = [
        record("other", "k", "01"),
        unknown,
        tagged,
        record("media", "k", "01"),
    ];
    world.deliver(&records).await.expect("taken");
    assert_eq!(world.applied(), ["k"]);
    for result in ["foreign", "unknown", "ignored", "applied"] {
        assert_eq!(world.events(result), "1", "{result}");
    }
}

#[tokio::test]
async fn a_change_that_was_not_applied_is_applied_when_it_comes_again() {
    let world = World::new();
    world.sink.fails.store(true, Ordering::Relaxed);
    let failed = world.deliver(&[record("media", "k", "01")]).await;
    assert!(
        matches!(failed, Err(DeliverError::NotApplied(_))),
        "{failed:?}"
    );
    world.sink.fails.store(false, Ordering::Relaxed);
    world
        .deliver(&[record("media", "k", "01")])
        .await
        .expect("taken");
    assert_eq!(world.applied(), ["k"]);
}

async fn beat(world: &World, sequencer: &str) {
    let began = world.subscription.now();
    let etag = ETag::parse(&format!("tag{sequencer}")).expect("an ETag");
    world.subscription.heartbeat_written(began, etag);
    let event = record("media", ".tidegate/heartbeat-bucket", sequencer);
    world.deliver(&[event]).await.expect("taken");
}

#[tokio::test]
async fn what_may_have_been_a_change_is_a_gap() {
    for step in ["unreadable", "invalid", "failed"] {
        let world = World::new();
        beat(&world, "01").await;
        assert!(world.since().is_some());
        match step {
            "unreadable" => drop(world.subscription.deliver(b"{").await.expect_err("no JSON")),
            "invalid" => world.deliver(&["null".to_owned()]).await.expect("taken"),
            _ => {
                world.sink.fails.store(true, Ordering::Relaxed);
                let failed = world.deliver(&[record("media", "k", "01")]).await;
                failed.expect_err("the sink fails");
            }
        }
        assert_eq!(world.since(), None, "{step}");
    }
}

#[tokio::test]
async fn a_key_that_no_request_can_name_is_no_gap() {
    let world = World::new();
    beat(&world, "01").await;
    let records = [record("media", "./x", "01"), record("media", "k", "01")];
    world.deliver(&records).await.expect("taken");
    assert_eq!(
        (world.since(), world.applied()),
        (Some(Timestamp(NOW)), vec!["k".to_owned()])
    );
    assert_eq!(
        (world.events("ignored"), world.events("invalid")),
        ("1".to_owned(), "0".to_owned())
    );
}

#[tokio::test]
async fn a_thousand_records_are_one_batch() {
    let world = World::new();
    let records: Vec<_> = (0..1000)
        .map(|n| record("media", &format!("k{n}"), "01"))
        .collect();
    world.deliver(&records).await.expect("taken");
    assert_eq!(world.applied().len(), 1000);
    world.deliver(&records).await.expect("taken");
    assert!(world.applied().is_empty());
    assert_eq!(world.events("duplicate"), "1000");
}

#[tokio::test]
async fn an_ended_subscription_applies_changes_and_proves_nothing() {
    let world = World::new();
    let alive = r#"bucket_events_alive{subscription="bucket"}"#;
    beat(&world, "01").await;
    assert_eq!(
        (world.metric(alive), world.since()),
        ("1".to_owned(), Some(Timestamp(NOW)))
    );
    world.subscription.end();
    assert_eq!((world.metric(alive), world.since()), ("0".to_owned(), None));
    beat(&world, "02").await;
    world.subscription.connected();
    assert_eq!((world.metric(alive), world.since()), ("0".to_owned(), None));
    world
        .deliver(&[record("media", "late", "01")])
        .await
        .expect("taken");
    assert_eq!(world.applied(), ["late"]);
}

#[test]
fn the_metrics_of_a_subscription_that_has_gone_are_removed() {
    let metrics = Metrics::default();
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let text = || {
        let mut text = String::new();
        encode(&mut text, &registry).expect("text");
        text
    };
    let none = text();
    let (one, other) = (metrics.of("one", true), metrics.of("other", true));
    one.gap(GapReason::Sequence);
    metrics.forget("one");
    assert!(!text().contains("\"one\"") && text().contains("\"other\""));
    metrics.forget("other");
    assert_eq!(text(), none);
    drop((one, other));
}
