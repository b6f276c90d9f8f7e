//! PUT and DELETE.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, FuturesUnordered, StreamExt as _};
use http::header::SERVER;
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body::Frame;
use http_body_util::{Full, StreamBody};
use tidegate_http::{RouteSettings, Settings};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::Token;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::gateway::{Gateway, Got, LONG, sample, status, until};

pub(crate) const TOKEN: (&str, &str) = ("authorization", "Bearer s3cret");

/// Returns a route that accepts writes from clients with [`TOKEN`].
pub(crate) fn with_token() -> (Vec<RouteSettings>, Settings) {
    let settings = RouteSettings {
        write_token: Token::new("s3cret"),
        ..RouteSettings::default()
    };
    (vec![settings], Settings::default())
}

pub(crate) async fn writable() -> Gateway {
    let (routes, settings) = with_token();
    Gateway::with(routes, settings).await
}

pub(crate) async fn put(
    gateway: &Gateway,
    path: &str,
    headers: &[(&str, &str)],
    bytes: impl Into<Bytes>,
) -> Got {
    let headers: Vec<_> = headers.iter().copied().chain([TOKEN]).collect();
    let body = Full::new(bytes.into());
    gateway.send_to(Method::PUT, path, &headers, body).await
}

#[tokio::test]
async fn only_a_client_with_the_token_writes_and_only_where_it_is_allowed() {
    let closed = Gateway::start().await;
    let got = put(&closed, "/k", &[], "x").await;
    assert_eq!(
        (status(&got), got.header("allow")),
        (405, "GET, HEAD, OPTIONS".into())
    );
    closed.end().await;
    let gateway = writable().await;
    for headers in [vec![], vec![("authorization", "Bearer wrong")]] {
        for method in [Method::PUT, Method::DELETE] {
            let body = Full::new(Bytes::from("x"));
            let got = gateway.send_to(method, "/k", &headers, body).await;
            assert_eq!(status(&got), 401);
            assert!(got.header("www-authenticate").starts_with("Bearer"));
        }
    }
    assert!(gateway.origin.keys().is_empty());
    let options = gateway.ask(Method::OPTIONS, "/k", &[]).await;
    assert_eq!(options.header("allow"), "GET, HEAD, OPTIONS, PUT, DELETE");
    let post = gateway.ask(Method::POST, "/k", &[]).await;
    assert_eq!(status(&post), 405);
    gateway.end().await;
}

/// Answers to wrong tokens wait, longer each time and only a few at once; answers to the right one never wait.
#[tokio::test]
async fn guesses_of_the_token_are_slowed_and_its_holder_is_not() {
    let gateway = writable().await;
    let guess = async |n: u32| {
        let wrong = format!("Bearer guess-{n}");
        let headers = [("authorization", wrong.as_str())];
        let body = Full::new(Bytes::from("x"));
        status(&gateway.send_to(Method::PUT, "/k", &headers, body).await)
    };
    let since = std::time::Instant::now();
    for n in 0..5 {
        assert_eq!(guess(n).await, 401);
    }
    let waited = since.elapsed();
    assert!(
        waited >= Duration::from_millis(250 + 500 + 1000 + 2000 + 4000),
        "{waited:?}"
    );

    // Eight wait, for 8 s each, the others are refused at once; meanwhile the right token is served.
    let mut many: FuturesUnordered<_> = (0..20).map(guess).collect();
    for _ in 0..12 {
        assert_eq!(many.next().await, Some(429));
    }
    let right = put(&gateway, "/k", &[], "x");
    tokio::select! {
        biased;
        right = right => assert_eq!(status(&right), 201),
        early = many.next() => panic!("{early:?} before the right one"),
    }
    while let Some(late) = many.next().await {
        assert_eq!(late, 401);
    }
    drop(many);
    gateway.end().await;
}

#[tokio::test]
async fn what_was_put_is_there_at_once_with_its_headers() {
    let gateway = writable().await;
    let headers = [
        ("content-type", "text/x-test"),
        ("x-amz-meta-mood", "calm"),
        ("x-other", "no"),
    ];
    let got = put(&gateway, "/a%20b", &headers, "one").await;
    assert_eq!(status(&got), 201);
    let first = got.header("etag");
    let got = gateway.get("/a%20b", &[]).await;
    assert_eq!(
        (&got.bytes()[..], got.header("etag")),
        (&b"one"[..], first.clone())
    );
    assert_eq!(got.header("content-type"), "text/x-test");
    assert_eq!(got.header("x-amz-meta-mood"), "calm");
    let got = put(&gateway, "/a%20b", &[], "two!").await;
    assert_eq!(status(&got), 204);
    assert_ne!(got.header("etag"), first);
    assert_eq!(
        gateway.get("/a%20b", &[]).await.bytes(),
        "two!",
        "without a purge"
    );
    let got = gateway
        .send_to(Method::DELETE, "/a%20b", &[TOKEN], Full::<Bytes>::default())
        .await;
    assert_eq!(status(&got), 204);
    assert_eq!(status(&gateway.get("/a%20b", &[]).await), 404);
    gateway.end().await;
}

