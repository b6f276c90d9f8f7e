//! A closed draft that is not in the bucket yet is served as it was closed, without a validator and
//! marked as not to be stored.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::Method;
use tempfile::TempDir;
use tidegate_http::RouteSettings;
use tidegate_origin::OriginError;
use tidegate_origin::fake::{FakeOrigin, Fault};
use tidegate_plan::PartSizes;
use tidegate_plan::digest::Digests;
use tidegate_plan::{ByteRange, ObjectKey};
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tidegate_write::{Commit, OpenMode, Settings};
use tidegate_write::{WriteError, Writer, Writers};

use crate::gateway::{Gateway, LONG, sample, status};

const DOWN: Fault = Fault::Refuse(OriginError::Unavailable("down"));

/// Starts a gateway that also writes, as a mount does.
async fn writing() -> (Gateway, Writers, TempDir) {
    let gateway = Gateway::start().await;
    let spool = tempfile::tempdir().expect("a folder");
    let settings = Settings::new(spool.path().to_owned());
    let sources = [gateway.source.clone()];
    let writers = Writers::start(&gateway.write_path, settings, &sources).expect("a spool");
    (gateway, writers, spool)
}

/// Writes an object over the previous one, and leaves it open.
async fn written(gateway: &Gateway, writers: &Writers, bytes: Bytes) -> Writer {
    let key = ObjectKey::new("k.jpg").expect("a key");
    let kind = http::HeaderValue::from_static("image/jpeg");
    let headers = vec![(http::header::CONTENT_TYPE, kind)];
    let opened = writers.open(&gateway.source, &key, OpenMode::Create, headers);
    let writer = opened.await.expect("opened");
    writer.write_at(0, bytes).await.expect("room");
    writer
}

async fn close_behind(writer: Writer) {
    writer.commit(Commit::Background).await.expect("durable");
}

#[tokio::test]
async fn what_was_closed_is_served_before_it_is_in_the_bucket() {
    let (gateway, writers, _spool) = writing().await;
    // The gateway remembers that the object is missing.
    assert_eq!(status(&gateway.get("/k.jpg", &[]).await), 404);
    gateway.origin.set_faults([DOWN]);
    let bytes = Bytes::from(sample(700_001));
    let writer = written(&gateway, &writers, bytes.clone()).await;
    // No reader sees it before it is closed.
    assert_eq!(status(&gateway.get("/k.jpg", &[]).await), 404);
    close_behind(writer).await;
    let conditions = [("range", "bytes=1-2"), ("if-none-match", "\"a\"")];
    let got = gateway.get("/k.jpg", &conditions).await;
    assert_eq!(status(&got), 200);
    assert!(*got.bytes() == bytes);
    for (name, value) in [
        ("etag", ""),
        ("last-modified", ""),
        ("age", ""),
        ("cache-control", "no-cache"),
        ("accept-ranges", "none"),
        ("content-type", "image/jpeg"),
        ("content-length", "700001"),
        ("cache-status", "tidegate; detail=draft"),
    ] {
        assert_eq!(got.header(name), value, "{name}");
    }
    let head = gateway.ask(Method::HEAD, "/k.jpg", &[]).await;
    assert_eq!(
        (status(&head), head.header("content-length").as_str()),
        (200, "700001")
    );
    let matched = gateway.get("/k.jpg", &[("if-match", "\"a\"")]).await;
    assert_eq!(status(&matched), 412);
    // After its publication it is an object like any other.
    gateway.origin.set_faults([]);
    let published = async || !gateway.get("/k.jpg", &[]).await.header("etag").is_empty();
    while !published().await {
        tokio::task::yield_now().await;
    }
    let got = gateway.get("/k.jpg", &[("range", "bytes=1-2")]).await;
    assert_eq!((status(&got), got.bytes()), (206, &bytes.slice(1..3)));
    gateway.end().await;
}

