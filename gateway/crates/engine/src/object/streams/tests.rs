//! The registry over scripted polls, with the time paused.

use std::task::{Poll, Waker};

use tokio::time::advance;

use super::*;
use crate::fetch::part::CursorIdentity;
use tidegate_plan::{ObjectKey, OriginId};

fn info() -> StreamInfo {
    StreamInfo {
        kind: StreamKind::Http,
        client: "192.0.2.1".to_owned(),
        object: ObjectId {
            origin: OriginId(1),
            key: ObjectKey::new("films/a.mkv").expect("a key"),
        },
        size: 1 << 30,
        chunk: 256 << 10,
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_seen_until_its_guard_goes() {
    let streams = Arc::new(Streams::default());
    let first = streams.register(info());
    let second = streams.register(info());
    let ids = |streams: &Streams| -> Vec<u64> {
        streams.report().iter().map(|stream| stream.id).collect()
    };
    assert_eq!(ids(&streams), [1, 2]);
    drop(first);
    assert_eq!(ids(&streams), [2]);
    drop(second);
    assert!(ids(&streams).is_empty());
}

#[tokio::test(start_paused = true)]
async fn position_rate_and_stalls_follow_the_reader() {
    let streams = Arc::new(Streams::default());
    let guard = streams.register(info());
    let stream = guard.stream();
    let part = Part::new(2..5, FetchSource::Disk, CursorIdentity::none());
    stream.set_tier(2, Some(&part));
    // The wait for the first bytes is no stall.
    stream.begin_wait(Instant::now());
    advance(Duration::from_secs(1)).await;
    stream.end_wait(true);
    stream.take(1000, 1000);
    stream.begin_wait(Instant::now());
    advance(Duration::from_millis(99)).await;
    stream.end_wait(false);
    stream.take(2000, 1000);
    let report = &streams.report()[0];
    assert_eq!(
        (report.position, report.taken, report.stalls),
        (2000, 2000, 0)
    );
    assert_eq!(report.tier, StreamTier::Disk);
    for (index, tier) in [(4, StreamTier::Disk), (5, StreamTier::Memory)] {
        stream.set_tier(index, None);
        assert_eq!(streams.report()[0].tier, tier, "{index}");
    }
    let report = &streams.report()[0];
    assert!(
        (report.rate - 2000.0 / 1.099).abs() < 1.0,
        "{}",
        report.rate
    );

    stream.begin_wait(Instant::now());
    advance(Duration::from_millis(101)).await;
    let report = &streams.report()[0];
    assert_eq!((report.stalls, report.waiting), (1, true), "it stalls now");
    stream.end_wait(true);
    stream.take(2001, 1);
    assert_eq!((streams.report()[0].stalls, streams.stalls()), (1, 1));
    advance(Duration::from_secs(10)).await;
    let report = &streams.report()[0];
    assert_eq!((report.rate, report.waiting), (0.0, false), "it idles");
    drop(guard);
    assert_eq!(streams.stalls(), 1, "once, also when its stream has ended");
}

#[tokio::test(start_paused = true)]
async fn an_order_to_stop_wakes_the_reader() {
    let streams = Arc::new(Streams::default());
    let guard = streams.register(info());
    let stream = guard.stream().clone();
    // Two reads of one handle of a mount.
    let waits = [1, 2].map(|reader| {
        let stream = stream.clone();
        tokio::spawn(std::future::poll_fn(move |cx| {
            match stream.wait(reader, cx.waker()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }))
    });
    tokio::task::yield_now().await;
    assert!(!streams.stop(7), "there is no such stream");
    assert!(streams.stop(1));
    for wait in waits {
        let woken = tokio::time::timeout(Duration::from_secs(60), wait).await;
        woken.expect("in time").expect("woken");
    }
    assert!(stream.wait(3, Waker::noop()), "a reader that waits later");
}
