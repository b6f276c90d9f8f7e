//! The duties of every bucket towards its writer, checked on each bucket: one in memory, the
//! embedded one, and (feature `real-parts`) MinIO, with every decorator around them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate::embedded::EmbeddedOrigin;
use tidegate_origin::fake::Fault;
use tidegate_origin::write::Headers;
use tidegate_origin::{
    self, Answer, Condition, CopySource, FakeOrigin, Get, Guard, Metrics, Origin, OriginError,
    PartSums, Payload, Phase, Priority, Settings, Sums, Upload,
};
use tidegate_plan::{ETag, ObjectKey, Version};
use tokio::time::Instant;

#[cfg(feature = "real-parts")]
#[expect(dead_code, reason = "written to by the origin under test here")]
#[path = "support/bucket.rs"]
mod bucket;
#[cfg(feature = "real-parts")]
#[path = "support/minio.rs"]
mod minio;
#[cfg(feature = "real-parts")]
#[path = "support/ports.rs"]
mod ports;
#[path = "origin_write/uploads.rs"]
mod uploads;

use uploads::{
    copies_parts_of_one_version, copies_whole_objects, gives_uploads_up, guards_what_is_completed,
    puts_parts_of_a_named_checksum_together, puts_parts_together,
};

const MIB: usize = 1 << 20;

/// A bucket under test, and the known gaps of its store.
struct Subject {
    origin: Arc<dyn Origin>,
    lacks: &'static [Lack],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// It does not compare the checksum of a part with its bytes.
    PartChecksums,
    /// It does not compare the tags of parts with those listed at the end.
    PartTags,
}

impl Subject {
    async fn put(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
        guard: Guard,
    ) -> Result<ETag, OriginError> {
        let payload = Payload::from(bytes.into());
        let key = name(key);
        let put = self.origin.writing().put(&key, headers(), payload, guard);
        put.await.map(|written| written.etag)
    }

    async fn read(&self, key: &str) -> (Version, Vec<u8>) {
        let get = Get {
            key: name(key),
            range: None,
            condition: Condition::None,
            priority: Priority::Demand,
        };
        let Ok(Answer::Content(mut content)) = self.origin.get(get).await else {
            panic!("no content of {key}");
        };
        let mut bytes = Vec::new();
        while let Some(frame) = content.body.next().await {
            bytes.extend_from_slice(&frame.expect("bytes"));
        }
        (Version::clone(&content.version), bytes)
    }

    async fn begin(&self, key: &str) -> Upload {
        self.begin_with(key, PartSums::Crc64).await
    }

    async fn begin_with(&self, key: &str, sums: PartSums) -> Upload {
        let writing = self.origin.writing();
        let begun = writing.begin(&name(key), headers(), sums).await;
        begun.expect("begun")
    }

    async fn part(&self, upload: &Upload, number: u32, bytes: &Bytes) -> (u32, ETag) {
        let payload = Payload::from(bytes.clone());
        let sent = self.origin.writing().part(upload, number, payload).await;
        (number, sent.expect("a part"))
    }
}

fn name(text: &str) -> ObjectKey {
    ObjectKey::new(text).expect("a valid key")
}

fn headers() -> Headers {
    let header = |(name, value): (&str, &str)| {
        (
            name.try_into().expect("a name"),
            value.try_into().expect("a value"),
        )
    };
    [
        ("content-type", "audio/mpeg"),
        ("cache-control", "max-age=5"),
        ("x-amz-meta-mtime", "1700000000.5"),
    ]
    .map(header)
    .to_vec()
}

fn sample(seed: u8, length: usize) -> Bytes {
    (0..length)
        .map(|n| (n / 251) as u8 ^ (n as u8).wrapping_mul(7).wrapping_add(seed))
        .collect()
}

fn source(key: &str, etag: &ETag) -> CopySource {
    CopySource {
        key: name(key),
        etag: etag.clone(),
    }
}

