//! The judgement of a JWT of each algorithm: the first one, which verifies the signature, and a repeated one.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, Criterion};
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Method};
use tidegate_access::{Access, JwtKeys, JwtRules, KeySet, Request, Rules};
use tidegate_plan::Timestamp;

/// The time of each judgement.
const NOW: Timestamp = Timestamp(1_800_000_000_000);

/// An algorithm, the public half of a key (of HS256 the secret), and a token that OpenSSL has signed with it.
const TOKENS: [(&str, &str, &str); 4] = [
    (
        "ES256",
        r#"{"kty":"EC","crv":"P-256","kid":"p1","x":"uwgURqefuv-DaYG7QJscjom9ooQ5L-7GrzX5WgMl8UQ","y":"6QxojObQhMjuKXn36GmmrekYo-HqfeNCSU9JXsHMEUE"}"#,
        "eyJhbGciOiJFUzI1NiIsImtpZCI6InAxIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtZWRpYSIsInN1YiI6ImFsaWNlIiwiZXhwIjoyMDAwMDAwMDAwfQ.NJv53AZ8DSGZh2WskpxQI5-PHN9gsVlmFdBitQMXSpRk2h-V9Fx4rTyaiUcJ2bzE1n2LddyRVIy9Hes-OMrqQA",
    ),
    (
        "EdDSA",
        r#"{"kty":"OKP","crv":"Ed25519","kid":"e1","x":"jGdDy1wSvxyncK6cy_FL8LctwrS5NfxbLiXSq2oxu8g"}"#,
        "eyJhbGciOiJFZERTQSIsImtpZCI6ImUxIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtZWRpYSIsInN1YiI6ImFsaWNlIiwiZXhwIjoyMDAwMDAwMDAwfQ.0S-lDBE7GdLqPjUC_fJZNG4079LfvUwSEFM308jRnFhZI_O4He__KnzxFfIweQQaXkMI2U9U5239EFL7w950AQ",
    ),
    (
        "RS256",
        r#"{"kty":"RSA","kid":"r1","n":"yViW-8uk3qZJVOdlz3WdfqJ0cwS4gmRmwhwVpZKOV5IIqpYAOl7N0anrPB3PJHsH9uwybmxeaO9FNPf0_cvChSOIWbU6CyC_bauMUS-wtmPpNSV7XnAH4tVY35flXONOvmVsJlrQyFpqf2jLkI6Lp6Jo0-quLkovlrIUZnuswxJW85NnAo-Dx6IHQccczNJZu77AQdqwepJMzb-uDaY4J6y-Fk4LyW1dHE7AZvDBSeh4MAIhO89sBDV6STghd7AStu62Itj2yDP4_BiYpFvDXMUp1xUihw4_03-71JBqvLGGsYKdPeWC17v66MdzHR7iE1n6yORHjMYv9Y91vy8kWw","e":"AQAB"}"#,
        "eyJhbGciOiJSUzI1NiIsImtpZCI6InIxIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtZWRpYSIsInN1YiI6ImFsaWNlIiwiZXhwIjoyMDAwMDAwMDAwfQ.kWbIKZuK2Uf34WYVIaKaYeu2l0UVSQ9vs7s5OwH3rGIdJde3G-qHPXUjxgcENSggaMLDEFbqfFpNKAo_GCfYcW_Q6OZ0aeUUlbmphGAT5oezoh5HolUbi5IrKavkBBGUUKUAww2TCfMDF0L-Jt0PxXxiIANti7UL4w5Pm7F8H70PzU4zCS9H61Gdgt6L8zRPvXW9LIwGWhFt-sbWaH1nul8cRWeIdGnDPvnMW8K0w3kAOqaB46iluwXyEGqozRTqmGTVUUY7NzO3Qg4rrM3cSPZWUfUK7UoRofREMMjWfsoMhW2VYoHPluM-sjl20VvGjQqoCSzEDDs9lydJmfi-QQ",
    ),
    (
        "HS256",
        r#"{"kty":"oct","kid":"s1","k":"YSBzaGFyZWQgc2VjcmV0IG9mIHRoaXJ0eS10d28gYW5kIG1vcmU"}"#,
        "eyJhbGciOiJIUzI1NiIsImtpZCI6InMxIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJtZWRpYSIsInN1YiI6ImFsaWNlIiwiZXhwIjoyMDAwMDAwMDAwfQ.MHqn73PHakKO43fQf6MlBpoKe9fzfkBjXXf594PdpmQ",
    ),
];

fn access(key: &str) -> Access {
    let set = format!("{{\"keys\":[{key}]}}");
    let set = KeySet::from_jwks(set.as_bytes(), true).expect("a key set");
    Access::new(Rules {
        jwt: Some(JwtRules {
            keys: Arc::new(JwtKeys::new(Some(set), false)),
            issuer: Some("https://id.example".to_owned()),
            audience: Some("media".to_owned()),
            prefixes: None,
            cookie: None,
            query: Some("token".to_owned()),
            skew: Duration::from_secs(60),
        }),
        ..Rules::default()
    })
}

/// Measures both for each algorithm.
pub(crate) fn jwts(c: &mut Criterion) {
    for (algorithm, key, token) in TOKENS {
        let bearer = HeaderValue::try_from(format!("Bearer {token}")).expect("a value");
        let headers = HeaderMap::from_iter([(AUTHORIZATION, bearer)]);
        let request = Request {
            method: &Method::GET,
            host: "media.example.org",
            path: "/private/2024/05/IMG-20240512-1536x1024.jpg",
            below: "2024/05/IMG-20240512-1536x1024.jpg",
            query: None,
            headers: &headers,
            address: None,
            certificate: &[],
            wants_name: false,
        };
        let shared = access(key);
        assert!(shared.check(&request, NOW).is_admitted(), "{algorithm}");
        c.bench_function(&format!("JWT {algorithm}, first"), |b| {
            b.iter_batched_ref(
                || access(key),
                |access| access.check(black_box(&request), NOW).is_admitted(),
                BatchSize::LargeInput,
            );
        });
        c.bench_function(&format!("JWT {algorithm}, repeated"), |b| {
            b.iter(|| shared.check(black_box(&request), NOW).is_admitted());
        });
    }
}
