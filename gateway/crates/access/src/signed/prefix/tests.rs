use http::header::COOKIE;
use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;

use super::*;
use crate::{Access, Rules, Verdict};
use std::time::Duration;

mod log;

/// A time, in seconds since 1970.
const NOW: u64 = 1_800_000_000;

fn key(id: &str) -> SigningKey {
    SigningKey::new(id, &format!("the secret of {id}")).expect("a key")
}

fn access() -> Access {
    Access::new(Rules {
        keys: vec![key("k1"), key("k2")],
        skew: Duration::from_secs(60),
        ..Rules::default()
    })
}

/// Returns the path below the route `/private/` that is admitted, or why it is not.
fn check(path: &str, query: Option<&str>, cookies: &[&str], now: u64) -> Result<String, Refusal> {
    let mut headers = HeaderMap::new();
    for cookie in cookies {
        headers.append(COOKIE, HeaderValue::from_str(cookie).expect("a value"));
    }
    let request = Request {
        method: &Method::GET,
        host: "media.example",
        path,
        below: path.strip_prefix("/private/").expect("below the route"),
        query,
        headers: &headers,
        address: None,
        certificate: &[],
        wants_name: true,
    };
    // The verdict is the same when the link is repeated.
    let access = access();
    let [first, second] =
        [(); 2].map(
            |()| match access.check(&request, Timestamp(now.saturating_mul(1000))) {
                Verdict::Admitted { below, .. } => Ok(below.to_owned()),
                Verdict::Refused(refusal) | Verdict::Undecided { refusal, .. } => Err(refusal),
            },
        );
    assert_eq!(first, second, "{path} {query:?} {cookies:?}");
    first
}

fn signed(prefix: &str) -> String {
    key("k1").sign_prefix(prefix, NOW + 100)
}

/// From `printf '%s\n%s\n%s' 1800000100 k1 /private/books/ | openssl dgst -sha256 -hmac 'the secret of k1'`.
#[test]
fn a_signature_is_what_openssl_makes() {
    assert_eq!(
        signed("/private/books/"),
        "expires=1800000100&key=k1&prefix=L3ByaXZhdGUvYm9va3Mv\
         &signature=0749560a5f818726196b4130cb60acb8382e5b37e7bc796f3c1e3d271d5dc5d5"
    );
}

#[test]
fn it_stands_in_the_path_the_query_or_a_cookie() {
    let text = signed("/private/books/");
    let encoded = text.replace('&', "%26").replace('=', "%3D");
    let rest = || Ok("books/a.m3u8".to_owned());
    for segment in [&text, &encoded] {
        let path = format!("/private/{segment}/books/a.m3u8");
        assert_eq!(check(&path, None, &[], NOW), rest(), "{path}");
    }
    let path = "/private/books/a.m3u8";
    assert_eq!(check(path, Some(&text), &[], NOW), rest());
    assert_eq!(
        check(path, Some(&format!("v=2&{text}&w")), &[], NOW),
        rest()
    );
    for cookie in [
        format!("tidegate={text}"),
        format!("a=b; tidegate={encoded}; c=d"),
        format!("tidegate=\"{text}\""),
        format!("tidegate=x; tidegate={text}"),
    ] {
        assert_eq!(check(path, None, &[&cookie], NOW), rest(), "{cookie}");
        assert_eq!(
            check(path, None, &["a=b", &cookie], NOW),
            rest(),
            "{cookie}"
        );
    }
    for cookie in [
        text.clone(),
        format!("Tidegate={text}"),
        format!("xtidegate={text}"),
        format!("{}tidegate={text}", "tidegate=x; ".repeat(8)),
    ] {
        assert!(check(path, None, &[&cookie], NOW).is_err(), "{cookie}");
    }
}

#[test]
fn a_right_one_counts_wherever_a_wrong_one_stands() {
    let (good, other) = (signed("/private/books/"), signed("/private/films/"));
    let cookie = |text: &str| format!("tidegate={text}");
    let path = format!("/private/{other}/books/a");
    let admitted = Ok("books/a".to_owned());
    assert_eq!(check(&path, None, &[], NOW), Err(Refusal::Prefix));
    assert_eq!(check(&path, Some(&good), &[], NOW), admitted);
    assert_eq!(check(&path, None, &[&cookie(&good)], NOW), admitted);
    let presigned = "X-Amz-Signature=0";
    assert_eq!(
        check("/private/books/a", Some(presigned), &[&cookie(&good)], NOW),
        admitted
    );
    assert_eq!(
        check("/private/books/a", Some(presigned), &[], NOW),
        Err(Refusal::Signature)
    );
}

