//! Fuzz targets of what decides about a client by its headers: `X-Forwarded-For`, and the tags of a `PURGE`.
//!
//! Each holds a property for any input. They run as tests, [`RUNS`] inputs each; `just fuzz` gives them time.

use std::net::IpAddr;

use bolero::check;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_http::{PurgeTarget, client_address, purge_target};
use tidegate_plan::Network;
use tidegate_plan::tags::{MAX_TAG, MAX_TAGS};

/// The inputs of a target in a plain test run.
const RUNS: usize = 5_000;

/// Returns the value of a header, of words that a parser knows, and every third time of any byte.
fn value(words: &[&str], bytes: &[u8]) -> Option<HeaderValue> {
    let mut value = Vec::new();
    for byte in bytes {
        match words.get(usize::from(*byte) % (words.len() * 3 / 2)) {
            Some(word) => value.extend_from_slice(word.as_bytes()),
            None => value.push(*byte),
        }
    }
    HeaderValue::from_bytes(&value).ok()
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const HOPS: &[&str] = &[
    "10.0.0.1",
    "10.0.0.2:80",
    "198.51.100.7",
    "127.0.0.1",
    "::1",
    "[2001:db8::1]",
    "[2001:db8::1]:443",
    "::ffff:10.0.0.1",
    ",",
    ", ",
    " ",
    "unknown",
    "_hidden",
    "[",
    "]",
    ":",
    "fe80::1%eth0",
    "0x7f000001",
    "\t",
];

fn address(text: &str) -> IpAddr {
    text.parse().expect(text)
}

#[test]
fn only_a_trusted_proxy_says_what_the_client_is() {
    let trusted: [Network; 1] = ["10.0.0.0/8".parse().expect("a network")];
    let (proxy, client) = (address("10.9.9.9"), address("203.0.113.1"));
    let named = HeaderValue::from_static("203.0.113.1, 10.0.0.3");
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<Vec<u8>>>()
        .for_each(|lines| {
            let lines = lines.iter().take(4);
            let lines: Vec<_> = lines.filter_map(|line| value(HOPS, line)).collect();
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(FORWARDED_FOR, line.clone());
            }
            // A client that is no proxy names no other client.
            let alone = client_address(Some(client), &headers, &trusted);
            assert_eq!(alone.counted, Some(client), "{lines:?}");
            assert_eq!(alone.admitting(&headers).is_some(), lines.is_empty());
            // An address is the peer's, or one that a line has in some form; what opens something is counted as well.
            let behind = client_address(Some(proxy), &headers, &trusted);
            let counted = behind.counted.expect("a peer");
            assert!(counted == proxy || !lines.is_empty(), "{lines:?}");
            assert_eq!(counted, counted.to_canonical());
            let admitting = behind.admitting(&headers);
            assert!(admitting.is_none_or(|one| one == counted), "{lines:?}");
            // What a client writes before the proxy's entry changes nothing.
            headers.append(FORWARDED_FOR, named.clone());
            let behind = client_address(Some(proxy), &headers, &trusted);
            assert_eq!(behind.counted, Some(client), "{lines:?}");
            assert_eq!(behind.admitting(&headers), Some(client), "{lines:?}");
        });
}

const PURGE_HEADERS: [&str; 6] = [
    "xkey",
    "xkey-purge",
    "xkey-softpurge",
    "surrogate-key",
    "x-purge-method",
    "fastly-soft-purge",
];

const PURGE_WORDS: &[&str] = &[
    "regex", "REGEX", "soft", "1", "a", "post-1", ",", " ", ", ", "\t", "*", ".*", "\"", "ü",
];

const PATHS: [&str; 6] = ["/", "/.*", "/a/.*", "/a/.*/b.*", "/(a|b)", "/b"];

#[test]
fn a_purge_means_its_tags_or_else_its_path() {
    check!()
        .with_iterations(RUNS / 10)
        .with_type::<(u8, u8, Vec<(u8, Vec<u8>)>)>()
        .for_each(|(path, times, lines)| {
            let path = PATHS[usize::from(*path) % PATHS.len()];
            let mut headers = HeaderMap::new();
            for (name, bytes) in lines.iter().take(8) {
                let name = PURGE_HEADERS[usize::from(*name) % PURGE_HEADERS.len()];
                let bytes = bytes.repeat(usize::from(*times) + 1);
                if let Some(value) = value(PURGE_WORDS, &bytes) {
                    headers.append(name, value);
                }
            }
            let is_tag_list = |name: &HeaderName| PURGE_HEADERS[..4].contains(&name.as_str());
            let lists = headers.iter().filter(|(name, _)| is_tag_list(name));
            let lists: Vec<_> = lists.map(|(_, list)| list.as_bytes()).collect();
            let is_between = |byte: &u8| b", \t".contains(byte);
            let names_tags = !lists.iter().all(|list| list.iter().all(is_between));
            match purge_target(&headers, path) {
                Ok(PurgeTarget::Tags(tags)) => {
                    assert!((1..=MAX_TAGS).contains(&tags.len()));
                    for tag in tags {
                        let tag = tag.to_string();
                        assert!((1..=MAX_TAG).contains(&tag.len()), "{tag}");
                        let holds = |list: &&[u8]| {
                            let mut parts = list.split(is_between);
                            parts.any(|part| part == tag.as_bytes())
                        };
                        assert!(lists.iter().any(holds), "{tag} in {headers:?}");
                    }
                }
                Ok(PurgeTarget::Prefix(prefix)) => {
                    assert!(!names_tags, "{headers:?}");
                    assert_eq!(format!("{prefix}.*"), path);
                }
                Ok(PurgeTarget::Path(whole)) => {
                    assert!(!names_tags, "{headers:?}");
                    assert_eq!(whole, path);
                }
                Err(error) => {
                    let is_of_tags = error.to_string().contains("tag");
                    assert!(is_of_tags == names_tags, "{error}: {headers:?}");
                }
            }
        });
}
