//! Events of a real MinIO that come twice, in reverse order, by the thousand in one message and among others of names that no
//! store has: a relay sends them so, by webhook and on a real NATS server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;
use serde_json::{Value, json};

use crate::Way;
use crate::gateway::{Whole, ask};
use crate::relay::{Relay, records};

/// The keys of a batch, and the writes to each of them.
const KEYS: usize = 10;
const WRITES: usize = 5;

/// The keys that are written twice for a message of a thousand records: each write is reported, and once more as unknown.
const THOUSANDTHS: usize = 250;

/// Returns the message of a change with a name that no store has.
fn dreamed(message: &str) -> String {
    let mut message: Value = serde_json::from_str(message).expect("JSON");
    message["EventName"] = json!("s3:ObjectDreamed:Of");
    for record in message["Records"].as_array_mut().expect("a list") {
        record["eventName"] = json!("s3:ObjectDreamed:Of");
    }
    message.to_string()
}

/// Sends messages to the gateway, the last one first, each twice, and before them one of a name that is not known.
async fn send_reversed(relay: &Relay, messages: &[String]) {
    for message in messages.iter().rev() {
        let unknown = dreamed(message);
        relay.pass_on([&*unknown, message, message]).await;
    }
}

/// Does the same without waiting between them, so that a gateway that is told by NATS applies many at once.
async fn send_at_once(relay: &Relay, messages: &[String]) {
    let all = messages.iter().rev();
    let all = all.flat_map(|message| [dreamed(message), message.clone(), message.clone()]);
    let all: Vec<_> = all.collect();
    relay.pass_on(all.iter().map(String::as_str)).await;
}

/// Returns the requests to the bucket that readers have caused.
async fn caused(gateway: &Whole) -> u64 {
    let metrics = gateway.look("/metrics").await;
    let of = |cause| metrics.metric(&["tidegate_origin_requests_total{", cause]);
    of("cause=\"demand\"") + of("cause=\"revalidate\"")
}

/// Reads every key once: each has its last version, and the last of all is missing.
async fn read_all(gateway: &Whole, batch: usize) {
    for key in 0..KEYS {
        let got = gateway.get(&format!("/{key}"), &[]).await;
        let last = format!("{batch}.{WRITES}");
        assert_eq!((got.status, got.text()), (200, last), "{key}");
    }
    let gone = gateway.get("/gone", &[]).await;
    assert_eq!(gone.status, 404, "{}", gone.text());
}

/// Writes a batch: each key often, and one that is removed in the end. Returns what the bucket reported of it.
async fn write(relay: &mut Relay, batch: usize) -> Vec<String> {
    for write in 1..=WRITES {
        for key in 0..KEYS {
            let body = format!("{batch}.{write}");
            relay.bucket.put(&key.to_string(), body).await;
        }
    }
    relay.bucket.put("gone", "x").await;
    relay.bucket.delete("gone").await;
    relay.collect(WRITES * KEYS + 2).await
}

/// Reads a key until it is told to stop: no version is followed by an older one.
async fn read_on(http: SocketAddr, key: usize, stop: Arc<AtomicBool>) {
    let mut latest = String::new();
    while !stop.load(Ordering::Relaxed) {
        let got = ask(http, Method::GET, &format!("/{key}"), &[]).await;
        assert_eq!(got.status, 200, "{}", got.text());
        assert!(got.text() >= latest, "{} after {latest}", got.text());
        latest = got.text();
    }
}

