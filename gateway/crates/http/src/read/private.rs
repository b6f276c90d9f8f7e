//! `Cache-Control: private`, on answers that depend on credentials (RFC 9111, 5.2.2.7).

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderValue};

/// Makes an answer private: no shared cache may keep it. Its other directives stay, except those that are for shared
/// caches alone.
pub(super) fn make_private(headers: &mut HeaderMap) {
    let lines = headers.get_all(CACHE_CONTROL).iter();
    let text: Vec<_> = lines.filter_map(|value| value.to_str().ok()).collect();
    let text = text.join(",");
    let mut directives = vec!["private"];
    // A quoted argument may hold a comma. Such a line is rare, and less of it is always safe.
    if !text.contains('"') {
        let own = text.split(',').map(str::trim);
        directives.extend(own.filter(|one| !one.is_empty() && !is_shared(one)));
    }
    let value = HeaderValue::try_from(directives.join(", "));
    headers.insert(CACHE_CONTROL, value.expect("it was a header value"));
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
            (&["private=\"a, b\", max-age=1"], "private"),
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
