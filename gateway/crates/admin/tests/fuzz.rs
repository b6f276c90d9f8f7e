//! Fuzz targets of the operator's listener: what decides whether a page of another site asks, `Host` and `Origin`, and the
//! bodies of requests.
//!
//! Each holds a property for any input. They run as tests, [`RUNS`] inputs each; `just fuzz` gives them time.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderValue, Uri, header};
use bolero::check;
use tidegate_admin::hosts::Hosts;

#[path = "fuzz/bodies.rs"]
mod bodies;

/// The inputs of a target in a plain test run.
const RUNS: usize = 5_000;

const WORDS: &[&str] = &[
    "localhost",
    "gate.lan",
    "ops.example",
    "evil.example",
    "127.0.0.1",
    "[::1]",
    "::1",
    ":8081",
    ":",
    ".",
    "@",
    "http://",
    "https://",
    "/",
    "null",
    "[",
    "]",
    "%2e",
    "LOCALHOST",
    "\\",
    "#",
    "?",
    " ",
];

/// Returns the value of a header, of words that a parser knows, and every third time of any byte.
fn value(bytes: &[u8]) -> Option<HeaderValue> {
    let mut value = Vec::new();
    for byte in bytes.iter().take(4) {
        match WORDS.get(usize::from(*byte) % (WORDS.len() * 3 / 2)) {
            Some(word) => value.extend_from_slice(word.as_bytes()),
            None => value.push(*byte),
        }
    }
    HeaderValue::from_bytes(&value).ok()
}

/// Returns whether a host with a port is one of ours; without `is_address_own`, one that is listed.
fn is_own(text: &str, is_address_own: bool) -> bool {
    let text = text.to_ascii_lowercase();
    let host = match text.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => &text,
    };
    let host = host.trim_end_matches('.');
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_listed = host == "ops.example";
    let is_other_name = ["localhost", "gate.lan"].contains(&host);
    is_listed || (is_address_own && (is_other_name || bare.parse::<IpAddr>().is_ok()))
}

#[test]
fn a_request_that_is_admitted_names_this_listener_and_comes_from_no_other_page() {
    let hosts = Hosts::new(Some("gate.lan"), &["ops.example".to_owned()]);
    let uri = Uri::from_static("/stat");
    check!()
        .with_iterations(RUNS)
        .with_type::<(Option<Vec<u8>>, Option<Vec<u8>>, bool)>()
        .for_each(|(host, origin, is_twice)| {
            let host = host.as_deref().and_then(value);
            let origin = origin.as_deref().and_then(value);
            let mut headers = HeaderMap::new();
            for (name, value) in [(header::HOST, &host), (header::ORIGIN, &origin)] {
                if let Some(value) = value {
                    headers.append(&name, value.clone());
                }
            }
            if *is_twice && let Some(value) = &host {
                headers.append(header::HOST, value.clone());
                assert!(!hosts.admit(&uri, &headers), "two hosts");
                return;
            }
            if !hosts.admit(&uri, &headers) {
                return;
            }
            let text = |value: &Option<HeaderValue>| {
                let value = value.as_ref();
                value.map(|value| value.to_str().expect("it was read").to_owned())
            };
            let (host, origin) = (text(&host), text(&origin));
            if let Some(host) = &host {
                assert!(is_own(host, true), "{host:?}");
            }
            if let Some(origin) = origin {
                let (_, page) = origin.split_once("://").expect("a page has a scheme");
                let is_same = host.is_some_and(|host| host.eq_ignore_ascii_case(page));
                assert!(is_same || is_own(page, false), "{origin:?}");
            }
        });
}
