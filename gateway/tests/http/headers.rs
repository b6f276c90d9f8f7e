//! The headers of a PUT or DELETE: those that are kept, and those that are refused.

use bytes::Bytes;
use http::Method;
use http_body_util::Full;
use tidegate::embedded::EmbeddedOrigin;
use tidegate_origin::Metrics;
use tidegate_origin::fake::FakeOrigin;

use crate::gateway::{Gateway, status};
use crate::write::{TOKEN, put, with_token, writable};

/// Starts a gateway over the embedded S3, with the SDK in between.
async fn over_s3(embedded: &EmbeddedOrigin) -> Gateway {
    let settings = embedded.settings("embedded");
    let bucket = tidegate_origin::connect(&settings, &Metrics::default()).await;
    let bucket = bucket.expect("valid settings");
    let (routes, limits) = with_token();
    Gateway::over(bucket, FakeOrigin::new(), routes, limits).await
}

#[tokio::test]
async fn what_was_sent_is_what_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let embedded = EmbeddedOrigin::start(folder.path()).await.expect("starts");
    for gateway in [writable().await, over_s3(&embedded).await] {
        let headers = [
            ("content-type", "text/x-test"),
            ("cache-control", "private"),
            ("cache-control", "max-age=60"),
            ("x-amz-meta-mood", "calm"),
            ("x-amz-meta-mood", "glad"),
            ("expires", "0"),
        ];
        let got = put(&gateway, "/k", &headers, "one").await;
        assert_eq!(status(&got), 201);
        let got = gateway.get("/k", &[]).await;
        assert_eq!(got.header("content-type"), "text/x-test");
        assert_eq!(got.header("cache-control"), "private, max-age=60");
        assert_eq!(got.header("x-amz-meta-mood"), "calm, glad");
        assert_eq!(got.header("expires"), "Thu, 01 Jan 1970 00:00:00 GMT");
        gateway.end().await;
    }
}

/// Each of these requests means something other than the whole object; S3 would not replace or
/// delete it.
#[tokio::test]
async fn what_means_something_else_changes_nothing() {
    let gateway = writable().await;
    assert_eq!(status(&put(&gateway, "/k", &[], "one").await), 201);
    let tag = gateway.get("/k", &[]).await.header("etag");
    let copy = ("x-amz-copy-source", "/media/other");
    for (path, headers) in [
        ("/k?partNumber=1&uploadId=abc", vec![]),
        ("/k?x=1&versionId=abc", vec![]),
        ("/k?tagging", vec![]),
        ("/k?acl=", vec![]),
        ("/k?uploads", vec![]),
        ("/k", vec![copy]),
    ] {
        assert_eq!(status(&put(&gateway, path, &headers, "x").await), 400);
        let headers: Vec<_> = headers.into_iter().chain([TOKEN]).collect();
        let body = Full::<Bytes>::default();
        let got = gateway.send_to(Method::DELETE, path, &headers, body).await;
        assert_eq!(status(&got), 400, "{path}");
    }
    for header in [
        ("trailer", "X-Other, Repr-Digest"),
        ("trailer", "content-md5"),
        ("x-amz-trailer", "x-amz-checksum-crc32"),
        ("content-encoding", "gzip, aws-chunked"),
        ("content-range", "bytes 0-0/1"),
    ] {
        let got = put(&gateway, "/k", &[header], "x").await;
        assert_eq!(status(&got), 400, "{header:?}");
    }
    let kinds = [("content-type", "text/a"), ("content-type", "text/b")];
    assert_eq!(status(&put(&gateway, "/k", &kinds, "x").await), 400);
    assert_eq!(gateway.get("/k", &[]).await.bytes(), "one");
    assert_eq!(gateway.get("/k", &[]).await.header("etag"), tag);
    let harmless = [("trailer", "x-other")];
    let got = put(&gateway, "/k?v=2&aclu", &harmless, "two").await;
    assert_eq!(status(&got), 204);
    gateway.end().await;
}
