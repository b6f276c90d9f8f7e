//! Fuzz targets of the parsers of credentials: signed prefixes in paths, queries and cookies, presigned URLs, JWTs, dates
//! and referers. The property of most: what admits a request was signed for it.
//!
//! They run as tests, [`RUNS`] inputs each; `just fuzz` gives them time.

use std::time::Duration;

use bolero::check;
use http::header::{COOKIE, REFERER};
use http::{HeaderMap, HeaderValue, Method};
use percent_encoding::percent_decode_str;
use tidegate_access::{Access, Referers, Request, Rules, SigningKey, date, without_signature};
use tidegate_plan::Timestamp;

#[path = "fuzz/jwt.rs"]
mod jwt;

/// The inputs of a target in a plain test run.
const RUNS: usize = 5_000;

const NOW: u64 = 1_800_000_000;
const HOST: &str = "media.example";

fn key(id: &str) -> SigningKey {
    SigningKey::new(id, "a secret of the tests").expect("a key")
}

fn access() -> Access {
    Access::new(Rules {
        keys: vec![key("k1"), key("k2")],
        skew: Duration::from_secs(60),
        ..Rules::default()
    })
}

/// A request below the route `/m/`.
#[derive(Debug, Clone, Default)]
struct Asked {
    below: String,
    query: Option<String>,
    cookie: Option<Vec<u8>>,
}

impl Asked {
    /// Returns the path that the request means, without its signature, if it is admitted.
    fn admitted(&self, access: &Access, method: &Method, host: &str) -> Option<String> {
        let path = format!("/m/{}", self.below);
        let mut headers = HeaderMap::new();
        if let Some(cookie) = &self.cookie {
            let cookie = HeaderValue::from_bytes(cookie).ok()?;
            headers.insert(COOKIE, cookie);
        }
        let request = Request {
            method,
            host,
            path: &path,
            below: &self.below,
            query: self.query.as_deref(),
            headers: &headers,
            address: None,
            certificate: &[],
            wants_name: true,
        };
        let now = Timestamp::from_secs(i64::try_from(NOW).expect("small"));
        match access.check(&request, now) {
            tidegate_access::Verdict::Admitted { below, .. } => Some(format!("/m/{below}")),
            tidegate_access::Verdict::Refused(_) | tidegate_access::Verdict::Undecided { .. } => {
                None
            }
        }
    }

    fn is_admitted(&self, access: &Access) -> bool {
        self.admitted(access, &Method::GET, HOST).is_some()
    }
}

/// Returns text of words that a parser knows, and every third time of any printable character.
fn text(words: &[&str], bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match words.get(usize::from(*byte) % (words.len() * 3 / 2)) {
            Some(word) => text.push_str(word),
            None => text.push(char::from(byte % 95 + 32)),
        }
    }
    text
}

const PATHS: &[&str] = &[
    "a", "b", "/", "..", "%2F", "%61", "%2e%2e/", "a/b/", "%00", "ü",
];

const FIELDS: &[&str] = &[
    "expires=",
    "&key=",
    "k1",
    "&prefix=",
    "&signature=",
    "L20v",
    "expires=1900000000&key=k1&prefix=L20v&signature=",
    "0123456789abcdef",
    "%26",
    "%3D",
    "tidegate=",
    "; ",
    "\"",
    "X-Amz-Signature=",
    "&X-Amz-Credential=k1/20270115/r/s3/aws4_request",
    "&X-Amz-Algorithm=AWS4-HMAC-SHA256",
    "&X-Amz-Date=20270115T080000Z",
    "&X-Amz-Expires=600",
    "&X-Amz-SignedHeaders=host",
    "&",
];

/// Changes one byte of a text, as far as the result is printable.
fn changed(text: &str, (at, by): (u16, u8)) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = usize::from(at) % bytes.len();
    bytes[at] = by % 94 + 33;
    String::from_utf8(bytes).expect("ASCII")
}

