//! Whole objects, keys, methods, failures, freshness.

use std::time::Duration;

use http::{Method, Request, Uri, Version};
use tidegate_http::{RouteSettings, Settings};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::gateway::{CHUNK, Gateway, sample, status};

#[tokio::test]
async fn whole_objects_of_every_size_in_one_request() {
    let gateway = Gateway::start().await;
    let chunk = CHUNK as usize;
    for size in [1, 2, chunk - 1, chunk, chunk + 1, 3 * chunk, 35_000] {
        let key = format!("size/{size}.bin");
        gateway.origin.put(&key, sample(size));
        let before = gateway.origin.gets();
        for expected in ["fwd=uri-miss", "hit"] {
            let got = gateway.get(&format!("/{key}"), &[]).await;
            assert_eq!(status(&got), 200);
            assert_eq!(got.bytes()[..], sample(size));
            assert_eq!(got.header("content-length"), size.to_string());
            assert_eq!(got.header("accept-ranges"), "bytes");
            assert_eq!(got.header("x-content-type-options"), "nosniff");
            assert_eq!(got.header("transfer-encoding"), "");
            let how = got.header("cache-status");
            assert!(how.starts_with(&format!("tidegate; {expected}; ")), "{how}");
        }
        assert_eq!(gateway.origin.gets() - before, 1, "{size}");
    }
    assert_eq!(gateway.origin.heads(), 0);
    gateway.end().await;
}

#[tokio::test]
async fn an_empty_object() {
    let gateway = Gateway::start().await;
    gateway.origin.put("empty", "");
    let got = gateway.get("/empty", &[]).await;
    assert_eq!((status(&got), got.bytes().len()), (200, 0));
    assert_eq!(got.header("content-length"), "0");
    let got = gateway.get("/empty", &[("range", "bytes=0-0")]).await;
    assert_eq!(status(&got), 416);
    assert_eq!(got.header("content-range"), "bytes */0");
    gateway.end().await;
}

