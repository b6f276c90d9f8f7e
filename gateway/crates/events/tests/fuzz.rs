//! Fuzz targets of what reports changes: the records of MinIO, AWS, Ceph and EventBridge, the signed messages of SNS, and the
//! messages of a fleet.
//!
//! They run as tests, [`RUNS`] inputs each; `just fuzz` gives them time.

#[path = "../../plan/tests/support/spliced.rs"]
mod spliced;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bolero::check;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;
use spliced::spliced;
use tidegate_events::ApplyError;
use tidegate_events::fleet::{Extent, Fleet, FleetChange, FleetMetrics, FleetSink, MAX_MESSAGE};
use tidegate_events::record::{MAX_RECORDS, read};
use tidegate_events::sns::{Fetch, FetchError, SnsError, SnsMessage, SnsVerifier};
use tidegate_plan::{ChangeKind, FolderChange, KeyChange, Timestamp, key};
use tidegate_telemetry::locks::Recover as _;

/// The inputs of a target in a plain test run.
const RUNS: usize = 5_000;

/// Messages of each form, which the targets change.
const MESSAGES: [&str; 5] = [
    // MinIO.
    r#"{"EventName":"s3:ObjectCreated:Put","Key":"media/a%2Fb.txt","Records":[{"eventVersion":"2.0","eventSource":"minio:s3","eventTime":"2026-11-20T08:00:00.123Z","eventName":"s3:ObjectCreated:Put","s3":{"bucket":{"name":"media","arn":"arn:aws:s3:::media"},"object":{"key":"a%2Fb.txt","size":5,"eTag":"5d41402abc4b2a76b9719d911017c592","sequencer":"17A0B1C2D3E4F500"}}}]}"#,
    // AWS.
    r#"{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","awsRegion":"eu-west-1","eventTime":"2026-11-20T08:00:00.000Z","eventName":"ObjectRemoved:Delete","s3":{"s3SchemaVersion":"1.0","bucket":{"name":"media"},"object":{"key":"a+b%C3%BC","sequencer":"0055AED6DCD90281E5"}}}]}"#,
    // Ceph.
    r#"{"Records":[{"eventVersion":"2.2","eventSource":"ceph:s3","eventTime":"2026-11-20T08:00:00.000000Z","eventName":"ObjectCreated:CompleteMultipartUpload","s3":{"bucket":{"name":"media"},"object":{"key":"a+b","size":0,"eTag":"x-2","versionId":"","sequencer":"F7E6D75DC742D108"}}}]}"#,
    // EventBridge.
    r#"{"version":"0","detail-type":"Object Created","source":"aws.s3","time":"2026-11-20T08:00:00Z","detail":{"version":"0","bucket":{"name":"media"},"object":{"key":"a b+c","size":5,"etag":"b1946ac92492d2347c6235b4d2611184","sequencer":"00617F08299329D189"},"reason":"PutObject"}}"#,
    // A test of AWS.
    r#"{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-11-20T08:00:00.000Z","Bucket":"media"}"#,
];

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"Records\":[]",
    "\"Records\":{}",
    "\"s3\":null",
    "\"key\":\"..%2F\"",
    "%00",
    "%2",
    "+",
    "ObjectRemoved:",
    "s3:",
    "ceph:s3",
    "aws.s3",
    "Object Deleted",
    "é",
    "\n",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":",
    "\"source\":\"aws.s3\",",
    "\"detail\":{},",
];

/// Replaces parts of a text, each named by its place, its length and a word.
fn changed(text: &str, changes: &[(u16, u8, u8)]) -> String {
    spliced(text, WORDS, 30, &changes[..changes.len().min(6)])
}

/// Reads a message, and checks what a sink relies on.
fn check_sound(message: &[u8]) {
    let Ok(events) = read(message) else { return };
    let records = events.changes.len() as u64 + events.ignored + events.unknown + events.invalid;
    // Ceph's keys may count twice.
    assert!(records <= 2 * MAX_RECORDS as u64);
    for change in &events.changes {
        assert!((1..=key::MAX_KEY).contains(&change.key.as_str().len()));
        assert!(!change.key.as_str().contains('\0'));
        if change.kind == ChangeKind::Removed {
            assert!(change.etag.is_none() && change.size.is_none());
        }
    }
}

