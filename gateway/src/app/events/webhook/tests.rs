//! Signed messages that come at once, and one whose sender leaves.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::{Barrier, Notify};

use super::*;
use tidegate_events::sns::{AwsUrl, FetchError};
use tidegate_events::{ApplyError, Metrics, Sink, SubscriptionSettings};
use tidegate_plan::freshness::EventProof;
use tidegate_plan::{KeyChange, ObjectKey, Timestamp};

const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:media";
const CERTIFICATE: &[u8] = include_bytes!("../../../../crates/events/fixtures/sns/certificate.pem");
const NOTIFICATION: &[u8] =
    include_bytes!("../../../../crates/events/fixtures/sns/notification-v2.json");

/// The messages of a burst.
const BURST: usize = 200;

/// Serves the certificate.
struct Certificate;

impl Fetch for Certificate {
    fn fetch<'a>(&'a self, _: &'a AwsUrl) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        Box::pin(std::future::ready(Ok(Bytes::from_static(CERTIFICATE))))
    }
}

/// Never answers.
struct Hung;

impl Fetch for Hung {
    fn fetch<'a>(&'a self, _: &'a AwsUrl) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        Box::pin(std::future::pending())
    }
}

/// Applies changes only when so many messages are being applied.
struct Together {
    all: Barrier,
    begun: Notify,
}

impl Sink for Together {
    fn apply(&self, _: Vec<KeyChange>) -> BoxFuture<'_, Result<(), ApplyError>> {
        Box::pin(async {
            self.begun.notify_one();
            self.all.wait().await;
            Ok(())
        })
    }

    fn is_heartbeat(&self, _: &ObjectKey) -> bool {
        false
    }

    fn renewed(&self, _: KeyChange) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn prove(&self, _: EventProof) {}
}

struct Bucket {
    webhook: Arc<Webhook>,
    sink: Arc<Together>,
    registry: Registry,
}

impl Bucket {
    fn new(fetch: impl Fetch, together: usize) -> Self {
        let (metrics, mut registry) = (Metrics::default(), Registry::default());
        metrics.register(&mut registry);
        let sink = Arc::new(Together {
            all: Barrier::new(together),
            begun: Notify::new(),
        });
        let settings = SubscriptionSettings {
            name: "media".to_owned(),
            bucket: "media".to_owned(),
            heartbeat: None,
            has_connection: false,
        };
        let clock = Arc::new(|| Timestamp(1_795_660_205_000));
        let subscription = Subscription::new(settings, sink.clone(), clock, &metrics);
        let verifier = SnsVerifier::new(vec![TOPIC.to_owned()], Arc::new(fetch));
        let made = Webhook::verified_by(Some(verifier), None, Arc::new(subscription));
        Self {
            webhook: Arc::new(made.expect("right")),
            sink,
            registry,
        }
    }

    fn send(&self, message: Bytes) -> tokio::task::JoinHandle<Result<(), EventsError>> {
        let webhook = self.webhook.clone();
        tokio::spawn(async move { webhook.deliver_signed(&message).await })
    }

    fn gaps(&self) -> usize {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("text");
        let gaps = text.lines().filter(|line| line.contains("gaps_total{"));
        let count = |line: &str| line.rsplit(' ').next()?.parse::<usize>().ok();
        gaps.filter_map(count).sum()
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_signed_messages_is_taken_whole() {
    let bucket = Bucket::new(Certificate, BURST);
    let sent = [(); BURST].map(|()| bucket.send(Bytes::from_static(NOTIFICATION)));
    for taken in sent {
        assert_eq!(taken.await.expect("no panic"), Ok(()));
    }
    assert_eq!(bucket.gaps(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_signed_message_whose_sender_leaves_is_a_gap() {
    let bucket = Bucket::new(Certificate, BURST);
    let sent = bucket.send(Bytes::from_static(NOTIFICATION));
    bucket.sink.begun.notified().await;
    assert_eq!(bucket.gaps(), 0);
    sent.abort();
    assert!(sent.await.expect_err("aborted").is_cancelled());
    assert_eq!(bucket.gaps(), 1);
}

#[tokio::test(start_paused = true)]
async fn messages_whose_changes_do_not_hold_yet_are_bounded() {
    let bucket = Bucket::new(Certificate, BURST);
    let sent = bucket.send(Bytes::from_static(NOTIFICATION));
    bucket.sink.begun.notified().await;
    let all = vec![b' '; MAX_SIGNED_BYTES];
    let refused = bucket.webhook.deliver_signed(&all).await;
    assert_eq!(refused, Err(busy()), "the first one has room of it");
    sent.abort();
    assert!(sent.await.expect_err("aborted").is_cancelled());
    let refused = bucket.webhook.deliver_signed(&all).await;
    assert!(
        matches!(refused, Err(EventsError::Forbidden(_))),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_check_is_bounded_in_time_and_bytes() {
    let bucket = Bucket::new(Hung, 1);
    let checked = [(); MAX_SIGNED_AT_ONCE].map(|()| bucket.send(Bytes::from_static(NOTIFICATION)));
    tokio::task::yield_now().await;
    let began = Instant::now();
    let large = Bytes::from(vec![b' '; MAX_SIGNED_BYTES - 64 * NOTIFICATION.len()]);
    let waiting = bucket.send(large.clone());
    tokio::task::yield_now().await;
    assert_eq!(bucket.webhook.deliver_signed(&large).await, Err(busy()));
    assert_eq!(began.elapsed(), Duration::ZERO, "there is no room");
    assert_eq!(waiting.await.expect("no panic"), Err(busy()));
    assert_eq!(began.elapsed(), SIGNED_WAIT);
    assert!(checked.iter().all(|one| !one.is_finished()));
    assert_eq!(bucket.gaps(), 0, "its signature may not fit");
    checked.iter().for_each(tokio::task::JoinHandle::abort);
}
