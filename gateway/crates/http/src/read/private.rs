//! `Cache-Control: private`, on answers that depend on credentials (RFC 9111, 5.2.2.7).

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};

/// The directives that forbid something, by name. Without an argument they forbid the most.
const STRICT: [&str; 4] = ["no-cache", "no-store", "no-transform", "must-revalidate"];

/// Makes an answer private: no shared cache may keep it. Its other directives stay, except those that are for shared
/// caches alone.
pub(super) fn make_private(headers: &mut HeaderMap) {
    let mut directives = vec!["private".to_owned()];
    for line in headers.get_all(CACHE_CONTROL) {
        let line = String::from_utf8_lossy(line.as_bytes());
        match split(&line) {
            Some(own) => directives.extend(own.filter(|one| !is_shared(one)).map(str::to_owned)),
            None => directives.extend(strict(&line).map(str::to_owned)),
        }
    }
    let value = HeaderValue::try_from(directives.join(", "));
    headers.insert(CACHE_CONTROL, value.expect("it was a header value"));
}

/// Returns whether a route's own `Cache-Control` says that shared caches may keep its answers.
pub(crate) fn lets_share(own: &HeaderValue) -> bool {
    let line = String::from_utf8_lossy(own.as_bytes());
    let lets = |directive: &str| {
        let name = directive.split('=').next().unwrap_or_default().trim_end();
        name.eq_ignore_ascii_case("public") || name.eq_ignore_ascii_case("s-maxage")
    };
    split(&line).is_some_and(|mut directives| directives.any(lets))
}

/// Returns the directives of a line; `None` if a quote in it is not that of an argument (RFC 9110, 5.6.4).
fn split(line: &str) -> Option<impl Iterator<Item = &str>> {
    let (mut directives, mut begin, mut at) = (Vec::new(), 0, 0);
    while let Some(next) = line[at..].find([',', '"']) {
        let end = at + next;
        let own = &line[begin..end];
        match line[end..].starts_with(',') {
            true => {
                directives.push(own);
                (begin, at) = (end + 1, end + 1);
            }
            false if !own.trim_end().ends_with('=') => return None,
            false => {
                at = end + 1 + quoted(&line[end + 1..])?;
                let behind = line[at..].trim_start();
                if !(behind.is_empty() || behind.starts_with(',')) {
                    return None;
                }
            }
        }
    }
    directives.push(&line[begin..]);
    let directives = directives.into_iter().map(str::trim);
    Some(directives.filter(|one| !one.is_empty()))
}

/// Returns the length of a quoted string without its opening quote; `None` if it does not end.
fn quoted(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map(|end| end + 1)
}

/// Returns what holds of a line that is malformed: it may be kept for no use without a confirmation, and what it names of
/// [`STRICT`] holds.
fn strict(line: &str) -> impl Iterator<Item = &'static str> {
    let has = |name: &str| {
        let mut words = line.split([',', '"', '=']).map(str::trim);
        words.any(|word| word.eq_ignore_ascii_case(name))
    };
    let named = |name: &&str| *name == "no-cache" || has(name);
    let found: Vec<_> = STRICT.into_iter().filter(named).collect();
    found.into_iter()
}

fn is_shared(directive: &str) -> bool {
    let name = directive.split('=').next().unwrap_or_default().trim_end();
    ["public", "private", "s-maxage", "proxy-revalidate"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_shared_caches_goes_and_the_rest_stays() {
        for (lines, expected) in [
            (&[][..], "private"),
            (&["public, max-age=60"], "private, max-age=60"),
            (
                &["PUBLIC", "S-MaxAge = 9", "immutable"],
                "private, immutable",
            ),
            (&["no-store"], "private, no-store"),
            (&["private,no-transform,"], "private, no-transform"),
            (&["private=\"a, b\", max-age=1"], "private, max-age=1"),
            (
                &["no-cache=\"set-cookie\", no-store"],
                "private, no-cache=\"set-cookie\", no-store",
            ),
            (
                &["x=\"a\\\"b, public, c\" , public,\tmax-age = \"5\""],
                "private, x=\"a\\\"b, public, c\", max-age = \"5\"",
            ),
            (
                &["max-age=60, x=\"a", "no-store", "x=\"b"],
                "private, no-cache, no-store, no-cache",
            ),
            (
                &["no-transform, max-age=0, private=\"b, no-store, must-revalidate"],
                "private, no-cache, no-store, no-transform, must-revalidate",
            ),
            (&["x=a\"b, NO-STORE, c\""], "private, no-cache, no-store"),
            (&["x=\"a\"b, no-store"], "private, no-cache, no-store"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(CACHE_CONTROL, HeaderValue::from_static(line));
            }
            make_private(&mut headers);
            let found: Vec<_> = headers.get_all(CACHE_CONTROL).iter().collect();
            assert_eq!(found, [expected], "{lines:?}");
        }
    }
}
