//! What every origin owes its reader, asked of every origin there is: one in memory, S3 over a fake
//! store, S3 over s3s-fs, and (feature `real-parts`) S3 over MinIO.

use std::sync::Arc;

use futures_util::StreamExt;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate::origin::{
    self, Answer, Condition, Content, FakeOrigin, Get, Metrics, Origin, OriginError, Priority,
    Settings,
};
use tidegate::plan::{ByteRange, ETag, ObjectKey, RangeSpec};

#[cfg(feature = "real-parts")]
use tidegate::origin::settings::Credentials;

#[path = "support/bucket.rs"]
mod bucket;
#[expect(
    dead_code,
    reason = "its raw answers and request log are for origin_s3"
)]
#[path = "support/fake_s3.rs"]
mod fake_s3;
#[cfg(feature = "real-parts")]
#[path = "support/minio.rs"]
mod minio;
#[path = "support/s3s.rs"]
mod s3s_fs_server;

use bucket::{Bucket, HEADERS};

/// An origin under test, and what its store is known not to do.
struct Subject {
    origin: Arc<dyn Origin>,
    bucket: Bucket,
    /// The same store, asked for a bucket that it does not have.
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
}

impl Subject {
    fn lacks(&self, lack: Lack) -> bool {
        self.lacks.contains(&lack)
    }

    /// Whether its store is known to fail at this range of an object of `size` bytes.
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
    answers_probes(subject).await;
    reads_versions_by_id(subject).await;
}

async fn reads_ranges(subject: &Subject) {
    let bytes = sample(100_000);
    subject.bucket.put("ranges/object", bytes.clone()).await;
    let bounded = |first, last| Some(RangeSpec::Bounded { first, last });
    let rows = [
        (None, 0..100_000),
        (bounded(0, 0), 0..1),
        (bounded(99_999, 99_999), 99_999..100_000),
        (bounded(1, 70_000), 1..70_001),
        (bounded(0, 5_000_000), 0..100_000),
        (Some(RangeSpec::From(0)), 0..100_000),
        (Some(RangeSpec::From(99_999)), 99_999..100_000),
        (Some(RangeSpec::Suffix(1)), 99_999..100_000),
        (Some(RangeSpec::Suffix(5_000_000)), 0..100_000),
    ];
    let head = subject
        .origin
        .head(&key("ranges/object"))
        .await
        .expect("an object");
    assert_eq!(head.size, 100_000);
    for (range, truth) in rows {
        if subject.cannot(range, 100_000) {
            continue;
        }
        let (content, read) = subject
            .read(get("ranges/object", range))
            .await
            .expect("content");
        assert_eq!(*content.version, head, "{range:?}");
        let told = content.range.start as usize..content.range.end as usize;
        assert_eq!(told, truth, "{range:?}");
        assert!(read == bytes[truth], "{range:?}: the bytes differ");
    }
}

async fn reads_ranges_drawn_at_random(subject: &Subject) {
    let mut runner = TestRunner::deterministic();
    let spec = prop_oneof![
        (0..4000_u64, 0..4000_u64).prop_map(|(first, length)| RangeSpec::Bounded {
            first,
            last: first + length
        }),
        (0..4000_u64).prop_map(RangeSpec::From),
        (1..4000_u64).prop_map(RangeSpec::Suffix),
    ];
    for size in [1, 2, 1023, 3000] {
        let (name, bytes) = (format!("random/{size}"), sample(size));
        subject.bucket.put(&name, bytes.clone()).await;
        for _ in 0..30 {
            let spec = spec.new_tree(&mut runner).expect("a range").current();
            if subject.cannot(Some(spec), size as u64) {
                continue;
            }
            let result = subject.read(get(&name, Some(spec))).await;
            match spec.resolve(size as u64) {
                Some(ByteRange { start, end }) => {
                    let (_, read) = result.expect("content");
                    assert!(
                        read == bytes[start as usize..end as usize],
                        "{spec:?} of {size}"
                    );
                }
                None => assert!(
                    matches!(result, Err(OriginError::Unsatisfiable { .. })),
                    "{spec:?} of {size}: {result:?}"
                ),
            }
        }
    }
}