async fn every_duty(subject: &Subject) {
    puts_whole_objects(subject).await;
    refuses_damaged_bytes(subject).await;
    puts_parts_together(subject).await;
    puts_parts_of_a_named_checksum_together(subject).await;
    guards_what_is_completed(subject).await;
    copies_parts_of_one_version(subject).await;
    copies_whole_objects(subject).await;
    gives_uploads_up(subject).await;
    deletes(subject).await;
}

async fn puts_whole_objects(subject: &Subject) {
    let first = subject
        .put("put/a b+ü", sample(1, 70_000), Guard::Absent)
        .await;
    let first = first.expect("there was none");
    let (version, bytes) = subject.read("put/a b+ü").await;
    assert_eq!(version.etag, first);
    assert!(bytes == sample(1, 70_000));
    for (name, value) in headers() {
        assert_eq!(version.header(&name), value.to_str().ok(), "{name}");
    }
    let refused = Err(OriginError::Changed);
    assert_eq!(subject.put("put/a b+ü", "x", Guard::Absent).await, refused);
    let second = subject
        .put("put/a b+ü", "two", Guard::Same(first.clone()))
        .await;
    let second = second.expect("the version it is");
    let late = Guard::Same(first.clone());
    assert_eq!(subject.put("put/a b+ü", "x", late).await, refused);
    let nothing = subject.put("put/none", "x", Guard::Same(first)).await;
    assert_eq!(nothing, refused, "no object is another version too");
    assert_eq!(subject.read("put/a b+ü").await.0.etag, second);
    let empty = subject
        .put("put/a b+ü", "", Guard::None)
        .await
        .expect("put");
    let head = subject
        .origin
        .head(&name("put/a b+ü"))
        .await
        .expect("there");
    assert_eq!((head.etag, head.size), (empty, 0));
}

/// Returns bytes with the checksums of other bytes.
fn damaged() -> Payload {
    let bytes = sample(2, 1000);
    let frames = move || -> tidegate_origin::Body {
        let bytes = bytes.clone();
        Box::pin(futures_util::stream::once(async { Ok(bytes) }))
    };
    Payload::read(1000, Sums::of(b"others"), Arc::new(frames))
}

async fn refuses_damaged_bytes(subject: &Subject) {
    let writing = subject.origin.writing();
    let refused = Err(OriginError::Damaged);
    let upload = subject.begin("damaged").await;
    if !subject.lacks.contains(&Lack::PartChecksums) {
        assert_eq!(writing.part(&upload, 1, damaged()).await, refused);
        let key = name("damaged");
        let put = writing.put(&key, headers(), damaged(), Guard::None);
        assert_eq!(put.await.map(|written| written.etag), refused);
        let head = subject.origin.head(&name("damaged")).await;
        assert_eq!(head, Err(OriginError::NotFound));
    }
    writing.abort(&upload).await.expect("aborted");
}

async fn deletes(subject: &Subject) {
    subject.put("deleted", "x", Guard::None).await.expect("put");
    let writing = subject.origin.writing();
    writing
        .delete(&name("deleted"), Guard::None)
        .await
        .expect("deleted");
    writing
        .delete(&name("deleted"), Guard::None)
        .await
        .expect("no error twice");
    let head = subject.origin.head(&name("deleted")).await;
    assert_eq!(head, Err(OriginError::NotFound));
}

#[tokio::test]
async fn a_bucket_in_memory() {
    let origin = Arc::new(FakeOrigin::new());
    every_duty(&Subject { origin, lacks: &[] }).await;
}

#[tokio::test]
async fn a_bucket_in_memory_with_every_decorator() {
    let (fake, settings) = (FakeOrigin::new(), Settings::new("fake", "fake"));
    let origin = tidegate_origin::stack(Arc::new(fake.clone()), &settings, &Metrics::default());
    every_duty(&Subject { origin, lacks: &[] }).await;
    assert_eq!(fake.running(), 0);
}

