//! The S3 client over real sockets: its requests, and its reading of every answer.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tidegate_origin::fake::Fault;
use tidegate_origin::s3::S3;
use tidegate_origin::settings::Credentials;
use tidegate_origin::{
    self, Answer, Condition, Content, CopySource, Get, Guard, Metrics, Origin, OriginError,
    PartSums, Priority, Settings,
};
use tidegate_plan::{ETag, ObjectKey, RangeSpec, Timestamp};

use crate::fake_s3::{self, FakeS3};

mod connections;
mod copies;
mod refusals;
mod stored_headers;

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

fn bounded(first: u64, last: u64) -> Option<RangeSpec> {
    Some(RangeSpec::Bounded { first, last })
}

async fn bare(server: &FakeS3) -> S3 {
    S3::new(&server.settings()).await.expect("settings")
}

async fn whole(settings: &Settings) -> Arc<dyn Origin> {
    let metrics = Metrics::default();
    tidegate_origin::connect(settings, &metrics)
        .await
        .expect("settings")
}

async fn content(origin: &dyn Origin, request: Get) -> Result<Content, OriginError> {
    match origin.get(request).await? {
        Answer::Content(content) => Ok(content),
        Answer::NotModified { .. } => panic!("304 where content was expected"),
    }
}

async fn drain(content: Content) -> (Vec<u8>, Option<OriginError>) {
    let mut body = content.body;
    let mut bytes = Vec::new();
    while let Some(item) = body.next().await {
        match item {
            Ok(frame) => bytes.extend_from_slice(&frame),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

/// Returns a whole answer with its length, after which the connection ends: a client that kept it would lose a request.
fn raw(head: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn xml(code: &str) -> String {
    format!("<Error><Code>{code}</Code><Message>secret host</Message></Error>")
}

#[tokio::test]
async fn one_request_each_and_nothing_in_it_that_was_not_asked_for() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "0123456789");
    let origin = bare(&server).await;
    let answer = content(&origin, get("k", bounded(2, 4)))
        .await
        .expect("content");
    assert_eq!(drain(answer).await, (b"234".to_vec(), None));
    assert!(content(&origin, get("k", None)).await.is_ok());
    assert!(origin.head(&key("k")).await.is_ok());
    assert_eq!(origin.probe().await, Ok(()));

    let requests = server.requests();
    let lines: Vec<_> = requests
        .iter()
        .map(|r| {
            (
                r.method.as_str(),
                r.target.split('?').next().unwrap_or_default(),
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            ("GET", "/media/k"),
            ("GET", "/media/k"),
            ("HEAD", "/media/k"),
            ("HEAD", "/media/")
        ]
    );
    let sent = |n: usize, name: &str| requests[n].headers.get(name).cloned();
    assert_eq!(sent(0, "range").as_deref(), Some("bytes=2-4"));
    assert_eq!(sent(1, "range"), None);
    for n in 0..4 {
        assert_eq!(sent(n, "x-amz-checksum-mode"), None);
        assert!(sent(n, "authorization").is_some_and(|v| v.starts_with("AWS4-HMAC-SHA256")));
    }
}

#[tokio::test]
async fn anonymous_requests_are_not_signed() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let mut settings = server.settings();
    settings.credentials = Credentials::Anonymous;
    let origin = S3::new(&settings).await.expect("settings");
    assert!(content(&origin, get("k", None)).await.is_ok());
    assert_eq!(server.requests()[0].headers.get("authorization"), None);
}

/// A policy that lets everyone read objects lets no client look at the bucket itself.
#[tokio::test]
async fn a_public_bucket_that_may_not_be_looked_at_is_there() {
    let server = FakeS3::start().await;
    let signed = server.settings();
    let mut anonymous = signed.clone();
    anonymous.credentials = Credentials::Anonymous;
    let rows = [
        (&anonymous, "403 Forbidden", Ok(())),
        (&anonymous, "404 Not Found", Err(OriginError::NoSuchBucket)),
        (&anonymous, "401 Unauthorized", Err(OriginError::Forbidden)),
        (&signed, "403 Forbidden", Err(OriginError::Forbidden)),
    ];
    for (settings, status, expected) in rows {
        server.answer_next(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"));
        let origin = S3::new(settings).await.expect("settings");
        assert_eq!(origin.probe().await, expected, "{status}");
    }
}

#[tokio::test]
async fn conditions_are_sent_and_their_answers_understood() {
    let server = FakeS3::start().await;
    let old = server.bucket.put("k", "old");
    let origin = bare(&server).await;
    let matching = |etag: &ETag| Get {
        condition: Condition::Match {
            etag: etag.clone(),
            version_id: None,
        },
        ..get("k", bounded(0, 1))
    };
    let none_matching = |etag: &ETag| Get {
        condition: Condition::NoneMatch(etag.clone()),
        ..get("k", bounded(0, 1))
    };
    assert!(content(&origin, matching(&old.etag)).await.is_ok());
    let Ok(Answer::NotModified { last_modified }) = origin.get(none_matching(&old.etag)).await
    else {
        panic!("304 expected");
    };
    assert_eq!(last_modified, old.last_modified);

    server.bucket.put("k", "new");
    let changed = content(&origin, matching(&old.etag)).await;
    assert_eq!(changed.expect_err("412"), OriginError::Changed);
    assert!(content(&origin, none_matching(&old.etag)).await.is_ok());

    let weak = ETag::parse("W/\"x\"").expect("valid");
    let _ = content(&origin, matching(&weak)).await;
    let last = server.requests().pop().expect("a request");
    assert_eq!(last.headers.get("if-match"), None, "it could never match");
}

#[tokio::test]
async fn versions_are_asked_for_by_their_id() {
    let server = FakeS3::start().await;
    let _ = server.bucket.clone().with_versions();
    let old = server.bucket.put("k", "old");
    server.bucket.put("k", "newer");
    let origin = bare(&server).await;
    let request = Get {
        condition: Condition::Match {
            etag: old.etag.clone(),
            version_id: old.version_id.clone(),
        },
        ..get("k", None)
    };
    let answer = content(&origin, request.clone())
        .await
        .expect("the old one");
    assert_eq!(answer.version, old);
    assert_eq!(drain(answer).await.0, b"old");

    server.answer_next(raw("404 Not Found", &xml("NoSuchVersion")));
    assert_eq!(
        content(&origin, request).await.expect_err("gone"),
        OriginError::Changed
    );
}

#[tokio::test]
async fn heads_that_contradict_themselves_are_refused() {
    let server = FakeS3::start().await;
    let mut settings = server.settings();
    settings.retry.backoff.cap = Duration::from_millis(1);
    let origin = whole(&settings).await;
    let good = "206 Partial Content\r\netag: \"e\"";
    let rows = [
        format!("{good}\r\ncontent-range: bytes 0-3/9\r\ncontent-length: 3\r\n\r\nabc"),
        format!("{good}\r\ncontent-range: bytes 1-3/9\r\ncontent-length: 3\r\n\r\nabc"),
        format!("{good}\r\ncontent-range: bytes 0-2/*\r\ncontent-length: 3\r\n\r\nabc"),
        format!("{good}\r\ncontent-range: nonsense\r\ncontent-length: 3\r\n\r\nabc"),
        format!("{good}\r\ncontent-length: 3\r\n\r\nabc"),
        "206 Partial Content\r\ncontent-range: bytes 0-2/9\r\ncontent-length: 3\r\n\r\nabc"
            .to_owned(),
        "416 Range Not Satisfiable\r\ncontent-range: bytes */9\r\ncontent-length: 0\r\n\r\n"
            .to_owned(),
        "412 Precondition Failed\r\ncontent-length: 0\r\n\r\n".to_owned(),
        "304 Not Modified\r\n\r\n".to_owned(),
    ];
    for head in rows {
        for _ in 0..3 {
            server.answer_next(format!("HTTP/1.1 {head}"));
        }
        let refused = origin.get(get("k", bounded(0, 2))).await;
        assert!(
            matches!(refused, Err(OriginError::BadAnswer(_))),
            "{head} {refused:?}"
        );
    }
}

#[tokio::test]
async fn headers_pass_as_they_came() {
    let server = FakeS3::start().await;
    let headers = [
        ("content-type", "audio/mpeg"),
        ("cache-control", "max-age=5"),
        ("content-disposition", "inline; filename=\"a b\""),
        ("expires", "not a date"),
        ("x-amz-meta-title", "Momo"),
    ];
    let version = server.bucket.put_with("k", "bytes", &headers);
    let origin = bare(&server).await;
    assert_eq!(origin.head(&key("k")).await.as_ref(), Ok(&*version));
    let answer = content(&origin, get("k", None)).await.expect("content");
    assert_eq!(answer.version, version);
    assert_eq!(version.last_modified, Some(Timestamp(1000)));
}

#[tokio::test]
async fn empty_objects_are_taken_from_any_store() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "");
    let origin = whole(&server.settings()).await;
    let refused = content(&*origin, get("k", bounded(0, 9))).await;
    let size = Some(0);
    assert_eq!(
        refused.expect_err("416"),
        OriginError::Unsatisfiable { size }
    );
    let answer = content(&*origin, get("k", None)).await.expect("content");
    assert_eq!(answer.version.size, 0);
    assert_eq!(drain(answer).await, (Vec::new(), None));

    let minio = "206 Partial Content\r\netag: \"e\"\r\ncontent-range: bytes 0--1/0";
    server.answer_next(raw(minio, ""));
    let answer = content(&*origin, get("k", Some(RangeSpec::Suffix(5))))
        .await
        .expect("content");
    assert_eq!((answer.version.size, answer.range.len()), (0, 0));
    assert_eq!(drain(answer).await, (Vec::new(), None));
}

const CHAIN: &str = "TIDEGATE_TEST_CHAIN";

/// Runs this test once more in a process whose environment names a key, which the chain finds.
#[tokio::test]
async fn the_usual_chain_finds_the_environments_key() {
    let server = FakeS3::start().await;
    if let Ok(endpoint) = std::env::var(CHAIN) {
        let mut settings = server.settings();
        settings.endpoint = Some(endpoint);
        settings.credentials = Credentials::Chain;
        let origin = S3::new(&settings).await.expect("settings");
        assert!(content(&origin, get("k", None)).await.is_ok());
        return;
    }
    server.bucket.put("k", "v");
    let endpoint = server.settings().endpoint.expect("an endpoint");
    let name = "s3::the_usual_chain_finds_the_environments_key";
    let run = move || {
        std::process::Command::new(std::env::current_exe().expect("this test"))
            .args([name, "--exact"])
            .env(CHAIN, endpoint)
            .env("AWS_ACCESS_KEY_ID", "from-the-environment")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
    };
    let child = tokio::task::spawn_blocking(run).await.expect("no panic");
    assert!(child.expect("it runs").status.success());
    let signed = &server.requests()[0].headers["authorization"];
    assert!(
        signed.contains("Credential=from-the-environment/"),
        "{signed}"
    );
}

#[tokio::test]
async fn a_peek_is_one_request_whatever_it_finds() {
    let server = FakeS3::start().await;
    server.bucket.put("k", "v");
    let origin = whole(&server.settings()).await;
    let key = |text| ObjectKey::new(text).expect("a valid key");
    assert_eq!(origin.peek(&key("none")).await, Ok(None));
    assert!(matches!(origin.peek(&key("k")).await, Ok(Some(_))));
    assert_eq!(server.requests().len(), 2);
    server
        .bucket
        .fail_next([Fault::Refuse(OriginError::Forbidden)]);
    assert_eq!(origin.peek(&key("k")).await, Err(OriginError::Forbidden));
}

/// R2 answers 501 to an upload that names a checksum. The client tries that once.
#[tokio::test]
async fn a_store_that_takes_no_named_checksum_is_written_to_all_the_same() {
    let server = FakeS3::start().await;
    let origin: Arc<dyn Origin> = Arc::new(bare(&server).await);
    let begun =
        "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    let named = || {
        let requests = server.requests();
        let names = |it: &fake_s3::Request| it.headers.get("x-amz-checksum-algorithm").cloned();
        Vec::from_iter(requests.iter().map(names))
    };
    server.answer_next(raw("503 Service Unavailable", ""));
    server.answer_next(raw("501 Not Implemented", &xml("NotImplemented")));
    server.answer_next(raw("200 OK", begun));
    server.answer_next(raw("200 OK", begun));
    let begin = async || {
        let writing = origin.writing();
        writing.begin(&key("k"), Vec::new(), PartSums::Crc32c).await
    };
    let down = begin().await.expect_err("503");
    assert_eq!(down, OriginError::Unavailable("server error"));
    for _ in 0..2 {
        assert_eq!(begin().await.expect("begun").sums, PartSums::Crc64);
    }
    let asked = Some("CRC32C".to_owned());
    assert_eq!(named(), [asked.clone(), asked, None, None]);
}

