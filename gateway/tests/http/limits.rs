//! The limits of a route: what is refused, and what waits.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use tidegate_access::limits::{LimitRules, LimitScope, Limits, Rate};
use tidegate_access::{Access, Rules, SigningKey};
use tidegate_http::{RouteAccess, RouteLimits, RouteSettings, Settings};
use tidegate_plan::Token;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::gateway::{Gateway, LONG, sample, status};
use crate::write::TOKEN;

/// Starts a gateway whose only route has these limits and access, and whose clients are named by the test.
async fn limited(rules: LimitRules, access: Option<RouteAccess>) -> Gateway {
    limited_by([rules], access).await
}

/// Does the same with several limits.
async fn limited_by<const N: usize>(all: [LimitRules; N], access: Option<RouteAccess>) -> Gateway {
    let route = RouteSettings {
        limits: all
            .map(|rules| RouteLimits(Arc::new(Limits::new(rules))))
            .into(),
        access,
        write_token: Token::new("s3cret"),
        ..RouteSettings::default()
    };
    let settings = Settings {
        trusted_proxies: vec!["127.0.0.1".parse().expect("a network")],
        ..Settings::default()
    };
    let gateway = Gateway::with(vec![route], settings).await;
    gateway.origin.put("k", sample(50_000));
    gateway
}

/// A burst of two, and then one request in an hour.
fn rare(per: LimitScope) -> LimitRules {
    LimitRules {
        requests: Some(Rate {
            requests: NonZeroU32::MIN,
            time: Duration::from_secs(3600),
        }),
        burst: 2,
        per,
        ..LimitRules::default()
    }
}

fn from(address: &str) -> (&str, &str) {
    ("x-forwarded-for", address)
}

#[tokio::test]
async fn too_many_requests_of_an_address_are_told_when_to_come_again() {
    let gateway = limited(rare(LimitScope::Address), None).await;
    gateway.origin.put("small", "bytes");
    let one = from("2001:db8::1");
    assert_eq!(status(&gateway.get("/small", &[one]).await), 200);
    let head = gateway.ask(Method::HEAD, "/small", &[one]).await;
    assert_eq!(status(&head), 200);
    let asked = (gateway.origin.gets(), gateway.lookups());
    assert!(asked.1 > 0, "the cache was asked for the object");
    let rows = [
        (Method::GET, "/none"),
        (Method::HEAD, "/none"),
        (Method::GET, "/small"),
        (Method::HEAD, "/small"),
    ];
    for (method, path) in rows {
        // A neighbour in the same network of 64 bits.
        let got = gateway.ask(method, path, &[from("2001:db8::2")]).await;
        assert_eq!(status(&got), 429);
        assert_eq!(
            got.header("cache-status"),
            "tidegate; detail=limit-requests"
        );
        let after: u64 = got.header("retry-after").parse().expect("seconds");
        assert!((3000..=3600).contains(&after), "{after}");
    }
    assert_eq!((gateway.origin.gets(), gateway.lookups()), asked);
    let refused = "http_limited_total{limit=\"requests\"}";
    assert_eq!(gateway.counted(refused), 4);
    assert_eq!(status(&gateway.get("/k", &[from("192.0.2.1")]).await), 200);
    // Writing has a token, and is not limited here.
    let delete = gateway.ask(Method::DELETE, "/k", &[one, TOKEN]).await;
    assert_eq!(status(&delete), 204);
    gateway.end().await;
}

#[tokio::test]
async fn limits_count_by_key_or_for_all() {
    let key = |id: &str| SigningKey::new(id, "a secret of sixteen").expect("a key");
    let access = || {
        RouteAccess::new(Access::new(Rules {
            keys: vec![key("k1"), key("k2")],
            ..Rules::default()
        }))
    };
    let link = |id: &str| format!("/k?{}", key(id).sign_prefix("/k", u64::MAX));
    let by_key = limited(rare(LimitScope::Key), Some(access())).await;
    for (id, address, expected) in [
        ("k1", "192.0.2.1", 200),
        ("k1", "192.0.2.2", 200),
        ("k1", "192.0.2.3", 429),
        ("k2", "192.0.2.3", 200),
    ] {
        let got = by_key.get(&link(id), &[from(address)]).await;
        assert_eq!(status(&got), expected, "{id} {address}");
    }
    // A request without a key uses up the limits of none.
    assert_eq!(status(&by_key.get("/k", &[]).await), 403);
    by_key.end().await;
    let all = limited(rare(LimitScope::Route), Some(access())).await;
    for (address, expected) in [("192.0.2.1", 403), ("192.0.2.2", 403), ("192.0.2.3", 429)] {
        assert_eq!(status(&all.get("/k", &[from(address)]).await), expected);
    }
    all.end().await;
}