#[tokio::test]
async fn the_embedded_bucket() {
    let folder = tempfile::tempdir().expect("a folder");
    let embedded = EmbeddedOrigin::start(folder.path()).await.expect("starts");
    let settings = embedded.settings("embedded");
    let origin = tidegate_origin::connect(&settings, &Metrics::default()).await;
    let origin = origin.expect("valid settings");
    let lacks = &[Lack::PartChecksums, Lack::PartTags];
    every_duty(&Subject { origin, lacks }).await;
}

#[cfg(feature = "real-parts")]
#[tokio::test]
async fn minio() {
    let server = minio::Minio::start().await;
    let settings = server.settings("media");
    bucket::Bucket::create(&settings).await;
    let origin = tidegate_origin::connect(&settings, &Metrics::default()).await;
    let origin = origin.expect("valid settings");
    every_duty(&Subject { origin, lacks: &[] }).await;
}

/// Builds a bucket in memory with every decorator, under paused time.
fn stacked() -> (FakeOrigin, Subject) {
    let (fake, settings) = (FakeOrigin::new(), Settings::new("fake", "fake"));
    let origin = tidegate_origin::stack(Arc::new(fake.clone()), &settings, &Metrics::default());
    (fake, Subject { origin, lacks: &[] })
}

#[tokio::test(start_paused = true)]
async fn what_does_no_harm_twice_is_sent_again() {
    let (fake, subject) = stacked();
    fake.fail_next([Fault::LoseAnswer]);
    subject
        .put("a", "x", Guard::None)
        .await
        .expect("sent again");
    assert_eq!(fake.count("put"), 2);
    let upload = subject.begin("b").await;
    for fault in [Fault::Damage, Fault::LoseAnswer, Fault::Reset(0)] {
        fake.fail_next([fault]);
        subject.part(&upload, 1, &sample(1, 10)).await;
    }
    assert_eq!(fake.count("part"), 6);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_done_is_not_done_twice() {
    let (fake, subject) = stacked();
    let lost = Err(OriginError::Unavailable("connection lost"));
    fake.fail_next([Fault::LoseAnswer]);
    assert_eq!(subject.put("a", "x", Guard::Absent).await, lost);
    let upload = subject.begin("b").await;
    let parts = vec![subject.part(&upload, 1, &sample(1, 10)).await];
    fake.fail_next([Fault::LoseAnswer]);
    let done = subject
        .origin
        .writing()
        .complete(&upload, parts.clone(), Guard::None)
        .await;
    assert_eq!(done.map(|written| written.etag), lost);
    assert_eq!((fake.count("put"), fake.count("complete")), (1, 1));
    // A request that was refused without a look is sent again, guarded or not.
    fake.fail_next([Fault::Refuse(OriginError::Throttled { retry_after: None })]);
    subject
        .put("c", "x", Guard::Absent)
        .await
        .expect("sent again");
    assert_eq!(fake.count("put"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_slow_line_may_be_slow_and_a_stalled_one_is_given_up() {
    let (fake, subject) = stacked();
    let pieces = || Payload::pieces(vec![sample(1, 1000); 100]);
    let upload = subject.begin("a").await;
    let writing = subject.origin.writing();
    // A piece every eight seconds is slow progress, and no failure.
    fake.fail_next([Fault::Rate(125)]);
    let began = Instant::now();
    writing
        .part(&upload, 1, pieces())
        .await
        .expect("in the end");
    assert!(
        began.elapsed() > Duration::from_secs(700),
        "{:?}",
        began.elapsed()
    );
    fake.set_faults([Fault::Stall(50_000)]);
    let began = Instant::now();
    let stalled = writing.part(&upload, 1, pieces()).await;
    assert_eq!(stalled, Err(OriginError::Timeout(Phase::Stall)));
    assert!(
        began.elapsed() < Duration::from_secs(40),
        "three tries, ten seconds each"
    );
    let (fake, subject) = stacked();
    fake.set_faults([Fault::Latency(Duration::from_secs(3600))]);
    let hung = subject
        .origin
        .writing()
        .delete(&name("a"), Guard::None)
        .await;
    assert_eq!(hung, Err(OriginError::Timeout(Phase::FirstByte)));
    assert_eq!(fake.running(), 0);
}