#[test]
fn a_message_of_any_form_is_sound_or_refused() {
    for message in MESSAGES {
        let events = read(message.as_bytes()).expect("a known form");
        assert_eq!(events.invalid + events.unknown, 0, "{message}");
        assert!(!events.changes.is_empty() || events.ignored == 1);
    }
    check!()
        .with_iterations(RUNS)
        .with_type::<(u8, Vec<(u16, u8, u8)>)>()
        .for_each(|(form, changes)| {
            let message = MESSAGES[usize::from(*form) % MESSAGES.len()];
            check_sound(changed(message, changes).as_bytes());
        });
}

#[test]
fn any_bytes_are_read_or_refused() {
    check!().with_iterations(RUNS).for_each(|bytes| {
        check_sound(bytes);
        check_sound(&[b"{\"Records\":[", bytes, b"]}"].concat());
    });
}

#[test]
fn a_record_that_is_repeated_is_the_same_change_each_time() {
    check!()
        .with_iterations(RUNS / 10)
        .with_type::<(u8, u8, Vec<(u16, u8, u8)>)>()
        .for_each(|(form, times, changes)| {
            let message = MESSAGES[usize::from(form % 3)];
            let begin = message.find("\"Records\":[").expect("it has some") + "\"Records\":[".len();
            let record = changed(&message[begin..message.len() - 2], changes);
            // Text that ends the list is no record.
            if serde_json::from_str::<serde::de::IgnoredAny>(&record).is_err() {
                return;
            }
            let one = read(format!("{{\"Records\":[{record}]}}").as_bytes());
            let times = usize::from(times % 8) + 1;
            let list = vec![&*record; times].join(",");
            let all = read(format!("{{\"Records\":[{list}]}}").as_bytes());
            let (Ok(one), Ok(all)) = (&one, &all) else {
                assert_eq!(one.is_ok(), all.is_ok(), "{record}");
                return;
            };
            assert_eq!(all.changes.len(), one.changes.len() * times, "{record}");
            let chunks = all.changes.chunks(one.changes.len().max(1));
            assert!(
                chunks.into_iter().all(|chunk| chunk == one.changes),
                "{record}"
            );
            assert_eq!(all.invalid, one.invalid * times as u64, "{record}");
        });
}

const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:media";
const CERTIFICATE: &[u8] = include_bytes!("../fixtures/sns/certificate.pem");
const SIGNED: [&str; 3] = [
    include_str!("../fixtures/sns/notification-v1.json"),
    include_str!("../fixtures/sns/notification-v2.json"),
    include_str!("../fixtures/sns/confirmation.json"),
];

/// Answers for the SNS host of the topic, with its certificate.
struct Sns;

impl Fetch for Sns {
    fn fetch<'a>(
        &'a self,
        url: &'a tidegate_events::sns::AwsUrl,
    ) -> BoxFuture<'a, Result<Bytes, FetchError>> {
        assert_eq!(url.host(), "sns.eu-west-1.amazonaws.com");
        std::future::ready(Ok(Bytes::from_static(CERTIFICATE))).boxed()
    }
}

fn verify(message: &str) -> Result<SnsMessage, SnsError> {
    let verifier = SnsVerifier::new(vec![TOPIC.to_owned()], Arc::new(Sns));
    let verified = verifier.verify(message.as_bytes()).now_or_never();
    verified.expect("nothing waits")
}

#[test]
fn a_changed_message_of_sns_says_nothing_else() {
    let right = SIGNED.map(|message| verify(message).expect("it is signed"));
    check!()
        .with_iterations(RUNS / 10)
        .with_type::<(u8, Vec<(u16, u8, u8)>)>()
        .for_each(|(form, changes)| {
            let form = usize::from(*form) % SIGNED.len();
            let message = changed(SIGNED[form], changes);
            if let Ok(verified) = verify(&message) {
                assert_eq!(verified, right[form], "{message}");
            }
        });
}

