//! The duties of every origin towards its reader, checked on each origin: one in memory, S3 over a
//! fake store, S3 over s3s-fs, and (feature `real-parts`) S3 over MinIO.

use std::sync::Arc;

use futures_util::StreamExt;
#[cfg(feature = "real-parts")]
use tidegate_origin::settings::Credentials;
use tidegate_origin::{
    self, Answer, Condition, Content, FakeOrigin, Get, List, Metrics, Origin, OriginError,
    Priority, Settings,
};
use tidegate_plan::{ETag, ObjectKey, RangeSpec};

#[path = "support/bucket.rs"]
mod bucket;
#[expect(
    dead_code,
    reason = "its raw answers and request log are for the suite of the crate"
)]
#[path = "../crates/origin/tests/support/fake_s3.rs"]
mod fake_s3;
#[path = "origin_conformance/listing.rs"]
mod listing;
#[cfg(feature = "real-parts")]
#[path = "support/minio.rs"]
mod minio;
#[cfg(feature = "real-parts")]
#[path = "support/ports.rs"]
mod ports;
#[path = "origin_conformance/reading.rs"]
mod reading;
#[path = "support/s3s.rs"]
mod s3s_fs_server;

use bucket::Bucket;
use listing::{lists_in_order_whatever_the_page, lists_pages};
use reading::{
    honours_conditions, passes_headers_on, reads_empty_objects, reads_ranges,
    reads_ranges_drawn_at_random, reads_versions_by_id, takes_keys_of_any_shape,
    tells_what_is_missing, tells_what_lies_outside,
};

/// An origin under test, and the known gaps of its store.
struct Subject {
    origin: Arc<dyn Origin>,
    bucket: Bucket,
    /// The same store with a bucket name that it does not have.
    elsewhere: Option<Arc<dyn Origin>>,
    lacks: &'static [Lack],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// It ignores `If-Match` and `If-None-Match`.
    Conditions,
    /// It refuses keys with `//`, with a leading `/`, or of 1,024 bytes in one segment.
    OddKeys,
    /// It takes no keys that end in `/`.
    FolderKeys,
    /// It keeps no versions.
    Versions,
    /// It fails at a suffix longer than the object.
    LongSuffixes,
    /// It claims that it encoded the keys of a listing, and did not.
    Encoding,
    /// Its listings have no ETags.
    ListedETags,
}

impl Subject {
    fn lacks(&self, lack: Lack) -> bool {
        self.lacks.contains(&lack)
    }

    /// Returns whether its store is known to fail at this range of an object of `size` bytes.
    fn cannot(&self, range: Option<RangeSpec>, size: u64) -> bool {
        matches!(range, Some(RangeSpec::Suffix(length)) if length > size)
            && self.lacks(Lack::LongSuffixes)
    }

    async fn read(&self, get: Get) -> Result<(Content, Vec<u8>), OriginError> {
        let Answer::Content(mut content) = self.origin.get(get).await? else {
            panic!("304 where content was expected");
        };
        let mut bytes = Vec::new();
        while let Some(frame) = content.body.next().await {
            bytes.extend_from_slice(&frame?);
        }
        Ok((content, bytes))
    }

    async fn refused(&self, get: Get) -> OriginError {
        match self.origin.get(get).await {
            Ok(answer) => panic!("refusal expected, got {answer:?}"),
            Err(error) => error,
        }
    }

    async fn etag(&self, key: &str) -> ETag {
        let version = self.origin.head(&self::key(key)).await;
        version.expect("an object").etag
    }
}

fn key(text: &str) -> ObjectKey {
    ObjectKey::new(text).expect("a valid key")
}

fn get(name: &str, range: Option<RangeSpec>) -> Get {
    Get {
        key: key(name),
        range,
        condition: Condition::None,
        priority: Priority::Demand,
    }
}

fn sample(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 7 + n / 251) as u8).collect()
}

async fn every_duty(subject: &Subject) {
    reads_ranges(subject).await;
    reads_ranges_drawn_at_random(subject).await;
    tells_what_lies_outside(subject).await;
    tells_what_is_missing(subject).await;
    reads_empty_objects(subject).await;
    takes_keys_of_any_shape(subject).await;
    passes_headers_on(subject).await;
    honours_conditions(subject).await;
    lists_pages(subject).await;
    lists_in_order_whatever_the_page(subject).await;
    answers_probes(subject).await;
    reads_versions_by_id(subject).await;
}

fn list(prefix: &str, delimiter: bool, limit: u16) -> List {
    List {
        prefix: prefix.to_owned(),
        delimiter,
        after: None,
        limit,
    }
}

