//! The headers of a private route: its objects carry them, and no refusal does.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, VARY};
use http::{HeaderValue, Method};
use tidegate_access::limits::{LimitRules, Limits, Rate};
use tidegate_access::{Access, Rules};
use tidegate_http::{RouteAccess, RouteLimits, RouteSettings, Settings};

use super::{ALICE, Headers, route, rules};
use crate::gateway::{Gateway, status};

const OWN: HeaderName = HeaderName::from_static("x-robots-tag");

/// Returns a route with headers of its own.
fn with_headers(route: RouteSettings) -> RouteSettings {
    let own = (OWN, HeaderValue::from_static("noindex"));
    let vary = (VARY, HeaderValue::from_static("X-Device"));
    RouteSettings {
        headers: vec![own, vary],
        ..route
    }
}

/// Returns limits that admit one request.
fn once() -> Vec<RouteLimits> {
    let rules = LimitRules {
        requests: Some(Rate {
            requests: NonZeroU32::MIN,
            time: Duration::from_secs(3600),
        }),
        burst: 1,
        ..LimitRules::default()
    };
    vec![RouteLimits(Arc::new(Limits::new(rules)))]
}

#[tokio::test]
async fn an_answer_with_the_object_has_the_routes_headers_and_a_refusal_none() {
    let hidden = RouteAccess {
        hide: true,
        ..RouteAccess::new(Access::new(rules()))
    };
    let routes = vec![
        route("/private/", rules()),
        // No token could help here: 403.
        route(
            "/inside/",
            Rules {
                tokens: vec![],
                ..rules()
            },
        ),
        RouteSettings {
            access: Some(hidden),
            ..route("/hidden/", rules())
        },
        RouteSettings {
            limits: once(),
            ..route("/limited/", rules())
        },
    ];
    let routes = routes.into_iter().map(with_headers).collect();
    let gateway = Gateway::with(routes, Settings::default()).await;
    gateway.origin.put("k", "bytes");
    let tag = gateway.get("/private/k", &[ALICE]).await.header("etag");
    let rows: [(&str, Headers<'_>, u16); 12] = [
        ("/private/k", &[ALICE], 200),
        ("/private/k", &[ALICE, ("range", "bytes=1-2")], 206),
        ("/private/k", &[ALICE, ("if-none-match", &tag)], 304),
        ("/private/k", &[], 401),
        ("/inside/k", &[], 403),
        ("/hidden/k", &[], 404),
        ("/private/none", &[ALICE], 404),
        ("/private/k", &[ALICE, ("if-match", "\"other\"")], 412),
        ("/private/k", &[ALICE, ("range", "bytes=9-")], 416),
        ("/limited/k", &[], 401),
        ("/limited/k", &[ALICE], 429),
        ("/limited/k", &[], 429),
    ];
    for method in [Method::GET, Method::HEAD] {
        for (path, headers, expected) in rows {
            let ranged = headers.iter().any(|(name, _)| *name == "range");
            if method == Method::HEAD && (ranged || path.starts_with("/limited")) {
                continue;
            }
            let got = gateway.ask(method.clone(), path, headers).await;
            assert_eq!(status(&got), expected, "{path}");
            let (own, vary) = match expected {
                200 | 206 | 304 => ("noindex", "X-Device"),
                _ => ("", ""),
            };
            let found = (got.header(OWN.as_str()), got.header("vary"));
            assert_eq!(found, (own.into(), vary.into()), "{expected}: {path}");
        }
    }
    gateway.end().await;
}
