//! JWTs: a token admits what its key has signed, by its claims, and nothing else does.

use std::sync::Arc;
use std::time::Duration;

use base64_simd::URL_SAFE_NO_PAD;
use bolero::check;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderValue, Method};
use ring::hmac;
use tidegate_access::{Access, JwtKeys, JwtRules, KeySet, Request, Rules};
use tidegate_plan::Timestamp;

use super::{HOST, NOW, RUNS, changed, text};

const SECRET: &str = "a shared secret of thirty-two and more";
const SKEW: u64 = 60;

fn access() -> Access {
    let set = KeySet::shared(SECRET).expect("long enough");
    Access::new(Rules {
        jwt: Some(JwtRules {
            keys: Arc::new(JwtKeys::new(Some(set), false)),
            issuer: Some("i".to_owned()),
            audience: Some("a".to_owned()),
            prefixes: Some("paths".to_owned()),
            cookie: Some("session".to_owned()),
            query: Some("token".to_owned()),
            skew: Duration::from_secs(SKEW),
        }),
        ..Rules::default()
    })
}

/// Returns a token with this head and these claims, which the key has signed.
fn signed(head: &str, claims: &str) -> String {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode_to_string(bytes);
    let message = format!("{}.{}", encode(head.as_bytes()), encode(claims.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", encode(signature.as_ref()))
}

const HEAD: &str = r#"{"alg":"HS256"}"#;
const CLAIMS: &str = r#"{"iss":"i","aud":"a","exp":1900000000,"paths":["/m/"]}"#;

/// Returns whether a request for `/m/x` is admitted that shows a token in each of the three places.
fn admits(access: &Access, token: &str) -> [bool; 3] {
    [0, 1, 2].map(|place| {
        let mut headers = HeaderMap::new();
        let mut query = None;
        let value = |text: String| HeaderValue::from_bytes(text.as_bytes());
        match place {
            0 => match value(format!("Bearer {token}")) {
                Ok(value) => drop(headers.insert(AUTHORIZATION, value)),
                Err(_) => return false,
            },
            1 => match value(format!("x=y; session={token}")) {
                Ok(value) => drop(headers.insert(COOKIE, value)),
                Err(_) => return false,
            },
            _ => query = Some(format!("a=b&token={token}")),
        }
        let request = Request {
            method: &Method::GET,
            host: HOST,
            path: "/m/x",
            below: "x",
            query: query.as_deref(),
            headers: &headers,
            address: None,
            certificate: &[],
            wants_name: true,
        };
        let now = Timestamp::from_secs(i64::try_from(NOW).expect("small"));
        access.check(&request, now).is_admitted()
    })
}

#[test]
fn a_changed_token_admits_nothing() {
    let (access, token) = (access(), signed(HEAD, CLAIMS));
    assert_eq!(admits(&access, &token), [true; 3]);
    check!()
        .with_iterations(RUNS)
        .with_type::<((u16, u8), (u16, u8))>()
        .for_each(|(one, other)| {
            let once = changed(&token, *one);
            for changed in [changed(&once, *other), once] {
                // A cookie ends at `;`, and what is before it may be the token no more.
                assert!(
                    changed == token || admits(&access, &changed) == [false; 3],
                    "{changed}"
                );
            }
        });
}

#[test]
fn a_token_that_was_not_signed_admits_nothing() {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode_to_string(text.as_bytes());
    let (none, head, claims) = (encode(r#"{"alg":"none"}"#), encode(HEAD), encode(CLAIMS));
    let (public, by_path) = (
        encode(r#"{"alg":"RS256","kid":"x"}"#),
        encode(r#"{"alg":"HS256","kid":"../../dev/null"}"#),
    );
    let access = access();
    check!().with_iterations(RUNS).for_each(|bytes| {
        let words = [
            &*none, &head, &claims, &public, &by_path, ".", "..", "=", "AAAA", "%2E",
        ];
        let token = text(&words, bytes);
        assert_eq!(admits(&access, &token), [false; 3], "{token}");
        for head in [&none, &head, &public, &by_path] {
            let token = format!("{head}.{claims}.{token}");
            assert_eq!(admits(&access, &token), [false; 3], "{token}");
        }
    });
}

#[test]
fn times_at_any_edge_admit_within_them_alone() {
    let access = access();
    check!()
        .with_iterations(RUNS)
        .with_type::<(Option<i64>, Option<i64>, i8, i8, u8)>()
        .for_each(|(expires, begins, near_end, near_begin, form)| {
            let near = |by: i8| NOW.cast_signed() + i64::from(by);
            // Half of them lie around the present time.
            let expires = expires.or(Some(near(*near_end)));
            let begins = begins.or((form % 2 == 0).then(|| near(*near_begin)));
            let date = |seconds: i64| match form % 5 {
                1 => format!("{seconds}.5"),
                2 => format!("{seconds}.0"),
                _ => seconds.to_string(),
            };
            let exp = expires.map_or(String::new(), |at| format!(",\"exp\":{}", date(at)));
            let nbf = begins.map_or(String::new(), |at| format!(",\"nbf\":{}", date(at)));
            let claims = format!(r#"{{"iss":"i","aud":["b","a"],"paths":"/m/"{exp}{nbf}}}"#);
            let found = admits(&access, &signed(HEAD, &claims));
            assert!(found == [true; 3] || found == [false; 3], "{claims}");
            let (now, skew) = (NOW.cast_signed(), SKEW.cast_signed());
            if found[0] {
                let holds = expires.is_some_and(|at| at.saturating_add(skew) >= now)
                    && begins.is_none_or(|at| at.saturating_sub(skew) <= now + 1);
                assert!(holds, "{claims}");
            } else {
                let is_over = expires.is_some_and(|at| at.saturating_add(skew) <= now + 1);
                let is_early = begins.is_some_and(|at| at.saturating_sub(skew) >= now);
                assert!(is_over || is_early, "{claims}");
            }
        });
}

#[test]
fn signed_claims_of_any_form_are_read_or_refused() {
    let access = access();
    let words = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"iss\":\"i\"",
        "\"aud\":\"a\"",
        "\"aud\":[\"a\"]",
        "\"exp\":1900000000",
        "\"exp\":1e400",
        "\"exp\":-1",
        "\"nbf\":\"0\"",
        "\"paths\":[\"/m/\"]",
        "\"paths\":[\"/other/\"]",
        "\"paths\":{}",
        "null",
        "\"\\u0000\"",
        "[[[[[[[[",
        "{\"a\":",
    ];
    check!()
        .with_iterations(RUNS)
        .with_type::<(Vec<u8>, bool)>()
        .for_each(|(bytes, is_whole)| {
            let inner: Vec<_> = bytes.chunks(1).map(|byte| text(&words, byte)).collect();
            let claims = match is_whole {
                true => format!("{{{}}}", inner.join(",")),
                false => inner.concat(),
            };
            for head in [HEAD, &claims] {
                let token = signed(head, &claims);
                if admits(&access, &token) != [false; 3] {
                    let count = |name: &str| claims.matches(name).count();
                    for name in ["\"iss\":", "\"aud\":", "\"exp\":", "\"paths\":"] {
                        assert_eq!(count(name), 1, "{claims}");
                    }
                    assert!(claims.contains("\"paths\":[\"/m/\"]"), "{claims}");
                }
            }
        });
}

#[test]
fn a_key_set_of_any_form_is_read_or_refused() {
    let words = [
        "{\"keys\":[",
        "]}",
        "{",
        "}",
        ",",
        "\"kty\":\"oct\"",
        "\"kty\":\"RSA\"",
        "\"kty\":\"EC\"",
        "\"kty\":\"OKP\"",
        "\"crv\":\"P-256\"",
        "\"crv\":\"Ed25519\"",
        "\"k\":\"AAAA\"",
        "\"n\":\"AQAB\"",
        "\"e\":\"AQAB\"",
        "\"x\":\"\"",
        "\"y\":\"_\"",
        "\"kid\":\"../x\"",
        "\"use\":\"sig\"",
        "\"alg\":\"none\"",
        "\"key_ops\":[\"verify\"]",
    ];
    check!().with_iterations(RUNS).for_each(|bytes| {
        let keys = bytes.chunks(5).map(|key| {
            let lines: Vec<_> = key.chunks(1).map(|byte| text(&words, byte)).collect();
            format!("{{{}}}", lines.join(","))
        });
        let keys: Vec<_> = keys.collect();
        for text in [
            format!("{{\"keys\":[{}]}}", keys.join(",")),
            text(&words, bytes),
        ] {
            for secret in [false, true] {
                // None of these keys is long enough to count.
                assert!(
                    KeySet::from_jwks(text.as_bytes(), secret).is_err(),
                    "{text}"
                );
            }
        }
    });
}