async fn tells_what_lies_outside(subject: &Subject) {
    subject.bucket.put("short", "abc").await;
    let error = subject
        .refused(get("short", Some(RangeSpec::From(3))))
        .await;
    let OriginError::Unsatisfiable { size } = error else {
        panic!("416 expected, got {error:?}");
    };
    assert!(size.is_none_or(|size| size == 3), "{size:?}");
}

async fn tells_what_is_missing(subject: &Subject) {
    assert_eq!(
        subject.refused(get("missing", None)).await,
        OriginError::NotFound
    );
    assert_eq!(
        subject.origin.head(&key("missing")).await,
        Err(OriginError::NotFound)
    );
    subject.bucket.put("gone", "x").await;
    subject.bucket.delete("gone").await;
    assert_eq!(
        subject.refused(get("gone", None)).await,
        OriginError::NotFound
    );
    assert_eq!(
        subject.origin.head(&key("gone")).await,
        Err(OriginError::NotFound)
    );
    let deeper = "gone/a/b/c";
    assert_eq!(
        subject.refused(get(deeper, None)).await,
        OriginError::NotFound
    );
}

async fn reads_empty_objects(subject: &Subject) {
    subject.bucket.put("empty", "").await;
    let (content, read) = subject.read(get("empty", None)).await.expect("content");
    assert_eq!((content.version.size, read.len()), (0, 0));
    let ranges = [
        RangeSpec::Bounded { first: 0, last: 9 },
        RangeSpec::From(0),
        RangeSpec::Suffix(9),
    ];
    for range in ranges {
        if subject.cannot(Some(range), 0) {
            continue;
        }
        match subject.read(get("empty", Some(range))).await {
            Ok((content, read)) => assert_eq!((content.version.size, read.len()), (0, 0)),
            Err(OriginError::Unsatisfiable { size }) => {
                assert!(size.is_none_or(|size| size == 0), "{size:?}");
            }
            Err(error) => panic!("{range:?}: {error:?}"),
        }
    }
    let head = subject.origin.head(&key("empty")).await.expect("an object");
    assert_eq!(head.size, 0);
}

async fn takes_keys_of_any_shape(subject: &Subject) {
    let longest = "k".repeat(1024);
    let mut names = vec![
        "a b",
        "a+b",
        "a%2Fb",
        "100%",
        "ü/☃",
        "q?x=1&y",
        "#hash",
        "a=b;c,d",
        "~tilde",
        "(p)!*'",
        "ten/folders/deep/or/so/it/does/not/matter/k",
        "@:$&",
        "\"quoted\"",
        "[b]{c}|^`",
    ];
    if !subject.lacks(Lack::OddKeys) {
        names.extend(["a//b", "/lead", "//", longest.as_str()]);
    }
    if !subject.lacks(Lack::FolderKeys) {
        names.push("folder/");
    }
    for name in &names {
        subject.bucket.put(name, format!("bytes of {name}")).await;
    }
    for name in names {
        let (_, read) = subject.read(get(name, None)).await.expect(name);
        assert_eq!(String::from_utf8_lossy(&read), format!("bytes of {name}"));
        assert!(subject.origin.head(&key(name)).await.is_ok(), "{name}");
    }
}

async fn passes_headers_on(subject: &Subject) {
    subject.bucket.put_with_headers("headers", "bytes").await;
    let (content, _) = subject.read(get("headers", None)).await.expect("content");
    let head = subject
        .origin
        .head(&key("headers"))
        .await
        .expect("an object");
    for version in [&*content.version, &head] {
        assert!(version.last_modified.is_some());
        for (name, value) in HEADERS {
            let name = name.try_into().expect("a header's name");
            assert_eq!(version.header(&name), Some(value), "{name}");
        }
    }
}