async fn answers_probes(subject: &Subject) {
    assert_eq!(subject.origin.probe().await, Ok(()));
    if let Some(elsewhere) = &subject.elsewhere {
        let none = OriginError::NoSuchBucket;
        assert_eq!(elsewhere.probe().await, Err(none.clone()));
        assert_eq!(
            elsewhere.get(get("k", None)).await.err(),
            Some(none.clone())
        );
        assert_eq!(elsewhere.head(&key("k")).await, Err(none.clone()));
        assert_eq!(elsewhere.list(list("", true, 1)).await, Err(none));
    }
}

async fn connect(settings: &Settings) -> Arc<dyn Origin> {
    let metrics = Metrics::default();
    tidegate_origin::connect(settings, &metrics)
        .await
        .expect("valid settings")
}

#[tokio::test]
async fn an_origin_in_memory() {
    let fake = FakeOrigin::new();
    let bare = Subject {
        origin: Arc::new(fake.clone()),
        bucket: Bucket::Fake(fake),
        elsewhere: None,
        lacks: &[],
    };
    every_duty(&bare).await;
}

#[tokio::test]
async fn an_origin_in_memory_with_every_decorator() {
    let fake = FakeOrigin::new().with_frames(1000);
    let settings = Settings::new("fake", "fake");
    let stacked = Subject {
        origin: tidegate_origin::stack(Arc::new(fake.clone()), &settings, &Metrics::default()),
        bucket: Bucket::Fake(fake),
        elsewhere: None,
        lacks: &[],
    };
    every_duty(&stacked).await;
}

#[tokio::test]
async fn s3_over_a_fake_store() {
    let server = fake_s3::FakeS3::start().await;
    let mut elsewhere = server.settings();
    elsewhere.bucket = "none".to_owned();
    every_duty(&Subject {
        origin: connect(&server.settings()).await,
        bucket: Bucket::Fake(server.bucket.clone()),
        elsewhere: Some(connect(&elsewhere).await),
        lacks: &[],
    })
    .await;
}

#[tokio::test]
async fn s3_over_s3s_fs() {
    let server = s3s_fs_server::S3sFs::start().await;
    let settings = server.settings("media");
    every_duty(&Subject {
        bucket: Bucket::create(&settings).await,
        origin: connect(&settings).await,
        // It answers `NoSuchKey` for a bucket that it does not have.
        elsewhere: None,
        lacks: &[
            Lack::Conditions,
            Lack::Encoding,
            Lack::ListedETags,
            Lack::FolderKeys,
            Lack::LongSuffixes,
            Lack::OddKeys,
            Lack::Versions,
        ],
    })
    .await;
}

#[cfg(feature = "real-parts")]
#[tokio::test]
async fn s3_over_minio() {
    let server = minio::Minio::start().await;
    let settings = server.settings("media");
    let subject = Subject {
        bucket: Bucket::create(&settings).await,
        origin: connect(&settings).await,
        elsewhere: Some(connect(&server.settings("none")).await),
        lacks: &[Lack::OddKeys],
    };
    every_duty(&subject).await;

    // The keys that it refuses are keys of no object.
    let longest = "k".repeat(1024);
    for odd in ["a//b", "//", longest.as_str()] {
        let error = subject.refused(get(odd, None)).await;
        assert_eq!(error, OriginError::NotFound, "{odd}");
        assert_eq!(subject.origin.head(&key(odd)).await, Err(error), "{odd}");
    }
    // A slash at the begin it leaves out: `ObjectKey::from_path` makes no such key.
    subject.bucket.put("lead", "x").await;
    assert!(subject.origin.head(&key("/lead")).await.is_ok());
    subject.bucket.put("private", "x").await;
    let mut wrong = settings.clone();
    wrong.credentials = Credentials::Static {
        access_key_id: "nobody".to_owned(),
        secret_access_key: "nothing".to_owned(),
        session_token: None,
    };
    let mut anonymous = settings;
    anonymous.credentials = Credentials::Anonymous;
    let refused = Some(OriginError::Forbidden);
    // A client without keys cannot be at fault for them, and the bucket has answered.
    for (settings, probed) in [(wrong, refused.clone()), (anonymous, None)] {
        let stranger = connect(&settings).await;
        assert_eq!(stranger.get(get("private", None)).await.err(), refused);
        assert_eq!(stranger.head(&key("private")).await.err(), refused);
        assert_eq!(stranger.list(list("", true, 1)).await.err(), refused);
        assert_eq!(stranger.probe().await.err(), probed);
    }
}