#[tokio::test]
async fn an_answer_under_way_holds_a_place() {
    let rules = LimitRules {
        connections: Some(NonZeroU32::MIN),
        ..LimitRules::default()
    };
    let gateway = limited(rules, None).await;
    // Larger than what the kernel buffers for a client that does not read.
    gateway.origin.put("large", sample(24 << 20));
    let mut slow = gateway.connect().await;
    let head = b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n";
    slow.write_all(head).await.expect("sent");
    let mut first = [0; 64];
    slow.read_exact(&mut first).await.expect("an answer");
    let refused = "http_limited_total{limit=\"connections\"}";
    assert_eq!(gateway.counted(refused), 0);
    let got = gateway.get("/k", &[]).await;
    assert_eq!((status(&got), got.header("retry-after")), (429, "2".into()));
    assert_eq!(
        got.header("cache-status"),
        "tidegate; detail=limit-connections"
    );
    assert_eq!(gateway.counted(refused), 1);
    assert_eq!(status(&gateway.get("/k", &[from("192.0.2.1")]).await), 200);
    drop(slow);
    let begun = Instant::now();
    while status(&gateway.get("/k", &[]).await) != 200 {
        assert!(begun.elapsed() < LONG, "the place is given back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gateway.end().await;
}

#[tokio::test]
async fn bytes_wait_and_arrive_whole() {
    let rules = LimitRules {
        bytes: NonZeroU64::new(100_000),
        ..LimitRules::default()
    };
    let gateway = limited(rules, None).await;
    let whole = sample(50_000);
    let begun = Instant::now();
    // One second's bytes go at once; the third object waits for half a second of its own.
    for _ in 0..4 {
        assert_eq!(gateway.get("/k", &[]).await.bytes(), &whole);
    }
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(800), "{took:?}");
    gateway.end().await;
}

/// One client has used up its bytes for hours.
#[tokio::test]
async fn bytes_of_one_client_are_waited_for_by_no_other_and_by_no_head() {
    let rules = LimitRules {
        bytes: NonZeroU64::new(10),
        ..LimitRules::default()
    };
    let gateway = limited(rules, None).await;
    let whole = sample(50_000);
    let ranged = [("range", "bytes=10-19"), from("192.0.2.1")];
    let others = async {
        assert_eq!(gateway.get("/k", &ranged).await.bytes(), &whole[10..20]);
        let head = gateway.ask(Method::HEAD, "/k", &[]).await;
        assert_eq!(head.header("content-length"), "50000");
    };
    let mut waiting = gateway.connect().await;
    let head = b"GET /k HTTP/1.1\r\nhost: a\r\n\r\n";
    waiting.write_all(head).await.expect("sent");
    waiting.read_exact(&mut [0; 64]).await.expect("an answer");
    let mut rest = Vec::new();
    tokio::select! {
        biased;
        () = others => {}
        ended = waiting.read_to_end(&mut rest) => panic!("{ended:?}: it is to wait"),
    }
    drop(waiting);
    gateway.end().await;
}

/// Requests by address, bytes and answers under way by route, and requests by key hold at the same time.
#[tokio::test]
async fn limits_of_several_kinds_hold_together() {
    let key = |id: &str| SigningKey::new(id, "a secret of sixteen").expect("a key");
    let access = RouteAccess::new(Access::new(Rules {
        keys: ["k1", "k2", "k3"].map(key).into(),
        ..Rules::default()
    }));
    let of_route = LimitRules {
        bytes: NonZeroU64::new(100_000),
        connections: NonZeroU32::new(1),
        per: LimitScope::Route,
        ..LimitRules::default()
    };
    let all = [rare(LimitScope::Address), of_route, rare(LimitScope::Key)];
    let gateway = limited_by(all, Some(access)).await;
    let link = |id: &str| format!("/k?{}", key(id).sign_prefix("/k", u64::MAX));
    let whole = sample(50_000);
    let begun = Instant::now();
    for (id, address, expected) in [
        ("k1", "192.0.2.1", 200),
        ("k1", "192.0.2.2", 200),
        ("k1", "192.0.2.3", 429),
        ("k2", "192.0.2.1", 200),
        ("k2", "192.0.2.1", 429),
        ("k2", "192.0.2.4", 200),
    ] {
        let got = gateway.get(&link(id), &[from(address)]).await;
        assert_eq!(status(&got), expected, "{id} {address}");
        if expected == 200 {
            assert_eq!(got.bytes(), &whole);
        }
    }
    // 200,000 bytes for all clients together: one second's worth at once, and the rest in its time.
    assert!(begun.elapsed() >= Duration::from_millis(900));

    gateway.origin.put("large", sample(24 << 20));
    let mut slow = gateway.connect().await;
    let large = format!("/large?{}", key("k3").sign_prefix("/large", u64::MAX));
    let head = format!("GET {large} HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.5\r\n\r\n");
    slow.write_all(head.as_bytes()).await.expect("sent");
    slow.read_exact(&mut [0; 64]).await.expect("an answer");
    let got = gateway.get(&link("k3"), &[from("192.0.2.6")]).await;
    let detail = got.header("cache-status");
    assert_eq!(detail, "tidegate; detail=limit-connections");
    drop(slow);
    gateway.end().await;
}
