use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use super::*;
use crate::{Access, Refusal, Rules, SigningKey, Verdict};

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

/// A request below the route `/m/`.
#[derive(Debug, Clone)]
struct Asked {
    method: Method,
    host: &'static str,
    below: String,
    query: Option<String>,
    cookie: Option<String>,
    now: u64,
}

impl Asked {
    fn new(below: &str) -> Self {
        Self {
            method: Method::GET,
            host: "h",
            below: below.to_owned(),
            query: None,
            cookie: None,
            now: NOW,
        }
    }

    /// Returns the rest of the path and the id of the key, as this access judges.
    fn judged(&self, access: &Access) -> Result<(String, String), Refusal> {
        let path = format!("/m/{}", self.below);
        let cookie = self.cookie.iter();
        let cookie = cookie.map(|text| (COOKIE, HeaderValue::from_str(text).expect("a value")));
        let headers: HeaderMap = cookie.collect();
        let request = Request {
            method: &self.method,
            host: self.host,
            path: &path,
            below: &path[3..],
            query: self.query.as_deref(),
            headers: &headers,
            address: None,
            certificate: &[],
            wants_name: true,
        };
        match access.check(&request, Timestamp::from_secs(self.now as i64)) {
            Verdict::Admitted { below, by } => Ok((below.to_owned(), by.expect("a key").into())),
            Verdict::Refused(refusal) | Verdict::Undecided { refusal, .. } => Err(refusal),
        }
    }
}

/// Each form of a link that is admitted for `/m/a/b`, by the key `k2`.
fn links() -> Vec<Asked> {
    let text = key("k2").sign_prefix("/m/a/", NOW + 100);
    let life = Duration::from_secs(100);
    let now = Timestamp::from_secs(NOW as i64);
    let url = key("k2").presign(&Method::GET, ("h", "/m/a/b"), now, life);
    let encoded = text.replace('&', "%26").replace('=', "%3D");
    let plain = || Asked::new("a/b");
    vec![
        Asked {
            query: Some(url.clone()),
            ..plain()
        },
        Asked {
            query: Some(format!("x=1&{text}&y")),
            ..plain()
        },
        Asked {
            query: Some(text.clone()),
            ..plain()
        },
        Asked {
            cookie: Some(format!("a=b; tidegate={text}")),
            ..plain()
        },
        Asked {
            cookie: Some(format!("tidegate=\"{encoded}\"")),
            ..plain()
        },
        Asked {
            below: format!("{text}/a/b"),
            ..plain()
        },
        Asked {
            below: format!("{encoded}/a/b"),
            ..plain()
        },
    ]
}

/// A change of a request, and whether it may be admitted all the same.
fn changes(asked: &Asked) -> Vec<Asked> {
    let asked = || asked.clone();
    let mut all = vec![
        Asked {
            method: Method::HEAD,
            ..asked()
        },
        Asked {
            host: "other",
            ..asked()
        },
        Asked {
            below: asked().below.replace("a/b", "a/c"),
            ..asked()
        },
        Asked {
            below: asked().below.replace("a/b", "c/b"),
            ..asked()
        },
        Asked {
            below: asked().below.replace("a/b", "%61/b"),
            ..asked()
        },
        Asked {
            below: asked().below.replace("a/b", "%63/b"),
            ..asked()
        },
        Asked {
            now: NOW + 159,
            ..asked()
        },
        Asked {
            now: NOW + 160,
            ..asked()
        },
        Asked {
            now: NOW - 61,
            ..asked()
        },
    ];
    let flip = |text: &str, at: usize| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[at] ^= 1;
        String::from_utf8(bytes).ok()
    };
    for at in 0..asked().query.map_or(0, |text| text.len()) {
        let query = flip(&asked().query.unwrap_or_default(), at);
        all.push(Asked { query, ..asked() });
    }
    for at in 0..asked().cookie.map_or(0, |text| text.len()) {
        let cookie = flip(&asked().cookie.unwrap_or_default(), at);
        all.push(Asked { cookie, ..asked() });
    }
    for at in 0..asked().below.len() {
        let below = flip(&asked().below, at).unwrap_or_default();
        all.push(Asked { below, ..asked() });
    }
    all
}

