//! Answers that refuse: each is told from the others.

use std::time::Duration;

use bytes::Bytes;
use tidegate_origin::fake::Fault;
use tidegate_origin::s3::S3;
use tidegate_origin::{Guard, Origin, OriginError, Payload};

use super::{bare, bounded, content, get, key, raw, whole, xml};
use crate::fake_s3::FakeS3;

/// Checks that each of these heads and bodies yields its error, and costs one request.
async fn means(rows: &[(&str, &str, OriginError)]) {
    let server = FakeS3::start().await;
    let origin = bare(&server).await;
    for (head, code, expected) in rows {
        let body = if code.starts_with(|c: char| c.is_ascii_uppercase()) {
            format!("<Error><Code>{code}</Code><Message>secret host</Message></Error>")
        } else {
            (*code).to_owned()
        };
        server.answer_next(raw(head, &body));
        let error = content(&origin, get("k", bounded(0, 9)))
            .await
            .expect_err(head);
        assert_eq!(error, *expected, "{head} {body}");
        assert!(!error.to_string().contains("secret"));
    }
    assert_eq!(
        server.requests().len(),
        rows.len(),
        "no request more than asked for"
    );
}

#[tokio::test]
async fn what_is_missing_is_told_from_what_is_configured_wrongly() {
    use OriginError::{BadAnswer, NoSuchBucket, NotFound};
    let marker = "404 Not Found\r\nx-amz-delete-marker: true";
    let vague = BadAnswer("404 without a reason");
    means(&[
        ("404 Not Found", "NoSuchKey", NotFound),
        (marker, "", NotFound),
        ("400 Bad Request", "XMinioInvalidObjectName", NotFound),
        ("400 Bad Request", "XMinioInvalidResourceName", NotFound),
        ("400 Bad Request", "KeyTooLongError", NotFound),
        ("404 Not Found", "NoSuchBucket", NoSuchBucket),
        ("301 Moved Permanently", "PermanentRedirect", NoSuchBucket),
        ("404 Not Found", "", vague.clone()),
        ("404 Not Found", "<html>", vague.clone()),
        ("404 Not Found", "\u{1}<<garbage", vague),
    ])
    .await;
}

#[tokio::test]
async fn refusals_of_access_versions_and_ranges_are_told_apart() {
    use OriginError::{BadAnswer, Changed, Forbidden, Unsatisfiable};
    let range = "416 Range Not Satisfiable";
    let told = format!("{range}\r\ncontent-range: bytes */7");
    let in_body = "<Error><ActualObjectSize>0</ActualObjectSize></Error>";
    means(&[
        ("403 Forbidden", "AccessDenied", Forbidden),
        ("403 Forbidden", "SignatureDoesNotMatch", Forbidden),
        ("401 Unauthorized", "", Forbidden),
        ("400 Bad Request", "ExpiredToken", Forbidden),
        ("412 Precondition Failed", "PreconditionFailed", Changed),
        (range, "InvalidRange", Unsatisfiable { size: None }),
        (&told, "", Unsatisfiable { size: Some(7) }),
        (range, in_body, Unsatisfiable { size: Some(0) }),
        ("418 Teapot", "", BadAnswer("unexpected status")),
        ("204 No Content", "", BadAnswer("a success without content")),
        (
            "200 OK\r\nlast-modified: never",
            "",
            BadAnswer("a success that cannot be read"),
        ),
    ])
    .await;
}

#[tokio::test]
async fn an_origin_in_need_of_rest_is_told_from_one_in_trouble() {
    use OriginError::{Refused, Throttled, Unavailable};
    let throttled = |seconds: Option<u64>| Throttled {
        retry_after: seconds.map(Duration::from_secs),
    };
    let trouble = Unavailable("server error");
    means(&[
        (
            "503 Slow Down\r\nretry-after: 3",
            "SlowDown",
            throttled(Some(3)),
        ),
        ("503 Slow Down", "SlowDownRead", throttled(None)),
        (
            "503 Service Unavailable\r\nretry-after: 9",
            "",
            throttled(Some(9)),
        ),
        ("429 Too Many Requests", "", throttled(None)),
        // It answers, so it is not down.
        (
            "409 Conflict",
            "ConditionalRequestConflict",
            Refused("another write is under way"),
        ),
        ("408 Request Timeout", "", Refused("request timed out")),
        (
            "400 Bad Request",
            "RequestTimeout",
            Refused("request timed out"),
        ),
        ("503 Service Unavailable", "", trouble.clone()),
        (
            "500 Internal Server Error",
            "InternalError",
            trouble.clone(),
        ),
        // Reading needs no room.
        ("507 Insufficient Storage", "XMinioStorageFull", trouble),
    ])
    .await;
}

#[tokio::test]
async fn headers_that_are_too_large_are_sent_once() {
    let server = FakeS3::start().await;
    let origin = whole(&server.settings()).await;
    for code in ["MetadataTooLarge", "RequestHeaderSectionTooLarge"] {
        let asked = server.requests().len();
        server.answer_next(raw("400 Bad Request", &xml(code)));
        let payload = Payload::from(Bytes::from_static(b"bytes"));
        let key = key("k");
        let put = origin.writing();
        let put = put.put(&key, Vec::new(), payload, Guard::None).await;
        assert_eq!(put.expect_err(code), OriginError::HeadersTooLarge);
        assert_eq!(server.requests().len(), asked + 1);
    }
}