#[test]
fn a_signed_prefix_opens_its_paths_and_no_other_in_every_place() {
    let (access, signer) = (access(), key("k1"));
    check!()
        .with_iterations(RUNS)
        .with_type::<(Vec<u8>, Vec<u8>, bool, bool)>()
        .for_each(|(prefix, path, is_folder, is_below)| {
            let end = if *is_folder { "/" } else { "" };
            let prefix = format!(
                "/m/{}{end}",
                text(&["a", "b", "/", "ü"], &prefix[..prefix.len().min(8)])
            );
            let signed = signer.sign_prefix(&prefix, NOW + 100);
            let begin = if *is_below {
                &prefix["/m/".len()..]
            } else {
                ""
            };
            let begin =
                percent_encoding::utf8_percent_encode(begin, percent_encoding::NON_ALPHANUMERIC);
            let below = format!("{begin}{}", text(PATHS, path).replace(['?', '#'], ""));
            let decoded: Vec<u8> = percent_decode_str(&format!("/m/{below}")).collect();
            let is_open = match prefix.ends_with('/') {
                true => decoded.starts_with(prefix.as_bytes()),
                false => decoded == prefix.as_bytes(),
            };
            let plain = Asked {
                below: below.clone(),
                ..Asked::default()
            };
            let query = Asked {
                query: Some(signed.clone()),
                ..plain.clone()
            };
            let cookie = Asked {
                cookie: Some(format!("x=y; tidegate={signed}").into_bytes()),
                ..plain.clone()
            };
            let segment = Asked {
                below: format!("{signed}/{below}"),
                ..plain.clone()
            };
            assert!(!plain.is_admitted(&access), "{below}");
            for (asked, place) in [(query, "query"), (cookie, "cookie"), (segment, "segment")] {
                let meant = asked.admitted(&access, &Method::GET, HOST);
                let expected = is_open.then(|| format!("/m/{below}"));
                assert_eq!(meant, expected, "{place}: {prefix} for {below}");
            }
            let late = signer.sign_prefix(&prefix, NOW - 100);
            assert!(
                !Asked {
                    query: Some(late),
                    ..plain
                }
                .is_admitted(&access)
            );
        });
}

#[test]
fn a_changed_signature_opens_no_other_path() {
    let (access, signed) = (access(), key("k1").sign_prefix("/m/a/", NOW + 100));
    let url = key("k2").presign(
        &Method::GET,
        (HOST, "/m/a/b"),
        Timestamp::from_secs(i64::try_from(NOW).expect("small")),
        Duration::from_secs(600),
    );
    let whole = Asked {
        below: "a/b".to_owned(),
        query: Some(url.clone()),
        cookie: None,
    };
    assert!(whole.is_admitted(&access), "{url}");
    check!()
        .with_iterations(RUNS)
        .with_type::<((u16, u8), Vec<u8>)>()
        .for_each(|(change, path)| {
            let below = text(PATHS, path).replace(['?', '#'], "");
            for text in [changed(&signed, *change), changed(&url, *change)] {
                let cookie = Some(format!("tidegate={text}").into_bytes());
                let query = Some(text);
                for asked in [
                    Asked {
                        below: below.clone(),
                        query: query.clone(),
                        cookie: None,
                    },
                    Asked {
                        below: below.clone(),
                        query,
                        cookie,
                    },
                ] {
                    if let Some(meant) = asked.admitted(&access, &Method::GET, HOST) {
                        let meant: Vec<u8> = percent_decode_str(&meant).collect();
                        assert!(meant.starts_with(b"/m/a/"), "{asked:?}");
                    }
                }
            }
            // A presigned URL is for one method, host and path.
            for (asked, method, host) in [
                (
                    Asked {
                        below: format!("{below}x"),
                        ..whole.clone()
                    },
                    Method::GET,
                    HOST,
                ),
                (whole.clone(), Method::PUT, HOST),
                (whole.clone(), Method::GET, "other.example"),
            ] {
                let meant = asked.admitted(&access, &method, host);
                assert!(
                    meant.is_none() || asked.below == "a/b",
                    "{asked:?} {method} {host}"
                );
                assert!(asked.below != "a/b" || meant.is_none(), "{method} {host}");
            }
        });
}

