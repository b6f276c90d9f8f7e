//! `PURGE`, as the plugins of WordPress send it.

use http::Method;
use tidegate_http::{RouteSettings, Settings};
use tidegate_plan::Coding;

use crate::gateway::{Gateway, status};

type Headers<'a> = &'a [(&'a str, &'a str)];

const REGEX: (&str, &str) = ("x-purge-method", "regex");

fn settings() -> Settings {
    let network = |text: &str| text.parse().expect("a network");
    Settings {
        trusted_proxies: vec![network("127.0.0.1")],
        purge_networks: vec![network("127.0.0.1"), network("10.0.0.0/8")],
        ..Settings::default()
    }
}

fn routes() -> Vec<RouteSettings> {
    let uploads = RouteSettings {
        path: "/uploads/".into(),
        key_prefix: "up/".into(),
        precompressed: vec![Coding::Brotli],
        ..RouteSettings::default()
    };
    vec![uploads, RouteSettings::default()]
}

async fn purge(gateway: &Gateway, path: &str, headers: Headers<'_>) -> u16 {
    let method = Method::from_bytes(b"PURGE").expect("a method");
    status(&gateway.ask(method, path, headers).await)
}

async fn read(gateway: &Gateway, path: &str) -> String {
    let got = gateway.get(path, &[("accept-encoding", "br")]).await;
    String::from_utf8_lossy(got.bytes()).into_owned()
}

#[tokio::test]
async fn a_path_is_asked_for_anew_with_its_codings() {
    let gateway = Gateway::with(routes(), settings()).await;
    for key in ["up/a.js", "up/a.js.br", "up/b.js", "x"] {
        gateway.origin.put(key, "old");
    }
    let paths = ["/uploads/a.js", "/uploads/b.js", "/x"];
    for path in paths {
        assert_eq!(read(&gateway, path).await, "old");
    }
    for key in ["up/a.js", "up/a.js.br", "up/b.js", "x"] {
        gateway.origin.put(key, "new");
    }
    assert_eq!(purge(&gateway, "/uploads/a.js", &[]).await, 200);
    let mut found = Vec::new();
    for path in paths {
        found.push(read(&gateway, path).await);
    }
    assert_eq!(found, ["new", "old", "old"]);

    // All of the site, as Proxy Cache Purge wants it after a change of the theme.
    assert_eq!(purge(&gateway, "/.*", &[REGEX]).await, 200);
    for path in paths {
        assert_eq!(read(&gateway, path).await, "new", "{path}");
    }
    gateway.end().await;
}

#[tokio::test]
async fn a_prefix_ends_where_it_says() {
    let gateway = Gateway::with(routes(), settings()).await;
    let paths = ["/uploads/2026/a", "/uploads/2027/a", "/uploads2"];
    for (key, path) in ["up/2026/a", "up/2027/a", "uploads2"].iter().zip(paths) {
        gateway.origin.put(key, "old");
        assert_eq!(read(&gateway, path).await, "old");
        gateway.origin.put(key, "new");
    }
    assert_eq!(purge(&gateway, "/uploads/2026/.*", &[REGEX]).await, 200);
    let mut found = Vec::new();
    for path in paths {
        found.push(read(&gateway, path).await);
    }
    assert_eq!(found, ["new", "old", "old"]);
    gateway.end().await;
}