async fn honours_conditions(subject: &Subject) {
    subject.bucket.put("conditional", "one").await;
    let old = subject.etag("conditional").await;
    let with = |condition| Get {
        condition,
        ..get("conditional", Some(RangeSpec::From(0)))
    };
    let matching = |etag: &ETag| {
        with(Condition::Match {
            etag: etag.clone(),
            version_id: None,
        })
    };
    let none_matching = |etag: &ETag| with(Condition::NoneMatch(etag.clone()));
    let (content, _) = subject.read(matching(&old)).await.expect("it matches");
    assert_eq!(content.version.etag, old);
    if !subject.lacks(Lack::Conditions) {
        let answer = subject.origin.get(none_matching(&old)).await;
        let Ok(Answer::NotModified { last_modified }) = answer else {
            panic!("304 expected, got {answer:?}");
        };
        assert_eq!(last_modified, content.version.last_modified);
        // Conditions come before ranges (RFC 9110, 13.2.2).
        let beyond = Get {
            range: Some(RangeSpec::From(100)),
            ..none_matching(&old)
        };
        let answer = subject.origin.get(beyond).await;
        assert!(
            matches!(answer, Ok(Answer::NotModified { .. })),
            "{answer:?}"
        );
    }
    subject.bucket.put("conditional", "two!").await;
    assert_eq!(subject.refused(matching(&old)).await, OriginError::Changed);
    let (_, read) = subject.read(none_matching(&old)).await.expect("changed");
    assert_eq!(read, b"two!");
    subject.bucket.delete("conditional").await;
    assert_eq!(
        subject.refused(none_matching(&old)).await,
        OriginError::NotFound
    );
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
        assert_eq!(elsewhere.head(&key("k")).await, Err(none));
    }
}

/// Comes last: it switches versions on.
async fn reads_versions_by_id(subject: &Subject) {
    if subject.lacks(Lack::Versions) {
        return;
    }
    subject.bucket.keep_versions().await;
    subject.bucket.put("versioned", "one").await;
    let (first, _) = subject.read(get("versioned", None)).await.expect("content");
    let id = first.version.version_id.clone();
    assert!(id.is_some());
    let pinned = Get {
        condition: Condition::Match {
            etag: first.version.etag.clone(),
            version_id: id,
        },
        ..get("versioned", None)
    };
    subject.bucket.put("versioned", "two!").await;
    assert_eq!(
        subject.read(pinned.clone()).await.expect("the old one").1,
        b"one"
    );
    let (_, now) = subject
        .read(get("versioned", None))
        .await
        .expect("the new one");
    assert_eq!(now, b"two!");
    subject.bucket.delete("versioned").await;
    assert_eq!(
        subject.refused(get("versioned", None)).await,
        OriginError::NotFound
    );
    assert_eq!(
        subject.origin.head(&key("versioned")).await,
        Err(OriginError::NotFound)
    );
    assert_eq!(subject.read(pinned).await.expect("still there").1, b"one");
}

async fn connect(settings: &Settings) -> Arc<dyn Origin> {
    let metrics = Metrics::default();
    origin::connect(settings, &metrics)
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
        origin: origin::stack(Arc::new(fake.clone()), &settings, &Metrics::default()),
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
        // Of a bucket that it does not have it says `NoSuchKey`.
        elsewhere: None,
        lacks: &[
            Lack::Conditions,
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

    // Keys that it refuses are keys of no object.
    let longest = "k".repeat(1024);
    for odd in ["a//b", "/lead", "//", longest.as_str()] {
        let error = subject.refused(get(odd, None)).await;
        assert_eq!(error, OriginError::NotFound, "{odd}");
        assert_eq!(subject.origin.head(&key(odd)).await, Err(error), "{odd}");
    }
    subject.bucket.put("private", "x").await;
    let mut wrong = settings.clone();
    wrong.credentials = Credentials::Static {
        access_key_id: "nobody".to_owned(),
        secret_access_key: "nothing".to_owned(),
        session_token: None,
    };
    let mut anonymous = settings;
    anonymous.credentials = Credentials::Anonymous;
    for settings in [wrong, anonymous] {
        let stranger = connect(&settings).await;
        let refused = Some(OriginError::Forbidden);
        assert_eq!(stranger.get(get("private", None)).await.err(), refused);
        assert_eq!(stranger.head(&key("private")).await.err(), refused);
        assert_eq!(stranger.probe().await.err(), refused);
    }
}
