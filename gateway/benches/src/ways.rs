//! The ways into a route whose costs `hit` counts: none is needed, a token, a presigned URL, a signed prefix, a JWT.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tidegate_access::{Access, JwtKeys, JwtRules, KeySet, NamedToken, Rules, SigningKey};
use tidegate_http::{RouteAccess, RouteSettings};
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
    /// The request's `Authorization`, as a whole line; empty: none.
    pub authorization: String,
}

impl Way {
    /// Returns the way of this name. `None`: there is none.
    ///
    /// # Panics
    /// If a key or token cannot be made, which only a mistake can cause.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let key = SigningKey::new("k1", "the secret of this key").expect("a key");
        let plain = format!("/{KEY}");
        let (target, bearer) = match name {
            "open" => {
                return Some(Self {
                    settings: RouteSettings::default(),
                    target: plain,
                    authorization: String::new(),
                });
            }
            "token" => (plain, TOKEN),
            "jwt" => (plain, JWT),
            "presigned" => {
                let life = Duration::from_secs(3600);
                let query = key.presign(&Method::GET, (HOST, &plain), NOW, life);
                (format!("{plain}?{query}"), "")
            }
            "prefix" => (
                format!("/{}{plain}", key.sign_prefix("/2026/", u64::MAX)),
                "",
            ),
            _ => return None,
        };
        let authorization = match bearer {
            "" => String::new(),
            token => format!("Authorization: Bearer {token}\r\n"),
        };
        let access = Access::new(rules(name, key));
        Some(Self {
            settings: RouteSettings {
                access: Some(RouteAccess::new(access)),
                ..RouteSettings::default()
            },
            target,
            authorization,
        })
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
        "jwt" => {
            let set = format!("{{\"keys\":[{JWK}]}}");
            let set = KeySet::from_jwks(set.as_bytes(), false).expect("a key set");
            Rules {
                jwt: Some(JwtRules {
                    keys: Arc::new(JwtKeys::new(Some(set), false)),
                    issuer: Some("https://id.example".to_owned()),
                    audience: Some("media".to_owned()),
                    prefixes: None,
                    cookie: None,
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
