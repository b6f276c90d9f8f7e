//! Encoded answers: made once, with tags of their own, or taken from siblings in the bucket.

use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request};
use tidegate_http::{RouteSettings, Settings};
use tidegate_plan::Coding;
use tokio::time::timeout;

use crate::gateway::{Gateway, Got, LONG, sample, status};

const BR: (&str, &str) = ("accept-encoding", "br");
const RUNS: &str = "encoder_runs_total{coding=\"br\",result=\"kept\"} ";

/// Returns 300 KiB of text that does not repeat itself.
fn script() -> String {
    let numbers = sample(80_000);
    let lines = numbers
        .chunks(8)
        .enumerate()
        .map(|(at, line)| format!("const v{at} = {line:?};\n"));
    let mut text: String = lines.collect();
    text.truncate(300 << 10);
    text
}

fn decoded(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut decoder = brotli::Decompressor::new(bytes, 4096);
    decoder.read_to_string(&mut text).expect("sound");
    text
}

/// Returns one stream's status, coding, announced length and bytes.
async fn take(answer: h2::client::ResponseFuture) -> (u16, String, u64, Bytes) {
    let (head, mut body) = answer.await.expect("an answer").into_parts();
    let text = |name: &str| head.headers[name].to_str().expect("text").to_owned();
    let mut bytes = Vec::new();
    while let Some(frame) = body.data().await {
        let frame = frame.expect("a whole body");
        let _ = body.flow_control().release_capacity(frame.len());
        bytes.extend_from_slice(&frame);
    }
    let length = text("content-length").parse().expect("a number");
    (
        head.status.as_u16(),
        text("content-encoding"),
        length,
        bytes.into(),
    )
}

#[tokio::test]
async fn twelve_hundred_streams_cost_one_run_of_an_encoder() {
    let gateway = Gateway::start().await;
    let script = script();
    let kind = [("content-type", "text/javascript")];
    gateway.origin.put_with("a.js", script.clone(), &kind);
    let mut answers = Vec::new();
    for _ in 0..12 {
        let mut sender = gateway.connect_h2().await;
        for _ in 0..100 {
            let request = Request::get("http://media.example/a.js").header(BR.0, BR.1);
            let request = request.body(()).expect("a request");
            sender = sender.ready().await.expect("a stream");
            let (answer, _) = sender.send_request(request, true).expect("sent");
            answers.push(tokio::spawn(take(answer)));
        }
    }
    let answers = timeout(LONG, join_all(answers)).await.expect("in time");
    let mut first = None;
    for answer in answers {
        let (status, coding, length, bytes) = answer.expect("no panic");
        assert_eq!((status, coding.as_str()), (200, "br"));
        assert_eq!(bytes.len() as u64, length);
        let first = first.get_or_insert_with(|| bytes.clone());
        assert_eq!(*first, bytes);
    }
    assert_eq!(decoded(&first.expect("some")), script);
    assert_eq!(gateway.counted(RUNS), 1);
    gateway.end().await;
}

/// Compares the headers that a HEAD and a 304 must have in common with the GET.
fn agree(get: &Got, other: &Got, names: &[&str]) {
    for name in names {
        assert_eq!(get.header(name), other.header(name), "{name}");
    }
}