#[tokio::test]
async fn conditions_hold_when_the_object_appears() {
    let gateway = writable().await;
    let got = put(&gateway, "/k", &[("if-none-match", "*")], "one").await;
    assert_eq!(status(&got), 201);
    let first = got.header("etag");
    let got = put(&gateway, "/k", &[("if-none-match", "*")], "two").await;
    assert_eq!(status(&got), 412);
    let got = put(&gateway, "/k", &[("if-match", "\"other\"")], "two").await;
    assert_eq!(status(&got), 412);
    let weak = format!("W/{first}");
    assert_eq!(
        status(&put(&gateway, "/k", &[("if-match", &weak)], "two").await),
        412
    );
    let several = format!("\"other\", {first}");
    let got = put(&gateway, "/k", &[("if-match", &several)], "two").await;
    assert_eq!(status(&got), 204);
    assert_eq!(
        status(&put(&gateway, "/k", &[("if-match", &first)], "three").await),
        412
    );
    assert_eq!(
        status(&put(&gateway, "/none", &[("if-match", "*")], "x").await),
        412
    );
    let wrong = [TOKEN, ("if-match", first.as_str())];
    let got = gateway
        .send_to(Method::DELETE, "/k", &wrong, Full::<Bytes>::default())
        .await;
    assert_eq!(status(&got), 412);
    assert_eq!(gateway.get("/k", &[]).await.bytes(), "two");
    gateway.end().await;
}

#[tokio::test]
async fn a_body_that_is_not_what_was_announced_is_no_object() {
    let gateway = writable().await;
    let right = ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw==");
    assert_eq!(
        status(&put(&gateway, "/k", &[right], "123456789").await),
        201
    );
    assert_eq!(
        status(&put(&gateway, "/k", &[right], "12345678").await),
        400
    );
    let large = sample(20_000_000);
    let wrong = ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=");
    assert_eq!(status(&put(&gateway, "/large", &[wrong], large).await), 400);
    let unreadable = ("repr-digest", "sha-256=oops");
    assert_eq!(status(&put(&gateway, "/k", &[unreadable], "x").await), 400);
    let part = ("content-range", "bytes 0-0/2");
    assert_eq!(status(&put(&gateway, "/k", &[part], "x").await), 400);
    assert_eq!(gateway.get("/k", &[]).await.bytes(), "123456789");
    assert_eq!(gateway.origin.keys(), ["k"]);
    gateway.end().await;
}

/// A body of unknown length, in pieces that do not fit the parts.
#[tokio::test]
async fn a_large_object_goes_up_as_it_arrives() {
    let gateway = writable().await;
    let bytes = sample(30_000_000);
    let pieces: Vec<_> = bytes.chunks(70_001).map(Bytes::copy_from_slice).collect();
    let frames = pieces
        .into_iter()
        .map(|piece| Ok::<_, Infallible>(Frame::data(piece)));
    let body = StreamBody::new(stream::iter(frames));
    let got = gateway.send_to(Method::PUT, "/large", &[TOKEN], body).await;
    assert_eq!(status(&got), 201);
    assert_eq!(gateway.origin.count("part"), 4);
    assert!(gateway.get("/large", &[]).await.bytes()[..] == bytes);
    // A body that fills its parts exactly, and a body of exactly one part.
    for length in [16 << 20, 8 << 20] {
        let got = put(&gateway, "/exact", &[], sample(length)).await;
        assert!(got.status.is_success());
        assert_eq!(gateway.get("/exact", &[]).await.bytes().len(), length);
    }
    assert!(gateway.origin.uploads_under_way().is_empty());
    gateway.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_leaves_nothing() {
    let gateway = writable().await;
    let announced = "content-length: 40000000\r\n\r\n";
    let chunked = "transfer-encoding: chunked\r\n\r\n1312d00\r\n"; // 20,000,000
    for (times, length) in [(1, announced), (2, chunked)] {
        let mut stream = gateway.connect().await;
        let head = "PUT /k HTTP/1.1\r\nhost: a\r\nauthorization: Bearer s3cret\r\n";
        let head = format!("{head}{length}");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&sample(20_000_000)).await.expect("sent");
        until(|| gateway.origin.count("part") == 2 * times).await;
        drop(stream);
        until(|| gateway.origin.uploads_under_way().is_empty()).await;
    }
    assert!(gateway.origin.keys().is_empty());
    gateway.end().await;
}

