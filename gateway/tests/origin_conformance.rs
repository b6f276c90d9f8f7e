//! The duties of every origin towards its reader, checked on each origin: one in memory, S3 over a
//! fake store, S3 over s3s-fs, and (feature `real-parts`) S3 over MinIO.

use std::sync::Arc;

use futures_util::StreamExt;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_origin::{
    self, After, Answer, Condition, Content, FakeOrigin, Get, List, Listed, Metrics, Origin,
    OriginError, Priority, Settings,
};
use tidegate_plan::{ByteRange, ETag, ObjectKey, RangeSpec};

#[cfg(feature = "real-parts")]
use tidegate_origin::settings::Credentials;

#[path = "support/bucket.rs"]
mod bucket;
#[expect(
    dead_code,
    reason = "its raw answers and request log are for the suite of the crate"
)]
#[path = "../crates/origin/tests/support/fake_s3.rs"]
mod fake_s3;
#[cfg(feature = "real-parts")]
#[path = "support/minio.rs"]
mod minio;
#[cfg(feature = "real-parts")]
#[path = "support/ports.rs"]
mod ports;
#[path = "support/s3s.rs"]
mod s3s_fs_server;

use bucket::{Bucket, HEADERS};

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
    let peeked = subject.origin.peek(&key("ranges/object")).await;
    assert_eq!(peeked, Ok(Some(head.clone())));
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
    assert_eq!(subject.origin.peek(&key("missing")).await, Ok(None));
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

fn list(prefix: &str, delimiter: bool, limit: u16) -> List {
    List {
        prefix: prefix.to_owned(),
        delimiter,
        after: None,
        limit,
    }
}

fn names(objects: &[Listed]) -> Vec<&str> {
    objects.iter().map(|object| object.key.as_str()).collect()
}

async fn lists_pages(subject: &Subject) {
    let keys = [
        "list/a",
        "list/a b",
        "list/b/c/d",
        "list/b/e",
        "list/c",
        "list/ü/☃",
        "listen",
    ];
    for key in keys {
        subject.bucket.put(key, "12345").await;
    }
    let page = |request| async { subject.origin.list(request).await.expect("a page") };
    let folder = page(list("list/", true, 1000)).await;
    assert_eq!(folder.next, None);
    assert_eq!(folder.folders, ["list/b/", "list/ü/"]);
    assert_eq!(names(&folder.objects), ["list/a", "list/a b", "list/c"]);
    let head = subject
        .origin
        .head(&key("list/a"))
        .await
        .expect("an object");
    let listed = &folder.objects[0];
    assert_eq!(listed.size, 5);
    assert_eq!(listed.last_modified, head.last_modified);
    match subject.lacks(Lack::ListedETags) {
        true => assert_eq!(listed.etag, None),
        false => assert_eq!(listed.etag, Some(head.etag)),
    }
    // One key answers whether a folder of this name exists.
    let proof = page(list("list/b/", false, 1)).await;
    assert_eq!(names(&proof.objects), ["list/b/c/d"]);
    assert!(proof.folders.is_empty() && proof.next.is_some());
    let after = page(List {
        after: Some(After::Key("list/a b".to_owned())),
        ..list("list/", false, 2)
    });
    assert_eq!(names(&after.await.objects), ["list/b/c/d", "list/b/e"]);
    let nothing = page(list("list/none/", false, 1)).await;
    assert_eq!(nothing, tidegate_origin::Listing::default());
    subject.bucket.delete("list/c").await;
    let gone = page(list("list/c", false, 1)).await;
    assert!(gone.objects.is_empty());
    if !subject.lacks(Lack::Encoding) {
        let odd = ["odd/%2F", "odd/+ &<>", "odd/q?x=1", "odd/\u{1}"];
        for key in odd {
            subject.bucket.put(key, "x").await;
        }
        let mut sorted = odd.to_vec();
        sorted.sort_unstable();
        assert_eq!(names(&page(list("odd/", true, 1000)).await.objects), sorted);
    }
}

async fn lists_in_order_whatever_the_page(subject: &Subject) {
    let mut all = std::collections::BTreeSet::new();
    for n in 0..40_u32 {
        let key = match n % 3 {
            0 => format!("pages/{n}"),
            1 => format!("pages/f{}/{n}", n % 7),
            _ => format!("pages/f{}-{n}", n % 7),
        };
        subject.bucket.put(&key, "x").await;
        let rest = &key["pages/".len()..];
        all.insert(match rest.split_once('/') {
            Some((folder, _)) => format!("pages/{folder}/"),
            None => key,
        });
    }
    for limit in [1, 2, 7, 1000] {
        let (mut after, mut seen, mut last) = (None, Vec::new(), String::new());
        loop {
            let request = List {
                after,
                ..list("pages/", true, limit)
            };
            let page = subject.origin.list(request).await.expect("a page");
            let keys = page.objects.into_iter().map(|object| object.key);
            let mut names: Vec<_> = keys.chain(page.folders).collect();
            names.sort();
            assert!(names.len() <= usize::from(limit));
            assert!(names.first().is_none_or(|first| *first > last), "{names:?}");
            last = names.last().cloned().unwrap_or(last);
            seen.extend(names);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(seen.iter().eq(all.iter()), "{limit}: {seen:?}");
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

/// Runs last: it switches versions on.
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
