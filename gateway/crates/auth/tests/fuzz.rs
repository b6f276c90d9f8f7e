//! A fuzz target of what the server of `auth_request` answers: its status, its challenges, and how long that may be kept.
//!
//! It holds a property for any input. It runs as a test, [`RUNS`] inputs; `just fuzz` gives it time.

use std::time::Duration;

use bolero::check;
use http::header::{CACHE_CONTROL, WWW_AUTHENTICATE};
use http::{HeaderValue, Response};
use tidegate_auth::{Answer, read_answer};

/// The inputs of a target in a plain test run.
const RUNS: usize = 5_000;

/// The most bytes of challenges that reach a client.
const MAX_CHALLENGES: usize = 2048;

/// The longest time that an answer is kept.
const MAX_KEPT: u64 = 3600;

const WORDS: &[&str] = &[
    "max-age",
    "max-age=",
    "max-age=",
    "MAX-AGE=",
    "max-age=60",
    "s-maxage",
    "no-store",
    "No-Cache",
    "private",
    "=",
    ",",
    ",",
    ",",
    " ",
    "\t",
    "\"",
    "0",
    "1",
    "60",
    "86400",
    "18446744073709551616",
    "-",
    "+",
    ".",
];

/// Returns the value of a header, of words that a parser knows, and every third time of any byte.
fn value(bytes: &[u8]) -> Option<HeaderValue> {
    let mut value = Vec::new();
    for byte in bytes {
        match WORDS.get(usize::from(*byte) % (WORDS.len() * 3 / 2)) {
            Some(word) => value.extend_from_slice(word.as_bytes()),
            None => value.push(*byte),
        }
    }
    HeaderValue::from_bytes(&value).ok()
}

/// Returns the seconds that a directive allows; `None`: it says nothing of them.
fn allowed(directive: &str) -> Option<u64> {
    let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
    let value = value.trim().trim_matches('"');
    match &*name.trim().to_ascii_lowercase() {
        "no-store" | "no-cache" => Some(0),
        "max-age" if value.bytes().any(|byte| !byte.is_ascii_digit()) => Some(0),
        "max-age" if value.is_empty() => Some(0),
        "max-age" => Some(value.parse().unwrap_or(u64::MAX)),
        _ => None,
    }
}

#[test]
fn an_answer_admits_by_its_status_and_is_kept_no_longer_than_each_line_allows() {
    check!()
        .with_iterations(RUNS)
        .with_type::<(u16, Vec<u8>, Vec<u8>)>()
        .for_each(|(status, lines, challenges)| {
            let status = 100 + status % 500;
            let mut answer = Response::builder().status(status).body(()).expect("one");
            let lines: Vec<_> = lines.chunks(12).filter_map(value).collect();
            for line in &lines {
                answer.headers_mut().append(CACHE_CONTROL, line.clone());
            }
            let sent = challenges.iter().take(4).filter_map(|length| {
                let challenge = "x".repeat(8 * usize::from(*length));
                HeaderValue::try_from(challenge).ok()
            });
            let sent: Vec<_> = sent.collect();
            for challenge in &sent {
                let challenge = challenge.clone();
                answer.headers_mut().append(WWW_AUTHENTICATE, challenge);
            }
            let (judged, kept) = read_answer(&answer.into_parts().0);
            match (status, &judged) {
                (200..300, Answer::Admitted) | (403, Answer::Forbidden) => {}
                (401, Answer::Unauthorized(passed)) => {
                    let bytes: usize = passed.iter().map(HeaderValue::len).sum();
                    assert!(bytes <= MAX_CHALLENGES && sent.starts_with(passed));
                }
                (200..300 | 401 | 403, _) => panic!("{status}: {judged:?}"),
                (_, answer) => assert_eq!((answer, kept), (&Answer::Failed, None)),
            }
            let Some(kept) = kept else {
                return;
            };
            assert!(!kept.is_zero() && kept <= Duration::from_secs(MAX_KEPT));
            let text = |line: &HeaderValue| line.to_str().expect("it was read").to_owned();
            let texts: Vec<_> = lines.iter().map(text).collect();
            let directives = texts.iter().flat_map(|line| line.split(','));
            let shortest = directives.filter_map(allowed).min();
            let shortest = shortest.expect("a time was given").min(MAX_KEPT);
            assert_eq!(kept.as_secs(), shortest, "{texts:?}");
        });
}