#[test]
fn credentials_that_were_not_signed_admit_nothing() {
    let access = access();
    check!()
        .with_iterations(RUNS)
        .with_type::<(Vec<u8>, Vec<u8>, Vec<u8>)>()
        .for_each(|(below, query, cookie)| {
            let asked = Asked {
                below: text(FIELDS, below).replace(['?', '#'], ""),
                query: Some(text(FIELDS, query)),
                cookie: Some(cookie.clone()),
            };
            assert!(!asked.is_admitted(&access));
            let cookie = Some(text(FIELDS, cookie).into_bytes());
            assert!(!Asked { cookie, ..asked }.is_admitted(&access));
        });
}

#[test]
fn a_signature_among_other_cookies_is_found() {
    let (access, signed) = (access(), key("k2").sign_prefix("/m/", NOW + 100));
    check!().with_iterations(RUNS).for_each(|bytes| {
        let others = text(&["a=b", "; ", "=", "\"", "tidegatex=1", " "], bytes);
        // Eight of them are looked at.
        let others = others.replace("tidegate=", "");
        let cookie = format!("{others}; tidegate={signed}; {others}");
        let asked = Asked {
            below: "x".to_owned(),
            query: None,
            cookie: Some(cookie.into_bytes()),
        };
        assert!(asked.is_admitted(&access), "{others:?}");
    });
}

#[test]
fn no_signature_is_left_for_the_log() {
    let signed = key("k1").sign_prefix("/m/", NOW);
    check!().with_iterations(RUNS).for_each(|bytes| {
        let path = text(
            &["/", "a", "%65xpires", "expires=1", "&signature=abc", "%2F"],
            bytes,
        );
        for path in [
            path.clone(),
            format!("/{signed}/{path}"),
            format!("{path}/{signed}"),
        ] {
            let shown = without_signature(&path);
            for segment in shown.split('/') {
                let decoded = percent_decode_str(segment).decode_utf8_lossy();
                let is_signature = decoded.contains("expires") && decoded.contains("signature");
                assert!(!is_signature, "{path} as {shown}");
            }
            assert_eq!(without_signature(&shown), shown);
        }
    });
}

#[test]
fn a_date_is_written_as_it_is_read() {
    check!()
        .with_iterations(RUNS)
        .with_type::<(Vec<u8>, u64)>()
        .for_each(|(bytes, seconds)| {
            let words = [
                "2027", "01", "31", "-", "T", "23", "59", "60", "Z", "+", "00", ":", "0",
            ];
            let text = text(&words, bytes);
            if let Some(seconds) = date::parse_basic(&text) {
                assert_eq!(date::format_basic(seconds), text);
            }
            let _ = date::parse(&text);
            let written = date::format_basic(*seconds);
            let read = date::parse_basic(&written).expect("it was written");
            assert!(
                read == *seconds || *seconds > read && written.starts_with("9999"),
                "{written}"
            );
        });
}

#[test]
fn a_referer_admits_by_its_host_alone() {
    let access = Access::new(Rules {
        referers: Some(Referers::new(["example.org", "*.example.org"]).expect("rules")),
        ..Rules::default()
    });
    check!().with_iterations(RUNS).for_each(|bytes| {
        let words = [
            "https://",
            "example.org",
            ".",
            "evil",
            "@",
            "/",
            "\\",
            ":80",
            "?",
            "#",
            "http:",
            "%2F",
            "[::1]",
        ];
        let page = text(&words, bytes);
        let mut headers = HeaderMap::new();
        let Ok(value) = HeaderValue::from_str(&page) else {
            return;
        };
        headers.insert(REFERER, value);
        let request = Request {
            method: &Method::GET,
            host: HOST,
            path: "/a",
            below: "a",
            query: None,
            headers: &headers,
            address: None,
            certificate: &[],
            wants_name: true,
        };
        let now = Timestamp::from_secs(0);
        if access.check(&request, now).is_admitted() {
            let (_, rest) = page.split_once("://").expect("a URL");
            let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
            let authority = rest[..end].to_ascii_lowercase();
            let host = authority.rsplit('@').next().unwrap_or_default();
            let host = host
                .split(':')
                .next()
                .unwrap_or_default()
                .trim_end_matches('.');
            let is_ours = host == "example.org" || host.ends_with(".example.org");
            assert!(is_ours, "{page}");
        }
    });
}
