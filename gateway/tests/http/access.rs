//! Routes that admit only some requests: what is refused asks nothing, and what is admitted is private.

use std::time::Duration;

use http::Method;
use tidegate_access::{Access, NamedToken, Referers, Rules, SigningKey};
use tidegate_http::{Cors, RouteAccess, RouteSettings, Settings};
use tidegate_plan::{Timestamp, Token};

use crate::gateway::{Gateway, status};
use crate::write::TOKEN;

mod addresses;
mod hidden;
mod presigned;
mod route_headers;
mod servers;
mod spellings;

/// The gateway's time at the start, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

const ALICE: (&str, &str) = ("authorization", "Bearer token-of-alice");

type Headers<'a> = &'a [(&'a str, &'a str)];

fn key() -> SigningKey {
    SigningKey::new("k1", "the secret of k1").expect("a key")
}

/// Returns rules that admit a network, a token until 100 s from the start, and signatures.
fn rules() -> Rules {
    Rules {
        networks: vec!["10.0.0.0/8".parse().expect("a network")],
        tokens: vec![NamedToken {
            name: "alice".into(),
            token: Token::new("token-of-alice").expect("a token"),
            expires: Some(Timestamp((NOW + 100) * 1000)),
        }],
        clients: Vec::new(),
        keys: vec![key()],
        skew: Duration::from_secs(10),
        ..Rules::default()
    }
}

fn route(path: &str, rules: Rules) -> RouteSettings {
    RouteSettings {
        path: path.into(),
        access: Some(RouteAccess::new(Access::new(rules))),
        ..RouteSettings::default()
    }
}

/// Returns the settings of a gateway whose clients are named by the test.
fn behind_proxy() -> Settings {
    Settings {
        trusted_proxies: vec!["127.0.0.1".parse().expect("a network")],
        ..Settings::default()
    }
}

/// Starts a gateway with a private route, and an object `book/1.ts` in its bucket.
async fn private(rules: Rules) -> Gateway {
    let gateway = Gateway::with(vec![route("/private/", rules)], behind_proxy()).await;
    gateway.origin.put("book/1.ts", "one");
    gateway
}

fn asked(gateway: &Gateway) -> u64 {
    gateway.origin.gets() + gateway.origin.heads() + gateway.origin.lists()
}

fn refused(gateway: &Gateway, reason: &str) -> u64 {
    let sample = format!("http_access_refused_total{{reason=\"{reason}\"}}");
    gateway.counted(&sample)
}