#[tokio::test]
async fn keys_are_paths_decoded_once() {
    let gateway = Gateway::start().await;
    let long = "k".repeat(1024);
    let rows = [
        ("/a%20b", "a b"),
        ("/a+b", "a+b"),
        ("/100%25", "100%"),
        ("/%C3%BC/%E2%98%83", "ü/☃"),
        ("/x//y/", "x//y/"),
        (&format!("/{long}"), long.as_str()),
    ];
    for (path, key) in rows {
        gateway.origin.put(key, key.to_owned());
        let got = gateway.get(path, &[]).await;
        assert_eq!(status(&got), 200, "{path}");
        assert_eq!(got.bytes(), key.as_bytes(), "{path}");
        // The query is neither part of the key nor sent on.
        let before = gateway.origin.gets();
        let got = gateway.get(&format!("{path}?ver=6.4"), &[]).await;
        assert_eq!(status(&got), 200, "{path}");
        assert_eq!(gateway.origin.gets(), before);
    }
    // MinIO would give the object without the slash.
    let before = gateway.origin.gets();
    for lead in ["//lead", "/%2Flead", "//"] {
        let got = gateway.get(lead, &[]).await;
        assert_eq!(status(&got), 404, "{lead}");
    }
    assert_eq!(gateway.origin.gets(), before);
    for bad in [
        "/a/../b",
        "/a/%2e%2E/b",
        "/./a",
        "/a%00",
        "/a%ff",
        &format!("/k{long}"),
    ] {
        let got = gateway.get(bad, &[]).await;
        assert_eq!(status(&got), 400, "{bad}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn head_says_what_get_says() {
    let gateway = Gateway::start().await;
    gateway.origin.put("k.png", sample(9000));
    let css = [("content-type", "text/css")];
    gateway.origin.put_with("k.css", "a{}".repeat(999), &css);
    for (path, headers) in [
        ("/k.png", vec![]),
        ("/k.png", vec![("range", "bytes=0-1")]),
        ("/k.css", vec![]),
        ("/k.css", vec![("accept-encoding", "gzip")]),
        ("/missing", vec![]),
    ] {
        let whole: Vec<_> = headers
            .iter()
            .filter(|(name, _)| *name != "range")
            .copied()
            .collect();
        gateway.get(path, &whole).await;
        let get = gateway.get(path, &whole).await;
        let head = gateway.ask(Method::HEAD, path, &headers).await;
        assert_eq!(head.status, get.status, "{path}");
        assert!(head.bytes().is_empty());
        for name in [
            "content-length",
            "content-type",
            "content-encoding",
            "etag",
            "vary",
            "accept-ranges",
            "last-modified",
            "cache-control",
        ] {
            assert_eq!(
                head.header(name),
                get.header(name),
                "{path} {headers:?} {name}"
            );
        }
    }
    gateway.end().await;
}

#[tokio::test]
async fn methods_hosts_and_targets() {
    let settings = Settings {
        max_uri_bytes: 2000,
        ..Settings::default()
    };
    let gateway = Gateway::with(vec![RouteSettings::default()], settings).await;
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let got = gateway.ask(method, "/k", &[]).await;
        assert_eq!(status(&got), 405);
        assert_eq!(got.header("allow"), "GET, HEAD, OPTIONS");
    }
    let got = gateway.ask(Method::OPTIONS, "/k", &[]).await;
    assert_eq!(
        (status(&got), got.header("allow").as_str()),
        (204, "GET, HEAD, OPTIONS")
    );
    assert_eq!(status(&gateway.get("/", &[]).await), 404);
    assert_eq!(
        status(&gateway.get(&format!("/k?{}", "x".repeat(2000)), &[]).await),
        414
    );
    assert_eq!(gateway.origin.gets(), 0);
    gateway.end().await;
}

/// `OPTIONS *` asks about the server.
#[tokio::test]
async fn options_of_the_server_ask_no_route() {
    let route = |path: &str| RouteSettings {
        path: path.to_owned(),
        ..RouteSettings::default()
    };
    for path in ["/", "/media/"] {
        let gateway = Gateway::with(vec![route(path)], Settings::default()).await;
        for (host, expected) in [
            ("host: h\r\n", "204"),
            ("", "400"),
            ("host: a b\r\n", "400"),
        ] {
            let mut client = gateway.connect().await;
            let request = format!("OPTIONS * HTTP/1.1\r\n{host}connection: close\r\n\r\n");
            client.write_all(request.as_bytes()).await.expect("sent");
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.expect("an answer");
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {expected} ")),
                "{answer}"
            );
        }
        let uri = Uri::builder()
            .scheme("http")
            .authority("h")
            .path_and_query("*");
        let request = Request::options(uri.build().expect("a target"));
        let request = request
            .version(Version::HTTP_2)
            .body(())
            .expect("a request");
        let mut client = gateway.connect_h2().await;
        let (answer, _) = client.send_request(request, true).expect("sent");
        assert_eq!(answer.await.expect("an answer").status(), 204);
        assert_eq!(gateway.origin.gets(), 0);
        gateway.end().await;
    }
}