#[tokio::test]
async fn what_replaces_an_object_is_seen_at_once() {
    let (gateway, writers, _spool) = writing().await;
    let old = Bytes::from(sample(5000));
    let writer = written(&gateway, &writers, old.clone()).await;
    writer.commit(Commit::Close).await.expect("published");
    drop(writer);
    assert!(*gateway.get("/k.jpg", &[]).await.bytes() == old);
    gateway.origin.set_faults([DOWN]);
    let new = Bytes::from(sample(300_000)).slice(7..);
    let writer = written(&gateway, &writers, new.clone()).await;
    // Half of the next version is no answer; the bucket's version still is.
    assert!(*gateway.get("/k.jpg", &[]).await.bytes() == old);
    close_behind(writer).await;
    assert!(*gateway.get("/k.jpg", &[]).await.bytes() == new);
    // If it is deleted before its publication, readers do not see it.
    gateway.origin.set_faults([]);
    let key = ObjectKey::new("k.jpg").expect("a key");
    writers
        .remove(&gateway.source, &key)
        .await
        .expect("deleted");
    assert_eq!(status(&gateway.get("/k.jpg", &[]).await), 404);
    gateway.end().await;
}

/// Bytes of two closed drafts never meet in one answer.
#[tokio::test]
async fn a_draft_that_is_written_to_again_cuts_answers_off() {
    let (gateway, writers, _spool) = writing().await;
    gateway.origin.set_faults([DOWN]);
    let bytes = Bytes::from(sample(1 << 20));
    close_behind(written(&gateway, &writers, bytes.clone()).await).await;
    let key = ObjectKey::new("k.jpg").expect("a key");
    let draft = gateway.write_path.closed_draft(&gateway.source, &key);
    let draft = draft.expect("closed");
    let mut reader = draft.read_at(ByteRange::new(0, 1 << 20));
    let first = reader.next().await.expect("more").expect("its first bytes");
    assert!(bytes.starts_with(&first));
    let again = writers.open(&gateway.source, &key, OpenMode::Change, vec![]);
    let again = again.await.expect("opened");
    let change = again.write_at(900_000, Bytes::from_static(b"other"));
    tokio::time::timeout(LONG, change)
        .await
        .expect("in time")
        .expect("written");
    let rest = reader.next().await.expect("an end");
    assert!(rest.is_err(), "cut off");
    assert!(
        gateway
            .write_path
            .closed_draft(&gateway.source, &key)
            .is_none()
    );
    gateway.end().await;
}

/// Bytes of a part, of which the object has 40 and the small spool 15.
const PART: u64 = 1000;

/// Starts a gateway with a small spool, and writes an object in order that outgrows it. No answer takes longer than
/// `patience` without progress. The gateway remembers that the object is missing.
async fn outgrown(patience: Duration) -> (Gateway, Writers, TempDir, Writer, Bytes) {
    let fake = FakeOrigin::new().with_min_part(1);
    let routes = vec![RouteSettings::default()];
    let serving = tidegate_http::Settings::default();
    let gateway = Gateway::over(Arc::new(fake.clone()), fake, routes, serving).await;
    let spool = tempfile::tempdir().expect("a folder");
    let settings = Settings {
        // The two files of a draft count as well.
        size: 15 * PART + (20 << 10),
        parts: PartSizes::new(PART),
        kept: 2 * PART,
        patience,
        ..Settings::new(spool.path().to_owned())
    };
    let sources = [gateway.source.clone()];
    let writers = Writers::start(&gateway.write_path, settings, &sources).expect("a spool");
    assert_eq!(status(&gateway.get("/k.jpg", &[]).await), 404);
    let bytes = Bytes::from(sample(40 * PART as usize));
    let writer = written(&gateway, &writers, bytes.slice(..PART as usize)).await;
    for part in 1..40 {
        let from = part * PART as usize;
        let piece = bytes.slice(from..from + PART as usize);
        // On a slow machine the parts leave the spool later than the patience lasts.
        let written = async {
            while let Err(error) = writer.write_at(from as u64, piece.clone()).await {
                assert!(matches!(error, WriteError::Full), "{error}");
            }
        };
        tokio::time::timeout(LONG, written).await.expect("room");
    }
    let gone = writer.read_at(ByteRange::new(20 * PART, 21 * PART)).await;
    assert!(gone.is_err(), "it left the spool");
    (gateway, writers, spool, writer, bytes)
}