/// The process tries again where the operator can mend the cause: the limit of a proxy, the rights of a key, a clock.
#[tokio::test]
async fn a_refused_size_is_told_from_what_may_be_mended() {
    use OriginError::{BadAnswer, Forbidden, ObjectTooLarge, Refused, Unsupported};
    let server = FakeS3::start().await;
    let origin = bare(&server).await;
    let writing = (&origin as &dyn Origin).writing();
    let may_pass = BadAnswer("unexpected status");
    for (head, code, expected) in [
        ("400 Bad Request", "EntityTooLarge", ObjectTooLarge),
        ("413 Payload Too Large", "EntityTooLarge", ObjectTooLarge),
        ("413 Payload Too Large", "", may_pass.clone()),
        (
            "405 Method Not Allowed",
            "MethodNotAllowed",
            may_pass.clone(),
        ),
        (
            "411 Length Required",
            "MissingContentLength",
            may_pass.clone(),
        ),
        ("451 Unavailable For Legal Reasons", "", may_pass.clone()),
        ("400 Bad Request", "IncompleteBody", may_pass.clone()),
        ("400 Bad Request", "InvalidDigest", may_pass),
        (
            "400 Bad Request",
            "RequestTimeout",
            Refused("request timed out"),
        ),
        ("400 Bad Request", "ExpiredToken", Forbidden),
        ("403 Forbidden", "RequestTimeTooSkewed", Forbidden),
        ("400 Bad Request", "InvalidArgument", Unsupported),
    ] {
        server.answer_next(raw(head, &xml(code)));
        let payload = Payload::from(Bytes::from_static(b"bytes"));
        let put = writing
            .put(&key("k"), Vec::new(), payload, Guard::None)
            .await;
        assert_eq!(put.expect_err(head), expected, "{head} {code}");
    }
}

#[tokio::test]
async fn a_store_without_room_is_told_from_one_in_trouble() {
    use OriginError::{Forbidden, StorageFull, Unavailable};
    let server = FakeS3::start().await;
    let origin = bare(&server).await;
    let writing = (&origin as &dyn Origin).writing();
    for (head, code, expected) in [
        ("507 Insufficient Storage", "XMinioStorageFull", StorageFull),
        ("507 Insufficient Storage", "", StorageFull),
        (
            "400 Bad Request",
            "XMinioAdminBucketQuotaExceeded",
            StorageFull,
        ),
        ("403 Forbidden", "QuotaExceeded", StorageFull),
        ("403 Forbidden", "AccessDenied", Forbidden),
        (
            "500 Internal Server Error",
            "InternalError",
            Unavailable("server error"),
        ),
    ] {
        server.answer_next(raw(head, &xml(code)));
        let payload = Payload::from(Bytes::from_static(b"bytes"));
        let key = key("k");
        let put = writing.put(&key, Vec::new(), payload, Guard::None).await;
        assert_eq!(put.expect_err(head), expected, "{head} {code}");
    }
}

#[tokio::test]
async fn a_refusal_of_access_may_mean_a_missing_object() {
    let server = FakeS3::start().await;
    let mut settings = server.settings();
    settings.missing_is_403 = true;
    let origin = S3::new(&settings).await.expect("settings");
    server
        .bucket
        .set_faults([Fault::Refuse(OriginError::Forbidden)]);
    let missing = content(&origin, get("k", None)).await;
    assert_eq!(missing.expect_err("403"), OriginError::NotFound);
    assert_eq!(origin.head(&key("k")).await, Err(OriginError::NotFound));
    assert_eq!(origin.probe().await, Err(OriginError::Forbidden));
    server.answer_next(raw("403 Forbidden", &xml("InvalidAccessKeyId")));
    let refused = content(&origin, get("k", None)).await;
    assert_eq!(refused.expect_err("a bad key"), OriginError::Forbidden);
}

#[tokio::test]
async fn a_bare_404_of_a_head_is_confirmed_by_a_get() {
    let server = FakeS3::start().await;
    let origin = bare(&server).await;
    assert_eq!(origin.head(&key("k")).await, Err(OriginError::NotFound));
    let methods =
        |server: &FakeS3| -> Vec<_> { server.requests().into_iter().map(|r| r.method).collect() };
    assert_eq!(methods(&server), ["HEAD", "GET"]);
    assert_eq!(server.requests()[1].headers["range"], "bytes=0-0");

    let version = server.bucket.put("k", "there after all");
    server.answer_next(raw("404 Not Found", ""));
    assert_eq!(origin.head(&key("k")).await.as_ref(), Ok(&*version));

    server.answer_next(raw("404 Not Found", ""));
    server.answer_next(raw("404 Not Found", &xml("NoSuchBucket")));
    assert_eq!(origin.head(&key("k")).await, Err(OriginError::NoSuchBucket));

    server.answer_next(raw("404 Not Found\r\nx-amz-delete-marker: true", ""));
    let asked = server.requests().len();
    assert_eq!(origin.head(&key("k")).await, Err(OriginError::NotFound));
    assert_eq!(server.requests().len(), asked + 1, "said in words");
}
