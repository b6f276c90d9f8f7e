//! The ways into a route whose costs `hit` counts: an open route; a token, a presigned URL, a signed prefix and a JWT, each
//! in every place where it may stand; and an open route with limits.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tidegate_access::limits::{LimitRules, Limits, Rate};
use tidegate_access::{Access, JwtKeys, JwtRules, KeySet, NamedToken, Rules, SigningKey};
use tidegate_http::{RouteAccess, RouteLimits, RouteSettings};
use tidegate_plan::Token;

use crate::{KEY, NOW};

/// The host that requests name.
pub const HOST: &str = "media.example:8080";

const TOKEN: &str = "a token of some length";

/// An Ed25519 key, and a token that OpenSSL has signed with it.
const JWK: &str =
    r#"{"kty":"OKP","crv":"Ed25519","kid":"e1","x":"jGdDy1wSvxyncK6cy_FL8LctwrS5NfxbLiXSq2oxu8g"}"#;
const JWT: &str = "eyJhbGciOiJFZERTQSIsImtpZCI6ImUxIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtZWRpYSIsInN1YiI6ImFsaWNlIiwiZXhwIjoyMDAwMDAwMDAwfQ.0S-lDBE7GdLqPjUC_fJZNG4079LfvUwSEFM308jRnFhZI_O4He__KnzxFfIweQQaXkMI2U9U5239EFL7w950AQ";

/// A route, and a request that it admits.
#[derive(Debug)]
pub struct Way {
    /// The route.
    pub settings: RouteSettings,
    /// The request's target.
    pub target: String,
    /// The header that shows the request's credentials, as a whole line; empty: none.
    pub header: String,
}

/// The names of all ways.
pub const WAYS: [&str; 12] = [
    "open",
    "token",
    "presigned",
    "prefix",
    "prefix-query",
    "prefix-cookie",
    "jwt",
    "jwt-cookie",
    "jwt-query",
    "limit-requests",
    "limit-bytes",
    "limit-connections",
];

impl Way {
    /// Returns the way of this name. `None`: there is none.
    ///
    /// # Panics
    /// If a key or token cannot be made, which only a mistake can cause.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        if !WAYS.contains(&name) {
            return None;
        }
        let key = SigningKey::new("k1", "the secret of this key").expect("a key");
        let plain = format!("/{KEY}");
        let prefix = key.sign_prefix("/2026/", u64::MAX);
        let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
        let cookie = |name: &str, value: &str| format!("Cookie: {name}={value}\r\n");
        let (target, header) = match name {
            "token" => (plain, bearer(TOKEN)),
            "presigned" => {
                let life = Duration::from_secs(3600);
                let query = key.presign(&Method::GET, (HOST, &plain), NOW, life);
                (format!("{plain}?{query}"), String::new())
            }
            "prefix" => (format!("/{prefix}{plain}"), String::new()),
            "prefix-query" => (format!("{plain}?{prefix}"), String::new()),
            "prefix-cookie" => (plain, cookie("tidegate", &prefix)),
            "jwt" => (plain, bearer(JWT)),
            "jwt-cookie" => (plain, cookie("session", JWT)),
            "jwt-query" => (format!("{plain}?token={JWT}"), String::new()),
            _ => (plain, String::new()),
        };
        let limits = limits(name);
        let is_open = name == "open" || limits.is_some();
        Some(Self {
            settings: RouteSettings {
                access: (!is_open).then(|| RouteAccess::new(Access::new(rules(name, key)))),
                limits: limits
                    .map(|rules| RouteLimits(Arc::new(Limits::new(rules))))
                    .into_iter()
                    .collect(),
                ..RouteSettings::default()
            },
            target,
            header,
        })
    }
}

/// Returns the limits of a way, which no request reaches.
fn limits(name: &str) -> Option<LimitRules> {
    let none = LimitRules::default();
    match name {
        "limit-requests" => Some(LimitRules {
            requests: Some(Rate {
                requests: NonZeroU32::MAX,
                time: Duration::from_secs(1),
            }),
            burst: u32::MAX,
            ..none
        }),
        "limit-bytes" => Some(LimitRules {
            bytes: Some(NonZeroU64::MAX),
            ..none
        }),
        "limit-connections" => Some(LimitRules {
            connections: Some(NonZeroU32::MAX),
            ..none
        }),
        _ => None,
    }
}

fn rules(name: &str, key: SigningKey) -> Rules {
    let token = || NamedToken {
        name: "alice".to_owned(),
        token: Token::new(TOKEN).expect("a token"),
        expires: None,
    };
    let none = Rules {
        skew: Duration::from_secs(60),
        ..Rules::default()
    };
    match name {
        "token" => Rules {
            tokens: vec![token()],
            ..none
        },
        "jwt" | "jwt-cookie" | "jwt-query" => {
            let set = format!("{{\"keys\":[{JWK}]}}");
            let set = KeySet::from_jwks(set.as_bytes(), false).expect("a key set");
            Rules {
                jwt: Some(JwtRules {
                    keys: Arc::new(JwtKeys::new(Some(set), false)),
                    issuer: Some("https://id.example".to_owned()),
                    audience: Some("media".to_owned()),
                    prefixes: None,
                    cookie: Some("session".to_owned()),
                    query: Some("token".to_owned()),
                    skew: Duration::from_secs(60),
                }),
                ..none
            }
        }
        _ => Rules {
            keys: vec![key],
            ..none
        },
    }
}
