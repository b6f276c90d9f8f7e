//! The times that readers wait for bytes, as `/metrics` shows them.

use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_engine::{OpenOptions, StreamKind};
use tidegate_origin::fake::Fault;
use tidegate_plan::{ByteRange, Client, RangeSpec};

use crate::support::*;

/// Returns the value of one line of the engine's metrics.
fn shown(world: &World, name: &str, labels: &str) -> Option<f64> {
    let mut registry = Registry::default();
    world.engine.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).expect("text");
    let line = format!("{name}{{{labels}}} ");
    let found = text.lines().find_map(|it| it.strip_prefix(&*line));
    found.map(|value| value.parse().expect("a number"))
}

fn world() -> World {
    Setup::profile(|profile| {
        profile.name = "films";
        profile.read_ahead = 0;
    })
    .build()
}

fn by(client: Client) -> OpenOptions {
    OpenOptions {
        client,
        ..first(RangeSpec::From(0))
    }
}

const HTTP: &str = r#"frontend="http",profile="films""#;
const FUSE: &str = r#"frontend="fuse",profile="films""#;

#[tokio::test(start_paused = true)]
async fn a_wait_is_counted_by_frontend_and_profile_and_a_long_one_is_a_gap() {
    let world = world();
    world.bucket.put(KEY, sample(1, 2 * MIB));
    let late = |millis| Fault::Latency(Duration::from_millis(millis));
    // The open, with the first mebibyte; then the rest, also by a second request.
    world.bucket.set_faults([late(40)]);
    let object = world.open(KEY, by(Client::Local)).await.expect("opened");
    world.bucket.set_faults([late(300)]);
    whole(&object).await.expect("read");
    world.bucket.set_faults([]);
    let waits = shown(&world, "reader_wait_seconds_count", HTTP).expect("waits");
    let bucket = |bound: &str| {
        let labels = format!(r#"le="{bound}",{HTTP}"#);
        shown(&world, "reader_wait_seconds_bucket", &labels).expect("a bound")
    };
    assert_eq!(bucket("0.1"), waits - 1.0, "all but one are short");
    assert_eq!(bucket("0.4"), waits, "and that one took 300 ms");
    let sum = shown(&world, "reader_wait_seconds_sum", HTTP).expect("waits");
    assert!((0.339..0.45).contains(&sum), "{sum}");
    assert_eq!(shown(&world, "reader_gaps_total", HTTP), Some(1.0));

    // From memory there is nothing to wait for.
    let object = world.open(KEY, by(Client::Local)).await.expect("opened");
    whole(&object).await.expect("read");
    assert_eq!(
        shown(&world, "reader_wait_seconds_count", HTTP),
        Some(waits)
    );
    assert_eq!(shown(&world, "reader_wait_seconds_count", FUSE), None);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_while_it_waits_has_waited() {
    let world = world();
    world.bucket.put(KEY, sample(1, 2 * MIB));
    let object = world.open(KEY, by(Client::Own)).await.expect("opened");
    world.bucket.set_faults([Fault::Latency(secs(5))]);
    let read = tokio::time::timeout(secs(2), whole(&object)).await;
    assert!(read.is_err(), "it gave up");
    assert_eq!(shown(&world, "reader_gaps_total", FUSE), Some(1.0));
    let sum = shown(&world, "reader_wait_seconds_sum", FUSE).expect("waits");
    assert!((2.0..2.1).contains(&sum), "{sum}");
}

#[tokio::test(start_paused = true)]
async fn nothing_that_no_reader_waits_for_is_counted() {
    let world = world();
    world.bucket.put(KEY, sample(1, MIB));
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    let warm = tidegate_engine::warm::Warmer::new(world.engine.clone(), None);
    let warmed = warm.warm(&world.source, &valid(KEY), &|_| {}).await;
    assert_eq!(warmed.expect("warmed").fetched, MIB);
    let version_only = OpenOptions::default();
    world.open("none", version_only).await.expect_err("missing");
    for labels in [HTTP, FUSE] {
        assert_eq!(shown(&world, "reader_wait_seconds_count", labels), None);
        assert_eq!(shown(&world, "reader_gaps_total", labels), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_whether_bytes_are_ready_is_no_wait() {
    let world = world();
    world.bucket.put(KEY, sample(1, 2 * MIB));
    let object = world.open(KEY, by(Client::Local)).await.expect("opened");
    let opening = shown(&world, "reader_wait_seconds_count", HTTP);
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_millis(50))]);
    let mut reader = object.read_at(ByteRange::new(MIB, 2 * MIB));
    let guard = object.stream(StreamKind::Http, String::new());
    reader.report_to(&guard);
    assert!(reader.next().now_or_never().is_none(), "not there yet");
    let is_waiting = || world.engine.streams().report()[0].waiting;
    assert!(is_waiting());
    reader.forget_wait();
    assert!(!is_waiting());
    // The client comes back for it long after it has arrived.
    tokio::time::sleep(secs(9)).await;
    reader.next().await.expect("bytes").expect("no error");
    assert_eq!(shown(&world, "reader_gaps_total", HTTP), Some(0.0));
    assert_eq!(shown(&world, "reader_wait_seconds_count", HTTP), opening);
}
