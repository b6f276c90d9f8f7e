//! Hidden routes: what an access refuses is answered as where there is no route, whatever the method.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, StatusCode};
use http_body_util::Full;
use tidegate_access::Access;
use tidegate_access::limits::{LimitRules, Limits, Rate};
use tidegate_http::{Cors, RouteAccess, RouteLimits, RouteSettings, Settings};
use tidegate_plan::Token;

use super::{ALICE, route, rules};
use crate::gateway::{Gateway, LONG, status};
use crate::write::TOKEN;

const PAGE: &str = "https://a.example";

/// Returns a hidden route that is writable, and that pages of one site may read.
fn hidden() -> RouteSettings {
    RouteSettings {
        access: Some(RouteAccess {
            hide: true,
            ..RouteAccess::new(Access::new(rules()))
        }),
        write_token: Token::new("s3cret"),
        cors: Some(Cors {
            origins: vec![PAGE.into()],
            ..Cors::default()
        }),
        ..route("/private/", rules())
    }
}

/// Returns all of an answer but its date.
async fn answer(
    gateway: &Gateway,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> (StatusCode, HeaderMap, Vec<u8>) {
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let mut got = gateway
        .send_to(method, path, headers, Full::from("x"))
        .await;
    got.headers.remove("date");
    (got.status, got.headers.clone(), got.bytes().to_vec())
}

#[tokio::test]
async fn no_method_tells_that_there_is_a_route() {
    let gateway = Gateway::with(vec![hidden()], Settings::default()).await;
    gateway.origin.put("k", "bytes");
    let wrong = ("authorization", "Bearer wrong");
    let page = ("origin", PAGE);
    let foreign = ("origin", "https://evil.example");
    let asks = ("access-control-request-method", "GET");
    let rows = [
        ("OPTIONS", vec![]),
        ("OPTIONS", vec![page]),
        ("OPTIONS", vec![asks]),
        ("OPTIONS", vec![foreign, asks]),
        ("PUT", vec![]),
        ("PUT", vec![wrong]),
        ("PUT", vec![ALICE]),
        ("DELETE", vec![]),
        ("DELETE", vec![wrong]),
        ("POST", vec![]),
        ("POST", vec![wrong, page]),
        ("PATCH", vec![]),
    ];
    for (method, headers) in rows {
        let expected = answer(&gateway, method, "/nowhere/k", &headers).await;
        let found = answer(&gateway, method, "/private/k", &headers).await;
        assert_eq!(found, expected, "{method} {headers:?}");
    }
    let preflight = [page, asks];
    let got = gateway.ask(Method::OPTIONS, "/private/k", &preflight).await;
    assert_eq!(status(&got), 204);
    assert_eq!(got.header("access-control-allow-origin"), PAGE);
    let put = answer(&gateway, "PUT", "/private/k", &[TOKEN]).await;
    assert_eq!(put.0, 204, "the right token");
    gateway.end().await;
}

/// A wait would tell that there is a token to guess.
#[tokio::test]
async fn wrong_tokens_are_answered_at_once() {
    let gateway = Gateway::with(vec![hidden()], Settings::default()).await;
    let begun = Instant::now();
    for _ in 0..60 {
        let wrong = [("authorization", "Bearer wrong")];
        let (found, ..) = answer(&gateway, "PUT", "/private/k", &wrong).await;
        assert_eq!(found, 404);
    }
    // Elsewhere the last 54 of them alone wait for 8 s each.
    assert!(begun.elapsed() < LONG);
    gateway.end().await;
}

#[tokio::test]
async fn a_limit_is_felt_by_the_admitted_alone() {
    let rules = LimitRules {
        requests: Some(Rate {
            requests: NonZeroU32::MIN,
            time: Duration::from_secs(3600),
        }),
        burst: 2,
        ..LimitRules::default()
    };
    let limited = RouteSettings {
        limits: vec![RouteLimits(Arc::new(Limits::new(rules)))],
        ..hidden()
    };
    let gateway = Gateway::with(vec![limited], Settings::default()).await;
    gateway.origin.put("k", "bytes");
    let expected = answer(&gateway, "GET", "/nowhere/k", &[]).await;
    for _ in 0..4 {
        assert_eq!(answer(&gateway, "GET", "/private/k", &[]).await, expected);
    }
    for expected in [200, 200, 429] {
        let got = gateway.get("/private/k", &[ALICE]).await;
        assert_eq!(status(&got), expected);
    }
    assert_eq!(answer(&gateway, "GET", "/private/k", &[]).await, expected);
    gateway.end().await;
}