#[tokio::test]
async fn failures_of_the_origin() {
    let gateway = Gateway::start().await;
    let rows = [
        (OriginError::NotFound, 404, "max-age=5"),
        (OriginError::Forbidden, 403, "no-store"),
        (OriginError::NoSuchBucket, 502, "no-store"),
        (OriginError::Unavailable("secret"), 503, "no-store"),
        (OriginError::BadAnswer("secret"), 502, "no-store"),
        (
            OriginError::Throttled {
                retry_after: Some(Duration::from_secs(9)),
            },
            503,
            "no-store",
        ),
    ];
    for (index, (error, expected, cache)) in rows.into_iter().enumerate() {
        gateway.origin.set_faults([Fault::Refuse(error)]);
        let got = gateway.get(&format!("/missing{index}"), &[]).await;
        assert_eq!(status(&got), expected);
        assert_eq!(got.header("cache-control"), cache);
        assert_eq!(!got.header("retry-after").is_empty(), expected == 503);
        let text = String::from_utf8_lossy(got.bytes());
        assert!(text.len() < 60 && !text.contains("secret"), "{text}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn clients_directives() {
    let routes = vec![
        RouteSettings::default(),
        RouteSettings {
            path: "/fresh".into(),
            client_no_cache: true,
            ..RouteSettings::default()
        },
    ];
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway.origin.put("k", "bytes");
    let none = gateway
        .get("/k", &[("cache-control", "only-if-cached")])
        .await;
    assert_eq!((status(&none), gateway.origin.gets()), (504, 0));
    gateway.get("/k", &[]).await;
    let held = gateway
        .get("/k", &[("cache-control", "only-if-cached")])
        .await;
    assert_eq!((status(&held), gateway.origin.gets()), (200, 1));
    gateway.get("/k", &[("cache-control", "no-cache")]).await;
    assert_eq!(gateway.origin.gets(), 1, "not allowed here");
    let got = gateway
        .get("/fresh/k", &[("cache-control", "no-cache")])
        .await;
    assert_eq!((status(&got), gateway.origin.gets()), (200, 2));
    gateway.end().await;
}

/// A live playlist, which is replaced every few seconds; its segments stay.
#[tokio::test]
async fn a_replaced_object_that_says_no_cache_is_answered_at_once() {
    let gateway = Gateway::start().await;
    let live = [("cache-control", "no-cache")];
    gateway.origin.put("hls/1.ts", sample(5000));
    for n in 1..=3 {
        let playlist = format!("#EXTM3U\n{n}.ts\n");
        gateway
            .origin
            .put_with("hls/live.m3u8", playlist.clone(), &live);
        for _ in 0..2 {
            let got = gateway.get("/hls/live.m3u8", &[]).await;
            assert_eq!(status(&got), 200);
            assert_eq!(got.bytes()[..], *playlist.as_bytes());
            assert_eq!(got.header("cache-control"), "no-cache");
        }
        let before = gateway.origin.gets();
        let segment = gateway.get("/hls/1.ts", &[]).await;
        assert_eq!(segment.bytes()[..], sample(5000));
        assert_eq!(gateway.origin.gets() - before, u64::from(n == 1));
    }
    gateway.end().await;
}

#[tokio::test]
async fn age_and_staleness_are_told() {
    let gateway = Gateway::start().await;
    gateway.origin.put("k", "bytes");
    gateway.get("/k", &[]).await;
    gateway.later(Duration::from_secs(20));
    let got = gateway.get("/k", &[]).await;
    assert_eq!(got.header("age"), "20");
    assert_eq!(got.header("cache-status"), "tidegate; hit; ttl=40");
    let timed = gateway.get("/k", &[("tidegate-timing", "1")]).await;
    assert!(timed.header("server-timing").starts_with("open;dur="));
    assert_eq!(got.header("server-timing"), "", "only to who asks");
    gateway.end().await;
}

/// A lifetime that the route states begins at the answer, whatever the version's age (RFC 9111, 4.2.3).
#[tokio::test]
async fn an_own_lifetime_begins_at_the_answer() {
    let own = RouteSettings {
        path: "/own".into(),
        cache_control: Some("max-age=10".parse().expect("text")),
        ..RouteSettings::default()
    };
    let gateway = Gateway::with(vec![RouteSettings::default(), own], Settings::default()).await;
    let version = gateway.origin.put("k", "bytes");
    gateway.get("/k", &[]).await;
    gateway.later(Duration::from_secs(30));
    let known = ("if-none-match", version.etag.as_str());
    for (path, age) in [("/k", "30"), ("/own/k", "")] {
        for (header, expected) in [
            (("x", "y"), 200),
            (("range", "bytes=0-1"), 206),
            (known, 304),
        ] {
            let got = gateway.get(path, &[header]).await;
            assert_eq!(status(&got), expected, "{path} {header:?}");
            let result = got.header("cache-status");
            assert!(result.starts_with("tidegate; hit; "), "{path}: {result}");
            assert_eq!(got.header("age"), age, "{path} {header:?}");
        }
    }
    gateway.end().await;
}