/// Returns the head of a PUT of unknown length, over HTTP/2.
fn put_head(path: &str) -> Request<()> {
    let uri = format!("http://media.example{path}");
    let request = Request::put(uri).header(TOKEN.0, TOKEN.1);
    request
        .version(http::Version::HTTP_2)
        .body(())
        .expect("a request")
}

/// A reset with NO_ERROR does not end a body: proxies send it when their client leaves.
#[tokio::test]
async fn a_stream_that_is_reset_is_no_whole_body() {
    let gateway = writable().await;
    for size in [4, 20_000_000] {
        let mut client = gateway.connect_h2().await;
        let (answer, mut body) = client.send_request(put_head("/k"), false).expect("sent");
        body.send_data(sample(size).into(), false).expect("sent");
        // Bytes that the window does not take yet leave before the reset.
        if size > 4 {
            until(|| gateway.origin.count("part") == 2).await;
        }
        body.send_reset(h2::Reason::NO_ERROR);
        let answer = timeout(LONG, answer).await.expect("in time");
        answer.expect_err("a stream that was reset has no answer");
        until(|| gateway.origin.uploads_under_way().is_empty()).await;
    }
    // Both ways to end the body.
    for (path, trailers) in [("/data", false), ("/trailers", true)] {
        let mut client = gateway.connect_h2().await;
        let (answer, mut body) = client.send_request(put_head(path), false).expect("sent");
        body.send_data("half".into(), false).expect("sent");
        body.send_data("half".into(), !trailers).expect("sent");
        if trailers {
            let trailers = HeaderMap::from_iter([(SERVER, HeaderValue::from_static("x"))]);
            body.send_trailers(trailers).expect("sent");
        }
        let answer = timeout(LONG, answer).await.expect("in time");
        assert_eq!(answer.expect("an answer").status(), 201, "{path}");
        assert_eq!(gateway.get(path, &[]).await.bytes(), "halfhalf");
    }
    assert_eq!(gateway.origin.keys(), ["data", "trailers"]);
    gateway.end().await;
}

/// RFC 9112, 6.1 and 6.3. Over HTTP/2 the stream has the end of a body.
#[tokio::test]
async fn a_body_whose_bytes_or_end_are_unknown_is_no_object() {
    let gateway = writable().await;
    assert_eq!(status(&put(&gateway, "/k", &[], "one").await), 201);
    let chunks = "\r\n3\r\ntwo\r\n0\r\n\r\n";
    let rows = [
        (
            format!("transfer-encoding: gzip, chunked\r\n{chunks}"),
            "501",
        ),
        (
            format!("transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n{chunks}"),
            "501",
        ),
        ("\r\n".to_owned(), "411"),
        (format!("transfer-encoding: Chunked\r\n{chunks}"), "204"),
        ("content-length: 0\r\n\r\n".to_owned(), "204"),
    ];
    for ((rest, expected), kept) in rows.into_iter().zip(["one", "one", "one", "two", ""]) {
        let mut client = gateway.connect().await;
        let head =
            "PUT /k HTTP/1.1\r\nhost: a\r\nauthorization: Bearer s3cret\r\nconnection: close\r\n";
        let request = format!("{head}{rest}");
        client.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        let read = timeout(LONG, client.read_to_string(&mut answer)).await;
        read.expect("in time").expect("an answer");
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{rest}: {answer}"
        );
        assert_eq!(gateway.get("/k", &[]).await.bytes(), kept, "{rest}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn what_is_too_large_is_said_before_it_is_sent() {
    let gateway = writable().await;
    let mut stream = gateway.connect().await;
    let head = "PUT /k HTTP/1.1\r\nhost: a\r\nauthorization: Bearer s3cret\r\ncontent-length: 200000000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
    drop(stream);
    gateway.end().await;
}

#[tokio::test]
async fn an_origin_that_fails_is_told_and_nothing_is_half_written() {
    let gateway = writable().await;
    let down = Fault::Refuse(OriginError::Unavailable("down"));
    gateway.origin.set_faults([down]);
    assert_eq!(status(&put(&gateway, "/k", &[], "x").await), 503);
    let too_large = Fault::Refuse(OriginError::HeadersTooLarge);
    gateway.origin.set_faults([too_large]);
    assert_eq!(status(&put(&gateway, "/k", &[], "x").await), 400);
    let too_large = Fault::Refuse(OriginError::ObjectTooLarge);
    gateway.origin.set_faults([too_large]);
    assert_eq!(status(&put(&gateway, "/k", &[], "x").await), 413);
    gateway.origin.set_faults([]);
    assert_eq!(status(&gateway.get("/k", &[]).await), 404);
    gateway.end().await;
}
