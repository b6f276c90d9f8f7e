use base64_simd::URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue, Method};
use ring::hmac;

use super::*;

mod algorithms;

const SECRET: &str = "a shared secret of thirty-two and more";

const NOW: i64 = 1_800_000_000;

/// The claims that the rules of [`rules`] want.
const CLAIMS: &str =
    r#"{"iss":"https://id.example","aud":"media","sub":"alice","exp":2000000000,"paths":["/m/"]}"#;

fn encode(text: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode_to_string(text)
}

/// Returns a token with this head and these claims, signed by `sign`.
fn signed(head: &str, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encode(head.as_bytes()), encode(claims.as_bytes()));
    let signature = encode(&sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn with_secret(message: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::sign(&key, message).as_ref().to_vec()
}

fn hs256(claims: &str) -> String {
    signed(r#"{"alg":"HS256"}"#, claims, with_secret)
}

fn rules(set: KeySet) -> JwtRules {
    JwtRules {
        keys: Arc::new(JwtKeys::new(Some(set), false)),
        issuer: Some("https://id.example".into()),
        audience: Some("media".into()),
        prefixes: Some("paths".into()),
        cookie: Some("session".into()),
        query: Some("token".into()),
        skew: Duration::from_secs(60),
    }
}

fn shared() -> Jwt {
    Jwt::new(rules(KeySet::shared(SECRET).expect("long")))
}

fn key_set(keys: &str) -> KeySet {
    let text = format!("{{\"keys\":[{keys}]}}");
    KeySet::from_jwks(text.as_bytes(), true).expect("keys")
}

/// The places in which a request shows a token.
#[derive(Default)]
struct Places<'t> {
    authorization: &'t [String],
    cookie: Option<String>,
    query: Option<String>,
}

/// Returns the subject that is admitted, `None` if no token is shown.
fn found(jwt: &Jwt, places: &Places<'_>, now: i64) -> Result<Option<String>, Refusal> {
    let mut headers = HeaderMap::new();
    for line in places.authorization {
        headers.append(AUTHORIZATION, HeaderValue::from_str(line).expect("a value"));
    }
    if let Some(cookie) = &places.cookie {
        headers.insert(COOKIE, HeaderValue::from_str(cookie).expect("a value"));
    }
    let request = Request {
        method: &Method::GET,
        host: "media.example",
        path: "/m/a%20b/1.ts",
        below: "a%20b/1.ts",
        query: places.query.as_deref(),
        headers: &headers,
        address: None,
        certificate: &[],
        wants_name: true,
    };
    let check = |wants_name| {
        let asked = TokenUse {
            path: DecodedPath::new(&request, request.below),
            now: Timestamp::from_secs(now),
            wants_name,
        };
        jwt.check(&request, asked)
    };
    let found = check(true);
    match (&found, check(false)) {
        (JwtFinding::Admits(_), unnamed) => {
            assert!(matches!(unnamed, JwtFinding::Admits(None)), "{unnamed:?}");
        }
        (found, unnamed) => assert_eq!(format!("{found:?}"), format!("{unnamed:?}")),
    }
    match found {
        JwtFinding::Absent => Ok(None),
        JwtFinding::Admits(subject) => Ok(Some(subject.as_deref().unwrap_or("-").to_owned())),
        JwtFinding::Refuses(refusal) | JwtFinding::Unknown(refusal) => Err(refusal),
    }
}

/// Returns the finding on a bearer token, which is the same when it is repeated.
fn bears(jwt: &Jwt, token: &str) -> Result<Option<String>, Refusal> {
    bears_at(jwt, token, NOW)
}

fn bears_at(jwt: &Jwt, token: &str, now: i64) -> Result<Option<String>, Refusal> {
    let places = Places {
        authorization: &[format!("Bearer {token}")],
        ..Places::default()
    };
    let first = found(jwt, &places, now);
    assert_eq!(found(jwt, &places, now), first, "{token:.40}");
    first
}

fn alice() -> Result<Option<String>, Refusal> {
    Ok(Some("alice".into()))
}

#[test]
fn claims_are_those_that_the_access_wants() {
    let with = |from: &str, to: &str| CLAIMS.replace(from, to);
    let wrong = Err(Refusal::Claims);
    for (claims, expected) in [
        (CLAIMS.to_owned(), alice()),
        (with(r#""sub":"alice","#, ""), Ok(Some("-".into()))),
        (with("id.example", "id.example/"), wrong.clone()),
        (with(r#""iss":"https://id.example","#, ""), wrong.clone()),
        (with(r#""media""#, r#"["other","media"]"#), alice()),
        (with(r#""media""#, r#"["other"]"#), wrong.clone()),
        (with(r#""media""#, "[]"), wrong.clone()),
        (with(r#""aud":"media","#, ""), wrong.clone()),
        (with(r#""exp":2000000000,"#, ""), wrong.clone()),
        (with(r#","paths":["/m/"]"#, ""), wrong.clone()),
        (with(r#"["/m/"]"#, "[]"), Err(Refusal::Prefix)),
        (with(r#"["/m/"]"#, r#"["/x/","/m"]"#), Err(Refusal::Prefix)),
        (with(r#"["/m/"]"#, r#""/m/a b/""#), alice()),
        (with(r#"["/m/"]"#, r#"["/m/a b/1.ts"]"#), alice()),
        (with(r#"["/m/"]"#, r#"["/m/a%20b/"]"#), Err(Refusal::Prefix)),
        (
            with("2000000000", "2000000000,\"exp\":2000000000"),
            wrong.clone(),
        ),
        (with("}", ",\"aud\":\"media\"}"), wrong.clone()),
        (with("2000000000", "\"2000000000\""), wrong.clone()),
        ("{}".into(), wrong.clone()),
        ("null".into(), wrong.clone()),
        (String::new(), wrong.clone()),
    ] {
        assert_eq!(bears(&shared(), &hs256(&claims)), expected, "{claims}");
    }
    // Without an audience of its own an access is none of those that a token may be for.
    let any = JwtRules {
        audience: None,
        issuer: None,
        prefixes: None,
        ..rules(KeySet::shared(SECRET).expect("long"))
    };
    let jwt = Jwt::new(any);
    assert_eq!(bears(&jwt, &hs256(CLAIMS)), wrong);
    let plain = hs256(r#"{"exp":2000000000}"#);
    assert_eq!(bears(&jwt, &plain), Ok(Some("-".into())));
}

#[test]
fn a_token_holds_between_its_times_and_the_skew() {
    let times = |begin: &str, end: &str| {
        hs256(&CLAIMS.replace("2000000000", &format!("{end},\"nbf\":{begin}")))
    };
    let (early, late) = (Err(Refusal::Early), Err(Refusal::Expired));
    let (first, last) = ("-9223372036854775808", "9223372036854775807");
    for (begin, end, now, expected) in [
        ("1000", "2000", 939, early.clone()),
        ("1000", "2000", 940, alice()),
        ("1000", "2000", 2059, alice()),
        ("1000", "2000", 2060, late.clone()),
        (first, last, NOW, alice()),
        (last, last, NOW, early.clone()),
        (first, first, NOW, late.clone()),
        ("0", "18446744073709551615", i64::MAX, alice()),
        ("1e300", "1e300", NOW, early),
        ("0", "-1e300", NOW, late.clone()),
        ("0", "1e300", NOW, alice()),
        ("0", "59.9", 118, alice()),
        ("0", "59.9", 119, late),
    ] {
        let found = bears_at(&shared(), &times(begin, end), now);
        assert_eq!(found, expected, "{begin} {end} {now}");
    }
    let jwt = shared();
    let token = times("0", "2000");
    assert_eq!(bears_at(&jwt, &token, 2059), alice());
    assert_eq!(bears_at(&jwt, &token, 2060), Err(Refusal::Expired));
}

#[test]
fn a_token_stands_in_the_header_the_cookie_or_the_query() {
    let (good, bad) = (hs256(CLAIMS), hs256("{}"));
    let bearer = |token: &str| vec![format!("bEARER  {token} ")];
    let cookie = |token: &str| Some(format!("a=b; session={token};c"));
    let query = |token: &str| Some(format!("x=1&token={token}&y"));
    let rows = [
        (vec![], None, None, Ok(None)),
        (bearer(&good), None, None, alice()),
        (vec![], cookie(&good), None, alice()),
        (vec![], cookie(&format!("\"{good}\"")), None, alice()),
        (vec![], None, query(&good), alice()),
        (bearer(&bad), cookie(&bad), query(&good), alice()),
        (bearer(&bad), cookie(&good), None, alice()),
        (bearer(&bad), None, query("x"), Err(Refusal::Claims)),
        (vec![], Some(format!("sessions={good}")), None, Ok(None)),
        (vec![], None, Some(format!("tokens={good}")), Ok(None)),
        (vec![format!("Basic {good}")], None, None, Ok(None)),
        (bearer("no-jwt"), None, None, Err(Refusal::Token)),
        (bearer(""), None, None, Err(Refusal::Token)),
        (bearer("a.b"), None, None, Err(Refusal::Token)),
        (bearer("a.b.c.d"), None, None, Err(Refusal::Token)),
        (bearer(".."), None, None, Err(Refusal::Signature)),
        (
            [bearer(&good), bearer(&good)].concat(),
            None,
            None,
            Err(Refusal::Token),
        ),
        (
            bearer(&format!("{}.{good}", "a".repeat(MAX_TOKEN))),
            None,
            None,
            Err(Refusal::Token),
        ),
    ];
    for (nth, (authorization, cookie, query, expected)) in rows.into_iter().enumerate() {
        let places = Places {
            authorization: &authorization,
            cookie,
            query,
        };
        assert_eq!(found(&shared(), &places, NOW), expected, "{nth}");
    }
}

#[test]
fn a_verdict_goes_with_its_key() {
    let keys = Arc::new(JwtKeys::new(None, true));
    let jwt = Jwt::new(JwtRules {
        keys: keys.clone(),
        ..rules(KeySet::shared(SECRET).expect("long"))
    });
    let token = hs256(CLAIMS);
    assert_eq!(bears(&jwt, &token), Err(Refusal::Keys));
    keys.replace(Some(KeySet::shared(SECRET).expect("long")));
    assert_eq!(bears(&jwt, &token), alice());
    let other = KeySet::shared(&SECRET.replace("shared", "strange")).expect("long");
    keys.replace(Some(other));
    assert_eq!(bears(&jwt, &token), Err(Refusal::Signature));
    keys.replace(None);
    assert_eq!(bears(&jwt, &token), Err(Refusal::Keys));
}

/// Each signature of RSA costs tens of microseconds, and a request may show nine tokens.
#[test]
fn the_signatures_that_are_verified_for_a_request_are_bounded() {
    let key = |nth: usize| {
        let secret = format!("{SECRET}{}", nth % MAX_TRIES);
        let secret = secret.trim_end_matches('0');
        format!(r#"{{"kty":"oct","k":"{}"}}"#, encode(secret.as_bytes()))
    };
    // The right one is the last.
    let keys: Vec<_> = (1..=MAX_TRIES).map(key).collect();
    let right = hs256(CLAIMS);
    let shows = |bearer: &str| {
        let places = Places {
            authorization: &[format!("Bearer {bearer}")],
            cookie: Some(format!("session={right}")),
            ..Places::default()
        };
        let jwt = Jwt::new(rules(key_set(&keys.join(","))));
        found(&jwt, &places, NOW)
    };
    assert_eq!(shows("no.head.here"), alice());
    let forged = signed(r#"{"alg":"HS256"}"#, CLAIMS, |_| vec![7; 32]);
    assert_eq!(shows(&forged), Err(Refusal::Signature));
}

#[test]
fn a_repeated_token_is_found_whole_and_in_no_other_form() {
    let jwt = shared();
    let text = hs256(CLAIMS);
    let is_known = |text: &str| jwt.memo.recall(text.as_bytes(), |_| ()).is_some();
    assert!(!is_known(&text));
    assert_eq!(bears(&jwt, &text), alice());
    assert!(is_known(&text));
    assert!(!is_known(&text[..text.len() - 1]));
    // It is judged by its time each time.
    assert_eq!(bears_at(&jwt, &text, 2_000_000_060), Err(Refusal::Expired));
    assert_eq!(bears(&jwt, &text), alice());
    // A long token is verified each time.
    let long = CLAIMS.replace('}', &format!(",\"x\":\"{}\"}}", "x".repeat(4000)));
    let long = hs256(&long);
    assert_eq!(bears(&jwt, &long), alice());
    assert!(!is_known(&long));
    let signature = text.rsplit('.').next().expect("the signature");
    assert!(!format!("{jwt:?}").contains(signature));
}
