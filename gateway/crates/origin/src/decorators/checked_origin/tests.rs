//! Each contradiction leads to its error.

use super::*;
use crate::fake::{FakeOrigin, Fault};
use crate::testing::{bounded, content, drain, get, matching, sample};
use tidegate_plan::ETag;

const SIZE: usize = 1000;

fn setup() -> (FakeOrigin, CheckedOrigin) {
    let fake = FakeOrigin::new().with_frames(64);
    fake.put("k", sample(SIZE));
    (fake.clone(), CheckedOrigin::new(Arc::new(fake)))
}

#[tokio::test]
async fn a_right_answer_passes_as_it_is() {
    let (_, origin) = setup();
    let rows = [
        (None, 0..1000),
        (bounded(100, 299), 100..300),
        (bounded(900, 5000), 900..1000),
        (Some(RangeSpec::From(999)), 999..1000),
        (Some(RangeSpec::Suffix(10)), 990..1000),
        (Some(RangeSpec::Suffix(5000)), 0..1000),
    ];
    for (range, bytes) in rows {
        let answer = content(&origin, get(range)).await.expect("content");
        assert_eq!(
            answer.range,
            ByteRange::new(bytes.start as u64, bytes.end as u64)
        );
        let expected = (sample(SIZE)[bytes].to_vec(), None);
        assert_eq!(drain(answer.body).await, expected, "{range:?}");
    }
}

