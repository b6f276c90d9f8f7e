//! The path of a request without its signature: below the route, and in the log.

use super::*;

/// Splits a path below the root.
fn split(below: &str) -> (Option<String>, String) {
    let path = format!("/{below}");
    let headers = HeaderMap::new();
    let request = Request {
        method: &Method::GET,
        host: "",
        path: &path,
        below: &path[1..],
        query: None,
        headers: &headers,
        address: None,
        certificate: &[],
        wants_name: true,
    };
    let now = Timestamp::from_secs(NOW as i64);
    let access = access();
    let (segment, rest) = access.signed.split_segment(&request, now);
    let text = segment.map(|shown| match shown {
        PresentedPrefix::Text { text, .. } => text.into_owned(),
        PresentedPrefix::Admitted(key) => panic!("{key} was not asked"),
        PresentedPrefix::Cookie(text) => panic!("{text} is a segment"),
    });
    (text, rest.to_owned())
}

#[test]
fn a_segment_is_cut_off_whole_or_not_at_all() {
    let text = signed("/private/");
    for (below, rest) in [
        (format!("{text}/a/b"), "a/b"),
        (format!("{text}/"), ""),
        (text.clone(), ""),
        (format!("{text}//a"), "/a"),
    ] {
        assert_eq!(split(&below), (Some(text.clone()), rest.to_owned()));
    }
    for below in [
        format!("{text}&more=1/a"),
        format!("a/{text}/b"),
        "expires=1/a".to_owned(),
        "expires".to_owned(),
        format!("/{text}/a"),
        "expires%FF/a".to_owned(),
    ] {
        assert_eq!(split(&below), (None, below.clone()));
    }
}

#[test]
fn the_log_has_no_signature() {
    let text = signed("/private/");
    let encoded = text.replace('&', "%26").replace('=', "%3D");
    for (path, logged) in [
        ("/a/b".to_owned(), "/a/b"),
        ("/expires=1/b".to_owned(), "/expires=1/b"),
        (format!("/private/{text}/a"), "/private/a"),
        (format!("/private/{encoded}/a"), "/private/a"),
        (format!("/private/{text}"), "/private"),
        (format!("/{text}/{text}/a"), "/a"),
        (format!("/private/{text}&x/a"), "/private/a"),
        (
            format!("/private/{}/a", text.replace("signature=", "%73ignature=")),
            "/private/a",
        ),
        (format!("/private%2F{text}/a"), "/a"),
        (
            "/private/%65xpires=%ff&signature=0/a".to_owned(),
            "/private/a",
        ),
        (
            "/expired%ff/signatures/b".to_owned(),
            "/expired%ff/signatures/b",
        ),
    ] {
        assert_eq!(without_signature(&path), logged, "{path}");
    }
}

/// The log must know each spelling of a signature that opens a path.
#[test]
fn the_log_has_no_spelling_of_a_signature_that_is_admitted() {
    let text = signed("/private/");
    let hex = text.rsplit('=').next().expect("the signature");
    let respelled = text.replace("signature=", "%73ignature=");
    for below in [text.clone(), respelled] {
        for route in ["/private/", "/private%2F"] {
            let path = format!("{route}{below}/x");
            let headers = HeaderMap::new();
            let request = Request {
                method: &Method::GET,
                host: "",
                path: &path,
                below: &path[route.len()..],
                query: None,
                headers: &headers,
                address: None,
                certificate: &[],
                wants_name: true,
            };
            let access = access();
            let verdict = access.check(&request, Timestamp::from_secs(NOW as i64));
            assert!(verdict.is_admitted(), "{path}");
            assert!(!without_signature(&path).contains(hex), "{path}");
        }
    }
}