/// The version to delete is named to the store. One that refuses the condition twice in a row is not asked with it again.
#[tokio::test]
async fn a_store_without_conditional_deletions_deletes_all_the_same() {
    let server = FakeS3::start().await;
    let origin: Arc<dyn Origin> = Arc::new(bare(&server).await);
    let delete = async |tag: &str| {
        let guard = Guard::Same(ETag::parse(tag).expect("a tag"));
        origin.writing().delete(&key("k"), guard).await
    };
    server.answer_next(raw("412 Precondition Failed", &xml("PreconditionFailed")));
    assert_eq!(delete("\"a\"").await, Err(OriginError::Changed));
    server.answer_next(raw("404 Not Found", &xml("NoSuchKey")));
    assert_eq!(delete("\"a\"").await, Ok(()));
    let done = || raw("204 No Content", "");
    let refused = || raw("501 Not Implemented", &xml("NotImplemented"));
    let stray = [done(), refused(), done(), done()];
    let always = [refused(), done(), refused(), done(), done()];
    for answer in stray.into_iter().chain(always) {
        server.answer_next(answer);
    }
    for tag in ["W/\"a\"", "\"a\"", "\"a\"", "\"a\"", "\"a\"", "\"a\""] {
        assert_eq!(delete(tag).await, Ok(()));
    }
    let named = server.requests();
    let named = named.iter().map(|it| it.headers.get("if-match").cloned());
    let asked = Some("\"a\"".to_owned());
    let first = [asked.clone(), asked.clone()];
    let stray = [None, asked.clone(), None, asked.clone()];
    let always = [asked.clone(), None, asked, None, None];
    assert_eq!(
        Vec::from_iter(named),
        [&first[..], &stray, &always].concat()
    );
}