#[tokio::test]
async fn another_range_than_asked_for_is_refused() {
    let (fake, origin) = setup();
    fake.set_faults([Fault::WrongRange]);
    for range in [
        bounded(100, 199),
        bounded(0, 0),
        Some(RangeSpec::Suffix(5)),
        None,
    ] {
        let refused = content(&origin, get(range)).await;
        assert!(
            matches!(refused, Err(OriginError::BadAnswer(_))),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_range_ignored_is_taken_only_from_the_start() {
    let (fake, origin) = setup();
    fake.set_faults([Fault::IgnoreRange]);
    let answer = content(&origin, get(bounded(0, 99)))
        .await
        .expect("content");
    assert_eq!(answer.range, ByteRange::new(0, 100));
    let read = drain(answer.body).await;
    assert_eq!(read, (sample(SIZE)[..100].to_vec(), None));
    assert_eq!(fake.running(), 0, "the rest is left");

    let refused = content(&origin, get(bounded(1, 99))).await;
    assert!(
        matches!(refused, Err(OriginError::BadAnswer(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn another_version_than_asked_for_is_a_change() {
    let (fake, origin) = setup();
    let etag = fake.put("k", sample(SIZE)).etag.clone();
    let request = Get {
        condition: matching(&etag),
        ..get(bounded(0, 9))
    };
    assert!(content(&origin, request.clone()).await.is_ok());
    fake.fail_next([Fault::WrongETag]);
    let refused = content(&origin, request.clone()).await;
    assert_eq!(refused.expect_err("other version"), OriginError::Changed);
    fake.put("k", "new");
    fake.fail_next([Fault::IgnoreConditions]);
    let refused = content(&origin, request).await;
    assert_eq!(
        refused.expect_err("ignored condition"),
        OriginError::Changed
    );
}

#[tokio::test]
async fn a_body_too_short_or_too_long_is_an_error_after_the_good_bytes() {
    let (fake, origin) = setup();
    let rows = [
        (
            Fault::Truncate(150),
            150,
            OriginError::Unavailable("cut short"),
        ),
        (Fault::Truncate(0), 0, OriginError::Unavailable("cut short")),
        (
            Fault::Surplus(1),
            200,
            OriginError::BadAnswer("more bytes than announced"),
        ),
        (
            Fault::Surplus(500),
            200,
            OriginError::BadAnswer("more bytes than announced"),
        ),
        (
            Fault::Reset(70),
            70,
            OriginError::Unavailable("connection lost"),
        ),
    ];
    for (fault, good, error) in rows {
        fake.fail_next([fault.clone()]);
        let answer = content(&origin, get(bounded(0, 199)))
            .await
            .expect("a head");
        let read = drain(answer.body).await;
        assert_eq!(
            read,
            (sample(SIZE)[..good].to_vec(), Some(error)),
            "{fault:?}"
        );
    }
}

#[tokio::test]
async fn a_refusal_that_cannot_be_meant_is_a_bad_answer() {
    let (fake, origin) = setup();
    let unsatisfiable = |size| OriginError::Unsatisfiable { size };
    let rows = [
        (OriginError::Changed, bounded(0, 9)),
        (unsatisfiable(Some(1000)), bounded(0, 9)),
        (unsatisfiable(Some(10)), Some(RangeSpec::Suffix(3))),
        (unsatisfiable(None), None),
    ];
    for (error, range) in rows {
        fake.fail_next([Fault::Refuse(error.clone())]);
        let refused = content(&origin, get(range)).await;
        assert!(
            matches!(refused, Err(OriginError::BadAnswer(_))),
            "{error:?}"
        );
    }
    let meant = [
        (unsatisfiable(Some(10)), bounded(10, 19)),
        (unsatisfiable(None), bounded(0, 9)),
        (OriginError::NotFound, bounded(0, 9)),
    ];
    for (error, range) in meant {
        fake.fail_next([Fault::Refuse(error.clone())]);
        assert_eq!(
            content(&origin, get(range)).await.expect_err("refused"),
            error
        );
    }
}

/// An origin that answers every GET the same.
#[derive(Debug)]
struct Canned(fn() -> Result<Answer, OriginError>);

impl OriginWrite for Canned {}

impl Origin for Canned {
    fn id(&self) -> OriginId {
        OriginId(0)
    }
    fn bucket(&self) -> Bucket {
        Bucket::new(None, "canned")
    }
    fn get(&self, _: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(async { (self.0)() })
    }
    fn head(&self, _: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        Box::pin(async { Err(OriginError::NotFound) })
    }
    fn peek(&self, _: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        Box::pin(async { Ok(None) })
    }
    fn list(&self, _: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(async { Ok(Listing::default()) })
    }
    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn a_page_must_fit_its_question() {
    let listed = |key: &str| crate::ListedObject {
        key: key.to_owned(),
        size: 1,
        etag: None,
        last_modified: None,
    };
    let page = |objects: &[&str], folders: &[&str]| Listing {
        objects: objects.iter().map(|key| listed(key)).collect(),
        folders: folders.iter().map(|&folder| folder.to_owned()).collect(),
        next: None,
    };
    let asked = |delimiter, after: Option<&str>| List {
        prefix: "p/".to_owned(),
        delimiter,
        after: after.map(|key| PageStart::Key(key.to_owned())),
        limit: 9,
    };
    let good = [
        (
            asked(true, None),
            page(&["p/", "p/a", "p/b"], &["p/a/", "p/c/"]),
        ),
        (asked(true, Some("p/a/z")), page(&["p/b"], &["p/a/"])),
        (asked(false, None), page(&["p/a/b/c", "p/b"], &[])),
    ];
    for (asked, page) in good {
        assert_eq!(check_page(&asked, &page), Ok(()), "{page:?}");
    }
    let bad = [
        (asked(true, None), page(&["q"], &[])),
        (asked(true, None), page(&[], &["q/"])),
        (asked(true, None), page(&["p/a/b"], &[])),
        (asked(true, None), page(&[], &["p/"])),
        (asked(true, None), page(&[], &["p/a"])),
        (asked(true, None), page(&[], &["p/a/b/"])),
        (asked(false, None), page(&[], &["p/a/"])),
        (asked(true, None), page(&["p/b", "p/a"], &[])),
        (asked(true, None), page(&["p/a", "p/a"], &[])),
        (asked(true, Some("p/a")), page(&["p/a"], &[])),
    ];
    for (asked, page) in bad {
        assert!(check_page(&asked, &page).is_err(), "{page:?}");
    }
    let token = Some(PageStart::Token("t".to_owned()));
    let round = Listing {
        next: token.clone(),
        ..Listing::default()
    };
    let again = List {
        after: token,
        ..asked(true, None)
    };
    assert!(check_page(&again, &round).is_err());
}

#[tokio::test]
async fn not_modified_is_an_answer_to_if_none_match_only() {
    let canned = Canned(|| {
        Ok(Answer::NotModified {
            last_modified: None,
        })
    });
    let origin = CheckedOrigin::new(Arc::new(canned));
    let etag = ETag::parse("\"e\"").expect("valid");
    let mut request = get(bounded(0, 9));
    assert!(matches!(
        origin.get(request.clone()).await,
        Err(OriginError::BadAnswer(_))
    ));
    request.condition = matching(&etag);
    assert!(matches!(
        origin.get(request.clone()).await,
        Err(OriginError::BadAnswer(_))
    ));
    request.condition = Condition::NoneMatch(etag);
    assert!(matches!(
        origin.get(request).await,
        Ok(Answer::NotModified { .. })
    ));
}

#[tokio::test]
async fn an_empty_object_may_answer_a_range_with_nothing() {
    let canned = Canned(|| {
        Ok(Answer::Content(Content {
            version: Arc::new(Version {
                etag: ETag::parse("\"e\"").expect("valid"),
                size: 0,
                last_modified: None,
                version_id: None,
                headers: Vec::new(),
            }),
            range: ByteRange::new(0, 0),
            body: Box::pin(futures_util::stream::empty()),
        }))
    });
    let origin = CheckedOrigin::new(Arc::new(canned));
    let answer = content(&origin, get(Some(RangeSpec::Suffix(9)))).await;
    let answer = answer.expect("MinIO's answer");
    assert!(answer.range.is_empty());
    assert_eq!(drain(answer.body).await, (Vec::new(), None));
}