/// An access that has verified a link judges each change of it as one does that has verified nothing.
#[test]
fn what_is_remembered_changes_no_verdict() {
    for asked in links() {
        let known = access();
        let first = asked.judged(&known);
        assert_eq!(first, Ok(("a/b".to_owned(), "k2".to_owned())), "{asked:?}");
        assert_eq!(asked.judged(&known), first, "{asked:?}");
        for changed in changes(&asked) {
            let expected = changed.judged(&access());
            assert_eq!(
                changed.judged(&known),
                expected,
                "{changed:?} after {asked:?}"
            );
            assert_eq!(asked.judged(&known), first, "{asked:?} after {changed:?}");
        }
    }
}

/// Each form is remembered, and one access may see them all.
#[test]
fn links_of_all_forms_are_remembered_beside_each_other() {
    let known = access();
    for _ in 0..2 {
        for asked in links() {
            assert!(asked.judged(&known).is_ok(), "{asked:?}");
        }
    }
    let text = |asked: &Asked| {
        let cookie = asked
            .cookie
            .as_deref()
            .and_then(|text| text.split("tidegate=").nth(1));
        let segment = asked.below.split_once('/').map(|(first, _)| first);
        let shown = asked
            .query
            .as_deref()
            .or(cookie)
            .or(segment)
            .expect("a link");
        shown.trim_matches('"').to_owned()
    };
    for asked in links() {
        let access = access();
        let is_known = || {
            access
                .signed
                .memo
                .recall(text(&asked).as_bytes(), |_| ())
                .is_some()
        };
        assert!(!is_known(), "{asked:?}");
        assert!(asked.judged(&access).is_ok(), "{asked:?}");
        assert!(is_known(), "{asked:?}");
        assert!(!format!("{:?}", access.signed).contains(&text(&asked)));
    }
}

/// A text that was verified as a query, where it may have other fields, is no segment because of that.
#[test]
fn a_query_with_other_fields_is_no_segment() {
    let known = access();
    let text = format!("{}&y", key("k2").sign_prefix("/m/", NOW + 100));
    let query = Asked {
        query: Some(text.clone()),
        ..Asked::new("b")
    };
    assert!(query.judged(&known).is_ok());
    let segment = Asked::new(&format!("{text}/b"));
    assert_eq!(segment.judged(&known), Err(Refusal::Missing));
}

/// A text says one thing as a query, which is read as it stands, and another one as a cookie, which is decoded. Verified
/// as the one, it is not admitted as the other.
#[test]
fn an_escape_in_a_text_is_read_by_where_it_stands() {
    let text = key("k2").sign_prefix("/m/", NOW + 100);
    let query = |text: &str| Asked {
        query: Some(text.to_owned()),
        ..Asked::new("b")
    };
    let cookie = |text: &str| Asked {
        cookie: Some(format!("tidegate={text}")),
        ..Asked::new("b")
    };
    let as_cookie_alone = text.replace('=', "%3D");
    // Decoded, it has two keys.
    let as_query_alone = format!("{text}&x=%26key=k1");
    let cases = [
        (cookie(&as_cookie_alone), query(&as_cookie_alone)),
        (query(&as_query_alone), cookie(&as_query_alone)),
    ];
    for (right, wrong) in cases {
        let known = access();
        let refusal = wrong.judged(&access()).expect_err("it says another thing");
        assert!(right.judged(&known).is_ok(), "{right:?}");
        assert_eq!(wrong.judged(&known), Err(refusal), "{wrong:?}");
    }
}

#[test]
fn a_query_with_a_signature_of_both_kinds_is_not_remembered() {
    let presigned = "X-Amz-Signature=0";
    let text = format!("{presigned}&{}", key("k2").sign_prefix("/m/", NOW + 100));
    let known = access();
    let query = Asked {
        query: Some(text.clone()),
        ..Asked::new("b")
    };
    // The signed prefix in it admits; as a presigned URL it has to be judged each time.
    assert_eq!(query.judged(&known), Ok(("b".to_owned(), "k2".to_owned())));
    assert!(known.signed.memo.recall(text.as_bytes(), |_| ()).is_none());
}
