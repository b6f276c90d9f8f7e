//! Answers that differ by route and by client: headers, CORS, compression.

use http::header::VARY;
use http::{HeaderValue, Method};
use tidegate_http::{Cors, RouteSettings, Settings};
use tidegate_plan::Coding;

use crate::gateway::{Gateway, sample, status};

#[tokio::test]
async fn routes_decide_about_keys_and_headers() {
    let routes = vec![RouteSettings {
        path: "/wp-content/uploads".into(),
        key_prefix: "site/".into(),
        cache_control: Some("public, max-age=86400".parse().expect("text")),
        headers: vec![(
            "x-served-by".parse().expect("a name"),
            "t".parse().expect("text"),
        )],
        index: Some("index.html".into()),
        ..RouteSettings::default()
    }];
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway
        .origin
        .put_with("site/2024/a.jpg", "jpeg", &[("cache-control", "max-age=1")]);
    gateway.origin.put("site/2024/index.html", "index");

    let got = gateway.get("/wp-content/uploads/2024/a.jpg", &[]).await;
    assert_eq!(got.bytes(), "jpeg");
    assert_eq!(got.header("cache-control"), "public, max-age=86400");
    assert_eq!(got.header("x-served-by"), "t");
    assert_eq!(
        gateway.get("/wp-content/uploads/2024/", &[]).await.bytes(),
        "index"
    );

    gateway.end().await;
}

#[tokio::test]
async fn scripts_of_other_sites() {
    let routes = vec![RouteSettings {
        host: Some("books.example".into()),
        cors: Some(Cors {
            origins: vec!["https://player.example".into()],
            ..Cors::default()
        }),
        ..RouteSettings::default()
    }];
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway.origin.put("b.m4b", "book");
    assert_eq!(
        status(&gateway.get("/b.m4b", &[]).await),
        404,
        "not on this host"
    );
    let host = ("host", "Books.Example:8080");
    let player = ("origin", "https://player.example");
    let got = gateway.get("/b.m4b", &[host, player]).await;
    assert_eq!(got.bytes(), "book");
    assert_eq!(
        got.header("access-control-allow-origin"),
        "https://player.example"
    );
    assert_eq!(
        got.header("access-control-expose-headers"),
        "Content-Range, ETag, Accept-Ranges"
    );
    assert_eq!(got.header("vary"), "Origin");
    let stranger = gateway
        .get("/b.m4b", &[host, ("origin", "https://x.example")])
        .await;
    assert_eq!(stranger.header("access-control-allow-origin"), "");
    let preflight = [host, player, ("access-control-request-method", "GET")];
    let got = gateway.ask(Method::OPTIONS, "/b.m4b", &preflight).await;
    assert_eq!(status(&got), 204);
    assert_eq!(
        got.header("access-control-allow-methods"),
        "GET, HEAD, OPTIONS"
    );
    assert_eq!(got.header("access-control-max-age"), "86400");
    let missing = gateway.get("/none", &[host, player]).await;
    assert_eq!(
        missing.header("access-control-allow-origin"),
        "https://player.example"
    );
    gateway.end().await;
}