/// Messages of each kind, which the target changes.
const FLEET: [&str; 9] = [
    r#"{"v":1,"from":1,"seq":1,"at":1,"body":{"kind":"heartbeat","name":"a.example","buckets":["media"]}}"#,
    r#"{"v":1,"from":2,"seq":2,"at":1,"body":{"kind":"bye"}}"#,
    r#"{"v":1,"from":3,"seq":3,"at":1,"body":{"kind":"missed"}}"#,
    r#"{"v":1,"from":4,"seq":4,"at":1,"body":{"kind":"purge","bucket":"media","key":"a b","soft":false}}"#,
    r#"{"v":1,"from":5,"seq":5,"at":1,"body":{"kind":"purge","bucket":"media","tag":"post-1","soft":true}}"#,
    r#"{"v":1,"from":6,"seq":6,"at":1,"body":{"kind":"created","bucket":"media","key":"a/b"}}"#,
    r#"{"v":1,"from":6,"seq":6,"at":1,"body":{"kind":"removed","bucket":"media","key":"a/b","event":{"etag":"\"a\"","size":5,"time":7,"sequencer":"0A","late":true}}}"#,
    r#"{"v":1,"from":6,"seq":6,"at":1,"body":{"kind":"purge","bucket":"media","all":[{"key":"b c"},{"prefix":"a/"},{"tag":"t"}],"soft":false}}"#,
    r#"{"v":1,"from":7,"seq":7,"at":1,"body":{"kind":"pin","bucket":"media","prefix":"a/","limit":5}}"#,
];

/// Keeps the changes that it is to apply.
#[derive(Default)]
struct Applied(Mutex<Vec<FleetChange>>);

impl Applied {
    fn take(&self) -> Vec<FleetChange> {
        std::mem::take(&mut self.0.lock().recover())
    }
}

impl FleetSink for Applied {
    fn apply<'a>(&'a self, change: &'a FleetChange) -> BoxFuture<'a, Result<bool, ApplyError>> {
        self.0.lock().recover().push(change.clone());
        std::future::ready(Ok(true)).boxed()
    }

    fn doubt(&self) -> BoxFuture<'_, Result<(), ApplyError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn call_hooks(&self, _: &KeyChange) {}

    fn call_hooks_below(&self, _: &FolderChange) {}

    fn hook_delay(&self, _: &KeyChange) -> Option<Duration> {
        None
    }
}

fn member() -> (Arc<Fleet>, Arc<Applied>) {
    let applied = Arc::new(Applied::default());
    let clock = Arc::new(|| Timestamp(1000));
    let made = Fleet::new(None, applied.clone(), clock, FleetMetrics::default());
    (made.expect("chance"), applied)
}

/// Gives a member a message; returns the changes that it applies.
fn receive((fleet, applied): &(Arc<Fleet>, Arc<Applied>), text: &[u8]) -> Vec<FleetChange> {
    if let Some(received) = fleet.take(text) {
        fleet.apply(received).now_or_never().expect("nothing waits");
    }
    applied.take()
}

#[test]
fn a_change_of_a_fleet_is_sound_and_means_the_same_when_it_is_sent_on() {
    check!()
        .with_iterations(RUNS)
        .with_type::<(u8, u8, Vec<(u16, u8, u8)>)>()
        .for_each(|(form, padding, changes)| {
            let text = changed(FLEET[usize::from(*form) % FLEET.len()], changes);
            let padding = MAX_MESSAGE * usize::from(*padding == 0);
            let text = format!("{text}{}", " ".repeat(padding));
            let (sender, receiver) = (member(), member());
            let applied = receive(&receiver, text.as_bytes());
            assert!(applied.len() <= 1 && receiver.0.gateways().len() <= 1);
            for change in applied {
                assert!(text.len() <= MAX_MESSAGE, "too large");
                let found = match &change {
                    FleetChange::Purged { extents, .. } => {
                        assert!(!extents.is_empty(), "{text}");
                        let key = |extent: &Extent| match extent {
                            Extent::Key(key) => Some(key.clone()),
                            Extent::Prefix(_) | Extent::Tag(_) => None,
                        };
                        extents.iter().filter_map(key).collect()
                    }
                    FleetChange::Changed(change) => vec![change.key.clone()],
                    FleetChange::Pinned { limit, .. } => {
                        assert_ne!(*limit, Some(0), "{text}");
                        vec![]
                    }
                };
                assert!(found.iter().all(|one| one.as_str().len() <= key::MAX_KEY));
                sender.0.publish(change.clone());
                let sent = sender.0.next_message().expect("it is sent");
                assert!(sent.len() <= MAX_MESSAGE, "{text}");
                assert_eq!(receive(&member(), &sent), [change], "{text}");
            }
        });
}
