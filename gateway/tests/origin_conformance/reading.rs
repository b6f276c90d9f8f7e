//! The duties of an origin towards a reader of objects.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_origin::{Answer, Condition, Get, OriginError};
use tidegate_plan::{ByteRange, ETag, RangeSpec};

use crate::bucket::HEADERS;
use crate::{Lack, Subject, get, key, sample};

pub(super) async fn reads_ranges(subject: &Subject) {
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

pub(super) async fn reads_ranges_drawn_at_random(subject: &Subject) {
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

pub(super) async fn tells_what_lies_outside(subject: &Subject) {
    subject.bucket.put("short", "abc").await;
    let error = subject
        .refused(get("short", Some(RangeSpec::From(3))))
        .await;
    let OriginError::Unsatisfiable { size } = error else {
        panic!("416 expected, got {error:?}");
    };
    assert!(size.is_none_or(|size| size == 3), "{size:?}");
}

pub(super) async fn tells_what_is_missing(subject: &Subject) {
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

pub(super) async fn reads_empty_objects(subject: &Subject) {
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

pub(super) async fn takes_keys_of_any_shape(subject: &Subject) {
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

pub(super) async fn passes_headers_on(subject: &Subject) {
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

pub(super) async fn honours_conditions(subject: &Subject) {
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

/// Runs last: it switches versions on.
pub(super) async fn reads_versions_by_id(subject: &Subject) {
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