#[tokio::test]
async fn what_is_refused_asks_nothing_and_says_why() {
    let gateway = private(rules()).await;
    let late = key().sign_prefix("/private/", NOW - 11);
    let other = key().sign_prefix("/private/films/", NOW + 100);
    let path = "/private/book/1.ts";
    let rows: [(&str, Headers<'_>, &str); 6] = [
        ("", &[], "missing"),
        ("", &[("authorization", "Bearer token-of-bob")], "token"),
        (&format!("?{late}"), &[], "expired"),
        (&format!("?{other}"), &[], "prefix"),
        (&format!("?{}", other.replace("k1", "k2")), &[], "key"),
        ("?X-Amz-Signature=0", &[], "signature"),
    ];
    for (query, headers, reason) in rows {
        for method in [Method::GET, Method::HEAD] {
            let before = refused(&gateway, reason);
            let got = gateway
                .ask(method, &format!("{path}{query}"), headers)
                .await;
            assert_eq!(status(&got), 401, "{reason}");
            let detail = format!("tidegate; detail=access-{reason}");
            assert_eq!(got.header("cache-status"), detail);
            let offered = "Bearer realm=\"tidegate\", Basic realm=\"tidegate\"";
            assert_eq!(got.header("www-authenticate"), offered);
            assert_eq!(got.header("cache-control"), "no-store");
            assert_eq!(refused(&gateway, reason), before + 1);
        }
    }
    assert_eq!((asked(&gateway), gateway.lookups()), (0, 0));
    // An object in the cache is refused as one that is not.
    assert_eq!(status(&gateway.get(path, &[ALICE]).await), 200);
    let lookups = gateway.lookups();
    assert!(lookups >= 2, "its metadata and its chunk");
    assert_eq!(status(&gateway.get(path, &[]).await), 401);
    assert_eq!(gateway.lookups(), lookups);
    gateway.later(Duration::from_secs(100));
    let got = gateway.get(path, &[ALICE]).await;
    assert_eq!(
        got.header("cache-status"),
        "tidegate; detail=access-expired"
    );
    assert_eq!((asked(&gateway), gateway.lookups()), (1, lookups));
    gateway.end().await;
}

#[tokio::test]
async fn a_proxy_that_is_not_trusted_lends_no_client_its_address() {
    let loopback = Rules {
        networks: vec!["127.0.0.0/8".parse().expect("a network")],
        ..Rules::default()
    };
    let routes = vec![route("/private/", loopback)];
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway.origin.put("k", "bytes");
    assert_eq!(status(&gateway.get("/private/k", &[]).await), 200);
    for named in ["192.0.2.1", "127.0.0.1", "unknown", ""] {
        let got = gateway
            .get("/private/k", &[("x-forwarded-for", named)])
            .await;
        assert_eq!(
            got.header("cache-status"),
            "tidegate; detail=access-missing"
        );
    }
    gateway.end().await;
}

#[tokio::test]
async fn each_way_in_leads_to_the_same_cached_object() {
    let gateway = private(rules()).await;
    let folder = key().sign_prefix("/private/book/", NOW + 100);
    let single = key().sign_prefix("/private/book/1.ts", NOW + 100);
    let cookie = format!("a=b; tidegate={folder}");
    let path = "/private/book/1.ts";
    let basic = "Basic eDp0b2tlbi1vZi1hbGljZQ==";
    let rows: [(&str, Headers<'_>); 7] = [
        (path, &[ALICE]),
        (path, &[("authorization", basic)]),
        (path, &[("x-forwarded-for", "10.1.2.3")]),
        (path, &[("cookie", &cookie)]),
        (&format!("{path}?{single}"), &[]),
        (
            &format!("{path}?{}", key().sign_prefix("/private/", u64::MAX)),
            &[],
        ),
        (&format!("/private/{folder}/book/1.ts"), &[]),
    ];
    for (path, headers) in rows {
        let got = gateway.get(path, headers).await;
        assert_eq!((status(&got), &**got.bytes()), (200, &b"one"[..]), "{path}");
        assert_eq!(got.header("cache-control"), "private");
        let head = gateway.ask(Method::HEAD, path, headers).await;
        assert_eq!(
            (status(&head), head.header("content-length")),
            (200, "3".into())
        );
    }
    assert_eq!(gateway.origin.gets(), 1, "one key");
    let outside = [("x-forwarded-for", "192.0.2.1")];
    assert_eq!(status(&gateway.get(path, &outside).await), 401);
    gateway.end().await;
}

/// A player resolves the names in a playlist against its URL (RFC 8216, 4.1), and drops the query.
#[tokio::test]
async fn a_folder_is_opened_by_one_link() {
    let gateway = private(rules()).await;
    gateway
        .origin
        .put("book/list.m3u8", "#EXTM3U\n1.ts\n../art/a.jpg\n");
    gateway.origin.put("art/a.jpg", "picture");
    let link = format!(
        "/private/{}/book/list.m3u8",
        key().sign_prefix("/private/book/", NOW + 100)
    );
    let playlist = gateway.get(&link, &[]).await;
    assert_eq!(status(&playlist), 200);
    let (folder, _) = link.rsplit_once('/').expect("a folder");
    let first = gateway.get(&format!("{folder}/1.ts"), &[]).await;
    assert_eq!(first.bytes(), "one");
    let parent = folder.rsplit_once('/').expect("a folder").0;
    let other = gateway.get(&format!("{parent}/art/a.jpg"), &[]).await;
    assert_eq!(
        other.header("cache-status"),
        "tidegate; detail=access-prefix"
    );
    for dots in ["../art/a.jpg", "%2e%2e/art/a.jpg", "..%2fart/a.jpg"] {
        let got = gateway.get(&format!("{folder}/{dots}"), &[]).await;
        assert_eq!(status(&got), 400, "{dots}");
    }
    gateway.later(Duration::from_secs(110));
    assert_eq!(status(&gateway.get(&link, &[]).await), 401);
    gateway.end().await;
}

#[tokio::test]
async fn a_hidden_route_answers_as_no_route() {
    let mut hidden = route("/private/", rules());
    hidden.cors = Some(Cors::default());
    if let Some(access) = &mut hidden.access {
        access.hide = true;
    }
    let gateway = Gateway::with(vec![hidden], Settings::default()).await;
    gateway.origin.put("k", "bytes");
    assert_eq!(status(&gateway.get("/private/k", &[ALICE]).await), 200);
    let nowhere = gateway.get("/nowhere/k", &[]).await;
    let mut expected = nowhere.headers.clone();
    expected.remove("date");
    for (path, headers) in [
        ("/private/k", vec![]),
        ("/private/none", vec![]),
        (
            "/private/k",
            vec![
                ("authorization", "Bearer wrong"),
                ("origin", "https://a.example"),
            ],
        ),
    ] {
        let mut got = gateway.get(path, &headers).await;
        got.headers.remove("date");
        assert_eq!((status(&got), &got.headers), (404, &expected));
        assert_eq!(got.bytes(), nowhere.bytes());
    }
    gateway.end().await;
}

#[tokio::test]
async fn referers_hold_beside_a_way_in_and_alone() {
    let only = |rules: Rules| Rules {
        referers: Some(Referers::new(["example.org", "none"]).expect("rules")),
        ..rules
    };
    let routes = vec![
        route("/private/", only(rules())),
        route("/public/", only(Rules::default())),
    ];
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway.origin.put("k", "bytes");
    let (page, foreign) = (
        ("referer", "https://example.org/a"),
        ("referer", "https://evil.example/"),
    );
    for (path, headers, expected) in [
        ("/public/k", vec![], 200),
        ("/public/k", vec![page], 200),
        ("/public/k", vec![foreign], 403),
        ("/public/k", vec![("sec-fetch-site", "cross-site")], 403),
        (
            "/public/k",
            vec![foreign, ("sec-fetch-site", "same-site")],
            200,
        ),
        ("/private/k", vec![page], 401),
        ("/private/k", vec![page, ALICE], 200),
        ("/private/k", vec![foreign, ALICE], 403),
    ] {
        let got = gateway.get(path, &headers).await;
        assert_eq!(status(&got), expected, "{path} {headers:?}");
        if expected == 403 {
            assert_eq!(
                got.header("cache-status"),
                "tidegate; detail=access-referer"
            );
            assert_eq!(got.header("www-authenticate"), "");
        }
    }
    gateway.end().await;
}

#[tokio::test]
async fn a_signature_leads_past_no_other_route() {
    let inner = SigningKey::new("k2", "the secret of k2").expect("a key");
    let routes = vec![
        route("/private/", rules()),
        route(
            "/private/films/",
            Rules {
                keys: vec![inner],
                ..Rules::default()
            },
        ),
    ];
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway.origin.put("films/f", "outer");
    gateway.origin.put("f", "inner");
    let all = key().sign_prefix("/private/", NOW + 100);
    for path in [
        format!("/private/{all}/films/f"),
        format!("/private/{all}/%66ilms/f"),
        format!("/private/films/{all}/f"),
        format!("/private/films/f?{all}"),
    ] {
        assert!(
            [401, 403].contains(&status(&gateway.get(&path, &[]).await)),
            "{path}"
        );
    }
    assert_eq!(asked(&gateway), 0);
    let inner = SigningKey::new("k2", "the secret of k2").expect("a key");
    let own = inner.sign_prefix("/private/films/", NOW + 100);
    let got = gateway.get(&format!("/private/films/{own}/f"), &[]).await;
    assert_eq!(got.bytes(), "inner");
    gateway.end().await;
}

#[tokio::test]
async fn answers_are_private_unless_the_route_says_otherwise() {
    let open = RouteSettings {
        path: "/open/".into(),
        ..RouteSettings::default()
    };
    let told = RouteSettings {
        cache_control: Some("public, max-age=9".parse().expect("a value")),
        ..route("/told/", rules())
    };
    let lasting = RouteSettings {
        cache_control: Some("max-age=9, must-revalidate".parse().expect("a value")),
        ..route("/lasting/", rules())
    };
    let routes = vec![open, told, lasting, route("/private/", rules())];
    let gateway = Gateway::with(routes, Settings::default()).await;
    let headers = [("cache-control", "public, max-age=60")];
    let tag = gateway
        .origin
        .put_with("k", "bytes", &headers)
        .etag
        .as_str()
        .to_owned();
    for (path, control) in [
        ("/private/k", "private, max-age=60"),
        ("/told/k", "public, max-age=9"),
        ("/lasting/k", "private, max-age=9, must-revalidate"),
        ("/open/k", "public, max-age=60"),
    ] {
        let same = ("if-none-match", tag.as_str());
        for (headers, expected) in [
            (vec![ALICE], 200),
            (vec![ALICE, ("range", "bytes=0-0")], 206),
            (vec![ALICE, same], 304),
        ] {
            let got = gateway.get(path, &headers).await;
            let found = (status(&got), got.header("cache-control"));
            assert_eq!(found, (expected, control.to_owned()), "{path}");
        }
    }
    let missing = gateway.get("/private/none", &[ALICE]).await;
    let found = (status(&missing), missing.header("cache-control"));
    assert_eq!(found, (404, "private, max-age=5".to_owned()));
    gateway.end().await;
}

#[tokio::test]
async fn an_access_is_for_reading_and_preflights_pass() {
    let writable = RouteSettings {
        write_token: Token::new("s3cret"),
        cors: Some(Cors::default()),
        ..route("/private/", rules())
    };
    let gateway = Gateway::with(vec![writable], Settings::default()).await;
    let preflight = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
    ];
    let got = gateway.ask(Method::OPTIONS, "/private/k", &preflight).await;
    assert_eq!(status(&got), 204);
    assert!(
        got.header("access-control-allow-headers")
            .ends_with(", Authorization")
    );
    let put = |token| {
        gateway.send_to(
            Method::PUT,
            "/private/k",
            token,
            http_body_util::Full::from("x"),
        )
    };
    assert_eq!(status(&put(&[ALICE]).await), 401);
    assert_eq!(status(&put(&[TOKEN]).await), 201);
    assert_eq!(status(&gateway.get("/private/k", &[TOKEN]).await), 401);
    let refused = gateway
        .get("/private/k", &[("origin", "https://a.example")])
        .await;
    assert_eq!(refused.header("access-control-allow-origin"), "*");
    assert_eq!(status(&gateway.get("/private/k", &[ALICE]).await), 200);
    gateway.end().await;
}