#[tokio::test]
async fn head_and_conditions_agree_with_get_before_and_after_a_variant_is_made() {
    let gateway = Gateway::start().await;
    let css = [("content-type", "text/css")];
    let version = gateway
        .origin
        .put_with("s.css", "a { b: c }\n".repeat(900), &css);
    let own = version.etag.as_str();
    let told = [
        "content-encoding",
        "etag",
        "vary",
        "content-type",
        "last-modified",
    ];

    let unmade = gateway.ask(Method::HEAD, "/s.css", &[BR]).await;
    assert_eq!(unmade.header("content-length"), "", "not known yet");
    assert_eq!(gateway.counted(RUNS), 0, "HEAD makes none");
    let get = gateway.get("/s.css", &[BR]).await;
    agree(&get, &unmade, &told);
    let made = gateway.ask(Method::HEAD, "/s.css", &[BR]).await;
    agree(&get, &made, &told);
    agree(&get, &made, &["content-length", "accept-ranges"]);

    let tag = get.header("etag");
    assert_eq!(tag, format!("W/{}-br\"", own.trim_end_matches('"')));
    let both = ("accept-encoding", "gzip, br");
    let gzip = tag.replace("-br", "-gzip");
    let (tag, gzip) = (tag.as_str(), gzip.as_str());
    // The client's tag, the coding it accepts, and the tag of its 304; `None`: it gets the object.
    let rows = [
        (tag, Some(BR), Some(tag)),
        (tag, Some(both), Some(tag)),
        (gzip, Some(both), Some(gzip)),
        (gzip, Some(BR), None),
        (own, Some(BR), Some(own)),
        ("*", Some(BR), Some(tag)),
        // A variant does not count for a client that cannot decode it.
        (tag, None, None),
        (own, None, Some(own)),
    ];
    for (known, accepts, expected) in rows {
        let mut headers = vec![("if-none-match", known)];
        headers.extend(accepts);
        for method in [Method::GET, Method::HEAD] {
            let got = gateway.ask(method, "/s.css", &headers).await;
            let wanted = if expected.is_some() { 304 } else { 200 };
            assert_eq!(status(&got), wanted, "{headers:?}");
            assert_eq!(got.header("vary"), "Accept-Encoding");
            if let Some(expected) = expected {
                assert_eq!(got.header("etag"), expected, "{headers:?}");
            }
        }
    }
    // A variant has no ranges, and its tag does not name the bytes of identity.
    let part = [BR, ("range", "bytes=0-9"), ("if-range", tag)];
    let whole = gateway.get("/s.css", &part).await;
    assert_eq!((status(&whole), whole.bytes()), (200, get.bytes()));
    assert_eq!(gateway.counted(RUNS), 1);
    gateway.end().await;
}

#[tokio::test]
async fn what_gets_no_smaller_or_is_too_large_is_sent_as_it_is() {
    let gateway = Gateway::start().await;
    let kind = [("content-type", "text/plain")];
    let noise: Vec<u8> = (0..20_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8 ^ ((at * at) >> 3) as u8)
        .collect();
    let version = gateway.origin.put_with("noise.txt", noise.clone(), &kind);
    let large = "all the same ".repeat(400_000);
    gateway.origin.put_with("large.txt", large.clone(), &kind);

    for _ in 0..2 {
        let got = gateway.get("/noise.txt", &[BR]).await;
        assert_eq!(got.header("content-encoding"), "");
        assert_eq!(got.bytes(), &noise);
        assert_eq!(got.header("etag"), version.etag.as_str());
        assert_eq!(got.header("accept-ranges"), "bytes");
    }
    let since = [BR, ("if-none-match", "*")];
    let known = gateway.get("/noise.txt", &since).await;
    assert_eq!(known.header("etag"), version.etag.as_str());
    let head = gateway.ask(Method::HEAD, "/noise.txt", &[BR]).await;
    assert_eq!(head.header("content-encoding"), "");
    assert_eq!(head.header("content-length"), "20000");

    let got = gateway.get("/large.txt", &[BR]).await;
    assert_eq!(got.bytes(), large.as_bytes());
    assert_eq!(
        (got.header("content-encoding"), got.header("vary")),
        (String::new(), String::new())
    );
    assert_eq!(got.header("content-length"), large.len().to_string());
    gateway.end().await;
}

fn preferring(codings: &[Coding]) -> Vec<RouteSettings> {
    vec![RouteSettings {
        precompressed: codings.to_vec(),
        ..RouteSettings::default()
    }]
}

const OCTETS: [(&str, &str); 2] = [
    ("content-type", "application/octet-stream"),
    ("cache-control", "max-age=77"),
];