#[test]
fn a_prefix_covers_what_lies_below_it() {
    let rows = [
        ("/private/books/", "books/", true),
        ("/private/books/", "books/1/2.m4b", true),
        ("/private/books/", "b%6Foks/1", true),
        ("/private/books/", "books%2F1", true),
        ("/private/books/", "books", false),
        ("/private/books/", "bookshop/1", false),
        ("/private/books/", "Books/1", false),
        ("/private/books", "books", true),
        ("/private/books", "books/1", false),
        ("/private/books", "books1", false),
        ("/private/ü b/", "%C3%BC%20b/1", true),
        ("/private/%20/", "%20/1", false),
        ("/private/%20/", "%2520/1", true),
        ("/", "x", true),
        ("", "x", false),
        ("private/", "x", false),
        ("/private/../", "x", false),
    ];
    for (prefix, below, covered) in rows {
        let expected = match covered {
            true => Ok(below.to_owned()),
            false => Err(Refusal::Prefix),
        };
        let path = format!("/private/{}/{below}", signed(prefix));
        assert_eq!(check(&path, None, &[], NOW), expected, "{prefix} {below}");
        let path = format!("/private/{below}");
        assert_eq!(
            check(&path, Some(&signed(prefix)), &[], NOW),
            expected,
            "{prefix} {below}"
        );
    }
}

#[test]
fn it_ends_at_its_time() {
    let rows = [
        (0, NOW, Err(Refusal::Expired)),
        (NOW, NOW, Ok(())),
        (NOW, NOW + 59, Ok(())),
        (NOW, NOW + 60, Err(Refusal::Expired)),
        (u64::MAX, u64::MAX, Ok(())),
        (i64::MAX as u64, NOW, Ok(())),
        (1 << 32, NOW, Ok(())),
        (NOW, u64::MAX, Err(Refusal::Expired)),
    ];
    for (expires, now, expected) in rows {
        let text = key("k2").sign_prefix("/private/", expires);
        let found = check("/private/a", Some(&text), &[], now).map(|_| ());
        assert_eq!(found, expected, "{expires} {now}");
    }
}

#[test]
fn absurd_signatures_are_refused() {
    let key = key("k1");
    let resigned = |expires: &str, prefix: &[u8]| {
        let encoded = base64_simd::URL_SAFE_NO_PAD.encode_to_string(prefix);
        let signature = signature(&key, expires, prefix);
        format!("expires={expires}&key=k1&prefix={encoded}&signature={signature}")
    };
    let wrong = Err(Refusal::Signature);
    for expires in [
        "",
        "-1",
        "1e99",
        "0x7fffffff",
        "18446744073709551616",
        " 1800000100",
        "１",
    ] {
        let text = resigned(expires, b"/private/");
        assert_eq!(
            check("/private/a", Some(&text), &[], NOW),
            wrong,
            "{expires}"
        );
    }
    let good = resigned("1800000100", b"/private/");
    assert_eq!(
        check("/private/a", Some(&good), &[], NOW),
        Ok("a".to_owned())
    );
    let not_text = resigned("1800000100", b"/private/\xff\0");
    assert_eq!(
        check("/private/a", Some(&not_text), &[], NOW),
        Err(Refusal::Prefix)
    );
    for (from, to, expected) in [
        ("key=k1", "key=k2", Refusal::Signature),
        ("key=k1", "key=k3", Refusal::Key),
        ("key=k1", "key=", Refusal::Key),
        ("signature=", "signature=0", Refusal::Signature),
        ("prefix=", "prefix==", Refusal::Signature),
        ("prefix=", "prefix=%2F", Refusal::Signature),
        ("&key=k1", "", Refusal::Missing),
        ("key=k1", "key=k1&key=k1", Refusal::Missing),
        ("expires", "Expires", Refusal::Missing),
    ] {
        let text = good.replace(from, to);
        assert_eq!(
            check("/private/a", Some(&text), &[], NOW),
            Err(expected),
            "{text}"
        );
    }
    let upper = good.to_ascii_uppercase();
    assert_eq!(
        check("/private/a", Some(&upper), &[], NOW),
        Err(Refusal::Missing)
    );
}

proptest! {
    #[test]
    fn one_flipped_byte_anywhere_refuses(at in 0..1000_usize, flip in 1..=255_u8) {
        let good = signed("/private/");
        let mut bytes = good.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] ^= flip;
        if let Ok(bad) = String::from_utf8(bytes) {
            prop_assert!(check("/private/a", Some(&bad), &[], NOW).is_err(), "{}", bad);
            let path = format!("/private/{bad}/a");
            let admitted = check(&path, None, &[], NOW).is_ok();
            prop_assert!(!admitted, "{}", path);
        }
    }

    #[test]
    fn what_is_signed_is_admitted(prefix in "/[^/\0]{0,20}/", rest in "[^\0]{0,20}", expires in NOW..) {
        let text = key("k2").sign_prefix(&prefix, expires);
        let path = tidegate_plan::key::encode_path(&format!("{prefix}{rest}")).to_string();
        let headers = HeaderMap::new();
        let request = Request {
            method: &Method::HEAD,
            host: "",
            path: &path,
            below: &path[1..],
            query: Some(&text),
            headers: &headers,
            address: None,
            certificate: &[],
            wants_name: true,
        };
        let access = access();
        let verdict = access.check(&request, Timestamp::from_secs(NOW as i64));
        let admitted = matches!(&verdict, Verdict::Admitted { by: Some(key), .. } if key == "k2");
        prop_assert!(admitted, "{:?}", verdict);
    }

    #[test]
    fn any_text_is_judged(text in "(expires|key|prefix|signature|=|&|[a-z0-9_-]|%2[0-9]|ü){0,30}") {
        let path = format!("/private/{text}");
        prop_assert!(check(&path, Some(&text), &[], NOW).is_err());
        let _ = without_signature(&text);
    }
}
