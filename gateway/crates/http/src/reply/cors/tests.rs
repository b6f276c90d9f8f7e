use http::header::VARY;

use super::*;

fn request(origin: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ORIGIN, HeaderValue::from_static(origin));
    headers.insert(
        ACCESS_CONTROL_REQUEST_METHOD,
        HeaderValue::from_static("GET"),
    );
    headers
}

#[test]
fn allows_all_or_those_listed() {
    let all = Cors::default();
    let one = Cors {
        origins: vec!["https://a.example".into()],
        ..Cors::default()
    };
    let rows = [
        (&all, "https://a.example", Some("*"), None),
        (
            &one,
            "https://a.example",
            Some("https://a.example"),
            Some("Origin"),
        ),
        (&one, "https://b.example", None, Some("Origin")),
        (&one, "null", None, Some("Origin")),
    ];
    for (cors, origin, allowed, vary) in rows {
        let asked = |cors: &Cors, request: &HeaderMap, answer: &mut HeaderMap| {
            preflight(cors, false, request, answer);
        };
        for act in [apply, asked] {
            let mut answer = HeaderMap::new();
            act(cors, &request(origin), &mut answer);
            let text = |value: &HeaderValue| value.to_str().expect("text").to_owned();
            let found = answer.get(ACCESS_CONTROL_ALLOW_ORIGIN).map(text);
            assert_eq!(found.as_deref(), allowed, "{origin}");
            assert_eq!(answer.get(VARY).map(text).as_deref(), vary, "{origin}");
        }
    }
    let mut answer = HeaderMap::new();
    apply(&all, &request("https://a.example"), &mut answer);
    assert_eq!(answer[ACCESS_CONTROL_EXPOSE_HEADERS], EXPOSED_HEADERS);
    preflight(&all, true, &request("https://a.example"), &mut answer);
    assert_eq!(answer[ACCESS_CONTROL_MAX_AGE], "86400");
    let allowed: Vec<_> = answer
        .get_all(ACCESS_CONTROL_ALLOW_HEADERS)
        .iter()
        .collect();
    assert_eq!(
        allowed,
        [ALLOWED_HEADERS, HeaderValue::from_static("Authorization")]
    );
}

#[test]
fn an_options_request_that_is_no_preflight_gets_nothing() {
    let mut answer = HeaderMap::new();
    preflight(&Cors::default(), true, &HeaderMap::new(), &mut answer);
    assert!(answer.is_empty());
}