#[tokio::test]
async fn siblings_are_sent_where_a_route_says_so() {
    let all = [Coding::Zstd, Coding::Brotli];
    let gateway = Gateway::with(preferring(&all), Settings::default()).await;
    let js = [("content-type", "text/javascript")];
    let script = "let a = 1;\n".repeat(200);
    gateway.origin.put_with("a.js", script.clone(), &js);
    let zst = gateway.origin.put_with("a.js.zst", "as zstd", &OCTETS);
    gateway.origin.put_with("a.js.br", "as brotli", &OCTETS);
    gateway
        .origin
        .put_with("a.png", "no text", &[("content-type", "image/png")]);

    let any = ("accept-encoding", "gzip, br, zstd");
    for method in [Method::GET, Method::HEAD] {
        let got = gateway.ask(method.clone(), "/a.js", &[any]).await;
        assert_eq!(got.header("content-encoding"), "zstd");
        assert_eq!(got.header("content-type"), "text/javascript");
        assert_eq!(got.header("etag"), zst.etag.as_str());
        assert_eq!(got.header("cache-control"), "max-age=77");
        assert_eq!(got.header("vary"), "Accept-Encoding");
        assert_eq!(got.header("accept-ranges"), "");
        assert_eq!(got.header("content-length"), "7");
        if method == Method::GET {
            assert_eq!(got.bytes(), "as zstd");
        }
    }
    let known = [any, ("if-none-match", zst.etag.as_str())];
    let got = gateway.get("/a.js", &known).await;
    assert_eq!(
        (status(&got), got.header("vary")),
        (304, "Accept-Encoding".into())
    );
    let br = gateway.get("/a.js", &[BR]).await;
    assert_eq!(
        (br.header("content-encoding"), br.bytes().as_ref()),
        ("br".into(), &b"as brotli"[..])
    );

    // Ranges are of identity, and clients that accept no coding get identity.
    let part = gateway.get("/a.js", &[any, ("range", "bytes=0-4")]).await;
    assert_eq!((status(&part), part.bytes().as_ref()), (206, &b"let a"[..]));
    let plain = gateway.get("/a.js", &[]).await;
    assert_eq!(
        (plain.bytes().as_ref(), plain.header("vary")),
        (script.as_bytes(), "Accept-Encoding".into())
    );
    // A coding without a sibling is made; a type that is not text gets none.
    let gzip = gateway.get("/a.js", &[("accept-encoding", "gzip")]).await;
    assert_eq!(gzip.header("content-encoding"), "gzip");
    let asked = gateway.origin.gets();
    let image = gateway.get("/a.png", &[any]).await;
    assert_eq!(
        (image.bytes().as_ref(), gateway.origin.gets()),
        (&b"no text"[..], asked + 1)
    );
    gateway.end().await;
}

#[tokio::test]
async fn a_sibling_that_is_older_than_its_original_is_not_sent() {
    let gateway = Gateway::with(preferring(&[Coding::Brotli]), Settings::default()).await;
    let js = [("content-type", "text/javascript")];
    gateway
        .origin
        .put_with("a.js", "let a = 1;\n".repeat(200), &js);
    let old = gateway.origin.put_with("a.js.br", "of the first", &OCTETS);
    let got = gateway.get("/a.js", &[BR]).await;
    assert_eq!(got.bytes(), "of the first");

    // Each write advances the bucket's clock by a second.
    let new = gateway
        .origin
        .put_with("a.js", "let a = 2;\n".repeat(200), &js);
    assert!(new.last_modified > old.last_modified);
    gateway.later(Duration::from_secs(3600));
    for _ in 0..2 {
        let got = gateway.get("/a.js", &[BR]).await;
        assert_eq!(decoded(got.bytes()), "let a = 2;\n".repeat(200));
        assert_eq!(
            got.header("etag"),
            new.etag.variant(Coding::Brotli).as_str()
        );
    }
    let sibling = gateway.origin.put_with("a.js.br", "of the second", &OCTETS);
    gateway.later(Duration::from_secs(3600));
    let got = gateway.get("/a.js", &[BR]).await;
    assert_eq!(
        (got.bytes().as_ref(), got.header("etag")),
        (&b"of the second"[..], sibling.etag.as_str().into())
    );
    gateway.end().await;
}

#[tokio::test]
async fn siblings_that_are_missing_cost_one_request_each_a_while() {
    let both = [Coding::Brotli, Coding::Gzip];
    let gateway = Gateway::with(preferring(&both), Settings::default()).await;
    let css = [("content-type", "text/css")];
    gateway
        .origin
        .put_with("s.css", "a { b: c }\n".repeat(90), &css);
    let accepts = ("accept-encoding", "gzip, br");
    for _ in 0..5 {
        let got = gateway.get("/s.css", &[accepts]).await;
        assert_eq!(got.header("content-encoding"), "br", "made");
        assert_eq!(
            gateway.origin.gets(),
            3,
            "the object, and two that are not there"
        );
    }
    gateway.later(Duration::from_secs(6));
    gateway.get("/s.css", &[accepts]).await;
    assert_eq!(gateway.origin.gets(), 5);
    gateway.end().await;
}
