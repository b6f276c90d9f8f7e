//! The end of a PUT: with the object, or with a reason and nothing left.

use std::time::Duration;

use futures_util::stream;
use tidegate_origin::OriginError;
use tidegate_origin::fake::{FakeOrigin, Fault};
use tidegate_plan::digest::Digests;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tidegate_write::{WriteError, WritePath};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::engine::{self, World, secs, valid};
use crate::gateway::{sample, status, until};
use crate::write::{put, writable};

const LARGE: usize = 20_000_000;

/// Makes the completion of an object of [`LARGE`] bytes fail, after its start and its three parts.
fn fail_completion(origin: &FakeOrigin, fault: Fault) {
    for _ in 0..4 {
        origin.fail_next([]);
    }
    origin.fail_next([fault]);
}

#[tokio::test]
async fn the_same_bytes_do_not_excuse_a_condition_that_does_not_hold() {
    let gateway = writable().await;
    for wanted in [201, 412] {
        let got = put(&gateway, "/k", &[("if-none-match", "*")], sample(LARGE)).await;
        assert_eq!(status(&got), wanted);
        until(|| gateway.origin.uploads_under_way().is_empty()).await;
    }
    gateway.end().await;
}

/// The same bytes have the same tag, whichever writer wrote them.
#[tokio::test]
async fn what_is_there_already_counts_only_with_the_same_headers() {
    let gateway = writable().await;
    let kind = ("content-type", "text/a");
    let got = put(&gateway, "/k", &[kind], sample(LARGE)).await;
    assert_eq!(status(&got), 201);
    let tag = got.header("etag");
    for (kind, wanted) in [("text/b", 503), ("text/a", 204)] {
        let down = OriginError::Unavailable("down");
        fail_completion(&gateway.origin, Fault::Refuse(down));
        let headers = [("content-type", kind), ("if-match", &tag)];
        let got = put(&gateway, "/k", &headers, sample(LARGE)).await;
        assert_eq!(status(&got), wanted, "{kind}");
        until(|| gateway.origin.uploads_under_way().is_empty()).await;
        let got = gateway.get("/k", &[("range", "bytes=0-0")]).await;
        assert_eq!(got.header("content-type"), "text/a");
    }
    gateway.end().await;
}

#[tokio::test]
async fn an_answer_that_is_lost_is_found_out() {
    let gateway = writable().await;
    fail_completion(&gateway.origin, Fault::LoseAnswer);
    let got = put(&gateway, "/k", &[("if-none-match", "*")], sample(LARGE)).await;
    assert_eq!(status(&got), 201);
    assert_eq!(gateway.get("/k", &[]).await.bytes().len(), LARGE);
    gateway.end().await;
}

#[tokio::test]
async fn an_object_that_lost_bytes_is_told() {
    let gateway = writable().await;
    fail_completion(&gateway.origin, Fault::Damage);
    let got = put(&gateway, "/k", &[("if-none-match", "*")], sample(LARGE)).await;
    assert_eq!(status(&got), 502);
    gateway.end().await;
}

/// The distinction holds even if the look-up behind it is late.
#[tokio::test]
async fn a_new_object_is_told_from_another_version() {
    let gateway = writable().await;
    for wanted in [201, 204] {
        let late = Fault::Latency(Duration::from_millis(100));
        gateway.origin.fail_next([late]);
        assert_eq!(status(&put(&gateway, "/k", &[], "x").await), wanted);
    }
    gateway.end().await;
}

#[tokio::test]
async fn no_part_waits_for_the_look_up() {
    let gateway = writable().await;
    gateway.origin.fail_next([Fault::Latency(secs(3600))]);
    let mut stream = gateway.connect().await;
    let head = "PUT /k HTTP/1.1\r\nhost: a\r\nauthorization: Bearer s3cret\r\ncontent-length: 40000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&sample(LARGE)).await.expect("sent");
    until(|| gateway.origin.count("part") == 2).await;
    drop(stream);
    until(|| gateway.origin.uploads_under_way().is_empty()).await;
    gateway.end().await;
}

/// The stores are closed in order, even if an origin hangs.
#[tokio::test(start_paused = true)]
async fn an_origin_that_hangs_holds_no_end_up() {
    for abort in [vec![], vec![Fault::Latency(secs(3600))]] {
        let world = World::plain();
        let (origin, engine) = (world.bucket.clone(), world.engine.clone());
        fail_completion(&origin, Fault::Latency(secs(3600)));
        origin.set_faults(abort);
        let incoming = IncomingObject {
            headers: vec![],
            wanted: WriteCondition::Anything,
            length: Some(LARGE as u64),
            digests: Digests::default(),
        };
        let body = stream::iter([Ok::<_, ClientDisconnect>(engine::sample(1, LARGE as u64))]);
        let (source, key) = (world.source.clone(), valid("k"));
        let write_path = WritePath::new(&engine);
        let put = write_path.receive(&source, &key, incoming, body);
        let end = async {
            while origin.count("complete") == 0 {
                tokio::task::yield_now().await;
            }
            let begun = Instant::now();
            engine.close(secs(1)).await;
            assert!(begun.elapsed() < secs(1), "in order");
        };
        let (put, ()) = tokio::join!(put, end);
        assert_eq!(put, Err(WriteError::Closing));
        assert!(origin.keys().is_empty());
    }
}