/// The first completion fails, so the object is in the bucket after a second at the earliest.
#[tokio::test]
async fn a_closed_object_that_outgrew_the_spool_is_answered_once_it_is_published() {
    let (gateway, _writers, _spool, writer, bytes) = outgrown(LONG).await;
    gateway.origin.fail_from("complete", [DOWN], []);
    close_behind(writer).await;
    let got = gateway.get("/k.jpg", &[]).await;
    assert_eq!(status(&got), 200);
    assert!(*got.bytes() == bytes);
    assert!(!got.header("etag").is_empty(), "it is the bucket's version");
    gateway.end().await;
}

#[tokio::test]
async fn a_closed_object_that_cannot_be_published_is_not_missing() {
    let patience = Duration::from_millis(20);
    let (gateway, _writers, _spool, writer, bytes) = outgrown(patience).await;
    gateway.origin.set_faults([DOWN]);
    close_behind(writer).await;
    let got = gateway.get("/k.jpg", &[]).await;
    assert_eq!(status(&got), 503);
    assert_eq!(got.header("retry-after"), "2");
    gateway.origin.set_faults([]);
    let got = loop {
        let got = gateway.get("/k.jpg", &[]).await;
        match status(&got) {
            503 => {}
            _ => break got,
        }
    };
    assert_eq!(status(&got), 200);
    assert!(*got.bytes() == bytes);
    gateway.end().await;
}

/// A half-written replacement is no answer, and the bucket may have no object.
#[tokio::test]
async fn what_was_closed_is_served_until_what_replaces_it_is_closed() {
    let (gateway, writers, _spool) = writing().await;
    assert_eq!(status(&gateway.get("/k.jpg", &[]).await), 404);
    gateway.origin.set_faults([DOWN]);
    let old = Bytes::from(sample(1 << 20));
    close_behind(written(&gateway, &writers, old.clone()).await).await;
    let key = ObjectKey::new("k.jpg").expect("a key");
    let draft = gateway.write_path.closed_draft(&gateway.source, &key);
    let mut reader = draft.expect("closed").read_at(ByteRange::new(0, 1 << 20));
    let first = reader.next().await.expect("more").expect("its first bytes");

    let new = Bytes::from(sample(400_000)).slice(7..);
    let writer = written(&gateway, &writers, new.clone()).await;
    for _ in 0..2 {
        let got = gateway.get("/k.jpg", &[]).await;
        assert_eq!((status(&got), got.header("etag").as_str()), (200, ""));
        assert!(*got.bytes() == old);
        assert_eq!(got.header("content-type"), "image/jpeg");
        // Truncated again: the closed edition stays the same.
        writer.truncate(0).await.expect("cut");
        writer.write_at(0, new.clone()).await.expect("room");
    }
    let mut read = Vec::from(first);
    while let Some(piece) = reader.next().await {
        read.extend_from_slice(&piece.expect("an answer goes on with what it began with"));
    }
    assert!(read == old);
    close_behind(writer).await;
    assert!(*gateway.get("/k.jpg", &[]).await.bytes() == new);
    gateway.end().await;
}

/// A PUT or DELETE over HTTP is newer than a draft that was closed before it.
#[tokio::test]
async fn a_replaced_draft_is_served_no_longer_once_the_object_was_put_or_deleted() {
    let (gateway, writers, _spool) = writing().await;
    gateway.origin.set_faults([DOWN]);
    let old = Bytes::from(sample(50_000));
    close_behind(written(&gateway, &writers, old.clone()).await).await;
    let writer = written(&gateway, &writers, Bytes::from_static(b"half")).await;
    assert!(*gateway.get("/k.jpg", &[]).await.bytes() == old);

    gateway.origin.set_faults([]);
    let key = ObjectKey::new("k.jpg").expect("a key");
    let incoming = IncomingObject {
        headers: Vec::new(),
        wanted: WriteCondition::Anything,
        length: Some(3),
        digests: Digests::default(),
    };
    let body = stream::iter([Ok::<_, ClientDisconnect>(Bytes::from_static(b"put"))]);
    let put = gateway
        .write_path
        .receive(&gateway.source, &key, incoming, body);
    put.await.expect("put");
    assert_eq!(gateway.get("/k.jpg", &[]).await.bytes(), "put");
    writers
        .remove(&gateway.source, &key)
        .await
        .expect("deleted");
    assert_eq!(status(&gateway.get("/k.jpg", &[]).await), 404);
    drop(writer);
    gateway.end().await;
}