#[tokio::test]
async fn only_clients_that_are_known_purge() {
    let gateway = Gateway::with(routes(), settings()).await;
    gateway.origin.put("x", "old");
    assert_eq!(read(&gateway, "/x").await, "old");
    gateway.origin.put("x", "new");
    let long = format!("/{}", "x".repeat(8 << 10));
    let rows: [(&str, Headers<'_>, u16); 11] = [
        ("/x", &[("x-forwarded-for", "192.0.2.1")], 403),
        ("/x", &[("x-forwarded-for", "10.0.0.1, 192.0.2.1")], 403),
        ("/x", &[("x-forwarded-for", "unknown")], 403),
        ("/x", &[("via", "1.1 proxy")], 403),
        ("/.*", &[("x-forwarded-for", "192.0.2.1"), REGEX], 403),
        ("/../x", &[], 400),
        ("/.*/x", &[REGEX], 400),
        ("/(x|y)", &[REGEX], 400),
        ("/uploads/../x.*", &[REGEX], 400),
        (&long, &[("x-forwarded-for", "192.0.2.1")], 414),
        (&long, &[], 414),
    ];
    for (path, headers, expected) in rows {
        let found = purge(&gateway, path, headers).await;
        assert_eq!(found, expected, "{path} {headers:?}");
    }
    assert_eq!(read(&gateway, "/x").await, "old", "nothing was purged");
    let through_proxy = [("x-forwarded-for", "192.0.2.1, 10.1.2.3")];
    assert_eq!(purge(&gateway, "/x", &through_proxy).await, 200);
    assert_eq!(read(&gateway, "/x").await, "new");
    gateway.end().await;
}

#[tokio::test]
async fn behind_a_proxy_that_is_not_trusted_the_world_does_not_purge() {
    let settings = Settings {
        trusted_proxies: Vec::new(),
        ..settings()
    };
    let gateway = Gateway::with(routes(), settings).await;
    let behind = [("x-forwarded-for", "127.0.0.1")];
    assert_eq!(purge(&gateway, "/x", &behind).await, 403);
    assert_eq!(purge(&gateway, "/x", &[]).await, 200);
    gateway.end().await;
}

#[tokio::test]
async fn without_networks_it_is_no_method() {
    let gateway = Gateway::with(routes(), Settings::default()).await;
    assert_eq!(purge(&gateway, "/x", &[]).await, 405);
    gateway.end().await;
    let routes = vec![RouteSettings {
        path: "/only/".into(),
        ..RouteSettings::default()
    }];
    let gateway = Gateway::with(routes, settings()).await;
    assert_eq!(purge(&gateway, "/x", &[]).await, 404);
    assert_eq!(purge(&gateway, "/x.*", &[REGEX]).await, 404);
    gateway.end().await;
}

const TAGS: &str = "x-amz-meta-cache-tags";

#[tokio::test]
async fn a_tag_covers_the_objects_that_have_it() {
    let gateway = Gateway::with(routes(), settings()).await;
    let objects = [("up/a", "red front"), ("x", "blue,front"), ("y", "blue")];
    let paths = ["/uploads/a", "/x", "/y"];
    let put = |bytes: &'static str| {
        for (key, tags) in objects {
            gateway.origin.put_with(key, bytes, &[(TAGS, tags)]);
        }
    };
    let found = async || {
        let mut found = Vec::new();
        for path in paths {
            found.push(read(&gateway, path).await);
        }
        found
    };
    put("old");
    assert_eq!(found().await, ["old", "old", "old"]);
    put("new");
    for (headers, expected) in [
        ([("xkey", "other")], ["old", "old", "old"]),
        ([("surrogate-key", "red other")], ["new", "old", "old"]),
        ([("xkey-purge", "front")], ["new", "new", "old"]),
    ] {
        assert_eq!(purge(&gateway, "/", &headers).await, 200);
        assert_eq!(found().await, expected, "{headers:?}");
    }
    // The path does not count, nor what another header says of it.
    put("newest");
    let headers = [("xkey", "front"), ("x-purge-method", "regex")];
    assert_eq!(purge(&gateway, "/", &headers).await, 200);
    assert_eq!(found().await, ["newest", "newest", "old"]);
    for bad in ["\u{e4}", &"x".repeat(1025)] {
        assert_eq!(purge(&gateway, "/", &[("xkey", bad)]).await, 400);
    }
    assert_eq!(found().await, ["newest", "newest", "old"]);
    gateway.end().await;
}

#[tokio::test]
async fn a_soft_purge_serves_what_it_has_once_more() {
    let gateway = Gateway::with(routes(), settings()).await;
    let soft: [Headers<'_>; 3] = [
        &[("x-purge-method", "soft")],
        &[("fastly-soft-purge", "1")],
        &[("xkey-softpurge", "t")],
    ];
    for (number, headers) in soft.into_iter().enumerate() {
        let (key, path) = (format!("{number}"), format!("/{number}"));
        gateway.origin.put_with(&key, "old", &[(TAGS, "t")]);
        assert_eq!(read(&gateway, &path).await, "old");
        gateway.origin.put_with(&key, "new", &[(TAGS, "t")]);
        assert_eq!(purge(&gateway, &path, headers).await, 200);
        assert_eq!(read(&gateway, &path).await, "old", "{headers:?}");
        let mut tries = 0;
        while read(&gateway, &path).await == "old" {
            tries += 1;
            assert!(tries < 10_000, "{headers:?}: never confirmed");
            tokio::task::yield_now().await;
        }
    }
    gateway.end().await;
}