/// The same of a copy that must not replace.
#[tokio::test]
async fn a_store_without_conditional_copies_is_not_asked_twice_for_ever() {
    let server = FakeS3::start().await;
    let origin: Arc<dyn Origin> = Arc::new(bare(&server).await);
    let copy = async || {
        let source = CopySource {
            key: key("from"),
            etag: ETag::parse("\"a\"").expect("a tag"),
        };
        let copied = origin.writing();
        let copied = copied.copy(source, (&key("to"), Guard::Absent), None).await;
        copied.map(|written| written.etag)
    };
    let copied = "<CopyObjectResult><ETag>&quot;b&quot;</ETag></CopyObjectResult>";
    let done = || raw("200 OK", copied);
    let refused = || raw("501 Not Implemented", &xml("NotImplemented"));
    let stray = [done(), refused(), done(), done()];
    let always = [refused(), done(), refused(), done(), done(), done()];
    for answer in stray.into_iter().chain(always) {
        server.answer_next(answer);
    }
    for _ in 0..7 {
        assert_eq!(copy().await.expect("copied").as_str(), "\"b\"");
    }
    let named = server.requests();
    let named = named
        .iter()
        .map(|it| it.headers.contains_key("if-none-match"));
    let stray = [true, true, false, true];
    let always = [true, false, true, false, false, false];
    assert_eq!(Vec::from_iter(named), [&stray[..], &always].concat());
}