async fn the_last_version_counts(way: Way) {
    let mut relay = Relay::start(way).await;
    let messages = write(&mut relay, 1).await;
    send_reversed(&relay, &messages).await;
    read_all(&relay.gateway, 1).await;

    // Without readers, each object costs one request once all is reported, and none after that.
    let messages = write(&mut relay, 2).await;
    let before = caused(&relay.gateway).await;
    send_at_once(&relay, &messages).await;
    read_all(&relay.gateway, 2).await;
    let after = caused(&relay.gateway).await;
    assert_eq!(after - before, KEYS as u64 + 1);
    send_reversed(&relay, &messages[..1]).await;
    read_all(&relay.gateway, 2).await;
    let asked = caused(&relay.gateway).await - after;
    assert!(asked <= 1, "it was of one key");

    // With readers, an event costs a request for its key at most, and perhaps another that it has overtaken.
    let messages = write(&mut relay, 3).await;
    let before = caused(&relay.gateway).await;
    let stop = Arc::new(AtomicBool::new(false));
    let http = relay.gateway.http;
    let readers = (0..KEYS).map(|key| tokio::spawn(read_on(http, key, stop.clone())));
    let readers: Vec<_> = readers.collect();
    send_reversed(&relay, &messages).await;
    read_all(&relay.gateway, 3).await;
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("no answer was older than one before");
    }
    let asked = caused(&relay.gateway).await - before;
    assert!(asked <= 2 * messages.len() as u64, "{asked} requests");

    // What is not known was counted as such, changed nothing, and was no gap.
    let unknown = 3 * (WRITES * KEYS + 2) as u64 + 1;
    assert_eq!(relay.counted("unknown").await, unknown);
    no_gap(&relay).await;
    relay.gateway.stop().await;
}

/// No record was one that may have been a change and was not taken.
async fn no_gap(relay: &Relay) {
    for reason in ["unreadable", "failed", "overflow"] {
        let reason = format!("reason=\"{reason}\"");
        let gaps = ["tidegate_bucket_events_gaps_total{", &reason];
        assert_eq!(relay.gateway.metric(&gaps).await, 0, "{reason}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_twice_and_reversed_bring_the_last_version() {
    the_last_version_counts(Way::Webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_come_twice_and_reversed_on_nats_bring_the_last_version() {
    the_last_version_counts(Way::Nats).await;
}

/// Writes all keys of the message of a thousand records, reads what the gateway has of them then, and returns the messages.
async fn write_thousandths(relay: &mut Relay, (write, known): (&str, &str)) -> Vec<String> {
    for key in 0..THOUSANDTHS {
        relay.bucket.put(&format!("many/{key}"), write).await;
    }
    let messages = relay.collect(THOUSANDTHS).await;
    read_thousandths(relay, known).await;
    messages
}

async fn read_thousandths(relay: &Relay, body: &str) {
    for key in 0..THOUSANDTHS {
        let got = relay.gateway.get(&format!("/many/{key}"), &[]).await;
        assert_eq!((got.status, got.text().as_str()), (200, body), "{key}");
    }
}

/// Returns the numbers of records that were applied, came late, came again, and are not known.
async fn results(relay: &Relay) -> [u64; 4] {
    let mut counts = [0; 4];
    for (count, result) in counts
        .iter_mut()
        .zip(["applied", "late", "duplicate", "unknown"])
    {
        *count = relay.counted(result).await;
    }
    counts
}

async fn a_thousand_records_of_one_message_count(way: Way) {
    let mut relay = Relay::start(way).await;
    let older = write_thousandths(&mut relay, ("first", "first")).await;
    // Nothing of it is reported yet.
    let newer = write_thousandths(&mut relay, ("second", "first")).await;
    let messages = newer.iter().chain(&older);
    let message = messages.flat_map(|message| [records(&dreamed(message)), records(message)]);
    let list: Vec<_> = message.flatten().collect();
    assert_eq!(list.len(), 1000);
    let message = json!({ "EventName": "s3:ObjectCreated:Put", "Records": list }).to_string();

    let before = caused(&relay.gateway).await;
    relay.pass_on([&*message]).await;
    let half = THOUSANDTHS as u64;
    assert_eq!(results(&relay).await, [half, half, 0, 2 * half]);
    read_thousandths(&relay, "second").await;
    assert_eq!(caused(&relay.gateway).await - before, half);

    // It comes again: the newer ones are known, and the older ones are doubts once more.
    relay.pass_on([&*message]).await;
    assert_eq!(results(&relay).await, [half, 2 * half, half, 4 * half]);
    read_thousandths(&relay, "second").await;
    no_gap(&relay).await;
    relay.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_records_in_one_message_of_a_webhook_count() {
    a_thousand_records_of_one_message_count(Way::Webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_records_in_one_message_on_nats_count() {
    a_thousand_records_of_one_message_count(Way::Nats).await;
}