#[tokio::test]
async fn text_is_compressed_and_media_is_not() {
    let gateway = Gateway::start().await;
    let text = "body { color: red }\n".repeat(1000);
    let css = [("content-type", "text/css")];
    let version = gateway.origin.put_with("s.css", text.clone(), &css);
    gateway.origin.put("i.png", sample(20_000));
    let gzip = ("accept-encoding", "gzip");

    let plain = gateway.get("/s.css", &[]).await;
    assert_eq!(plain.header("vary"), "Accept-Encoding");
    assert_eq!(plain.header("etag"), version.etag.as_str());
    assert_eq!(plain.header("content-length"), text.len().to_string());

    let small = gateway.get("/s.css", &[gzip]).await;
    let weak = format!("W/{}-gzip\"", version.etag.as_str().trim_end_matches('"'));
    assert_eq!(
        small.header("content-length"),
        small.bytes().len().to_string()
    );
    assert_eq!(small.header("content-encoding"), "gzip");
    assert_eq!(small.header("vary"), "Accept-Encoding");
    assert_eq!(small.header("etag"), weak);
    assert_eq!(small.header("accept-ranges"), "");
    assert!(small.bytes().len() < text.len() / 10);
    assert_eq!(small.bytes()[..2], [0x1f, 0x8b]);
    let br = gateway
        .get("/s.css", &[("accept-encoding", "br, gzip")])
        .await;
    assert_eq!(br.header("content-encoding"), "br");

    let known = gateway
        .get("/s.css", &[gzip, ("if-none-match", &weak)])
        .await;
    assert_eq!((status(&known), known.header("etag")), (304, weak.clone()));
    assert_eq!(known.header("vary"), "Accept-Encoding");
    let part = gateway.get("/s.css", &[gzip, ("range", "bytes=0-9")]).await;
    assert_eq!(
        (status(&part), part.header("content-encoding")),
        (206, String::new())
    );
    assert_eq!(part.bytes(), &text.as_bytes()[..10]);
    let mixed = gateway
        .get("/s.css", &[("range", "bytes=0-9"), ("if-range", &weak)])
        .await;
    assert_eq!(status(&mixed), 200, "a weak tag names no bytes");

    let image = gateway.get("/i.png", &[gzip]).await;
    assert_eq!(image.header("content-encoding"), "");
    assert_eq!(image.header("vary"), "");
    gateway.end().await;
}

/// nginx before 1.23 keeps the last line of several alone.
#[tokio::test]
async fn what_an_answer_varies_by_is_one_line() {
    let route = |path: &str, vary: Option<&'static str>| RouteSettings {
        path: path.into(),
        cors: Some(Cors {
            origins: vec!["https://a.example".into()],
            ..Cors::default()
        }),
        headers: vary
            .map(|value| (VARY, HeaderValue::from_static(value)))
            .into_iter()
            .collect(),
        precompressed: vec![Coding::Brotli],
        ..RouteSettings::default()
    };
    let routes = vec![
        route("/", None),
        route("/own", Some("Cookie, origin")),
        route("/all", Some("*")),
    ];
    let gateway = Gateway::with(routes, Settings::default()).await;
    let css = [("content-type", "text/css")];
    let version = gateway.origin.put_with("s.css", sample(2000), &css);
    gateway.origin.put_with("b.css", sample(2000), &css);
    gateway.origin.put_with("b.css.br", "sibling", &css);
    for (path, expected) in [
        ("", "Accept-Encoding, Origin"),
        ("/own", "Cookie, origin, Accept-Encoding"),
        ("/all", "*"),
    ] {
        let plain = format!("{path}/s.css");
        let rows = [
            (&*plain, ("x", "y"), 200),
            (&plain, ("accept-encoding", "gzip"), 200),
            (&plain, ("range", "bytes=0-9"), 206),
            (&plain, ("if-none-match", version.etag.as_str()), 304),
            (&format!("{path}/b.css"), ("accept-encoding", "br"), 200),
        ];
        for (path, header, expected_status) in rows {
            let got = gateway.get(path, &[header]).await;
            assert_eq!(status(&got), expected_status, "{path} {header:?}");
            let lines: Vec<_> = got.headers.get_all(VARY).iter().collect();
            assert_eq!(lines.len(), 1, "{path} {header:?}: {lines:?}");
            let sorted = |text: &str| {
                let mut names: Vec<_> = text.split(", ").map(str::to_owned).collect();
                names.sort();
                names
            };
            let found = got.header("vary");
            assert_eq!(sorted(&found), sorted(expected), "{path} {header:?}");
        }
    }
    let sibling = gateway.get("/b.css", &[("accept-encoding", "br")]).await;
    assert_eq!(sibling.bytes(), "sibling");
    gateway.end().await;
}
