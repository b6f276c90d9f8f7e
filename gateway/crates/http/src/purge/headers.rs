//! The headers of a `PURGE`: the tags that it names, and how its path is meant.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_plan::tags::{MAX_TAGS, Tag, split_tags};

static PURGE_METHOD: HeaderName = HeaderName::from_static("x-purge-method");

/// The end of a path that means everything that begins with what is before it.
const ANYTHING: &str = ".*";

/// The headers that name tags: of libraries for Varnish's `xkey` (the first one means a soft purge), and Fastly's.
static TAG_LISTS: [HeaderName; 4] = [
    HeaderName::from_static("xkey-softpurge"),
    HeaderName::from_static("xkey-purge"),
    HeaderName::from_static("xkey"),
    HeaderName::from_static("surrogate-key"),
];

/// Fastly's header for a soft purge.
static SOFT_PURGE: HeaderName = HeaderName::from_static("fastly-soft-purge");

/// The reason why headers are refused, for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PurgeHeaderError(pub(super) &'static str);

const BAD_TAG: PurgeHeaderError =
    PurgeHeaderError("a tag is up to 1024 bytes of visible ASCII without spaces and commas");
const TOO_MANY_TAGS: PurgeHeaderError = PurgeHeaderError("there are more than 1000 tags");
const OTHER_EXPRESSION: PurgeHeaderError =
    PurgeHeaderError("of expressions, only a path that ends in .* is purged");

/// The objects that a `PURGE` means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PurgeTarget<'p> {
    /// Those with one of these tags; the path does not count.
    Tags(BTreeSet<Tag>),
    /// Those whose path begins with this one.
    Prefix(&'p str),
    /// That of this path.
    Path(&'p str),
}

/// Returns what a `PURGE` of a path means with these headers.
///
/// # Errors
/// They name too many tags, or one of another form; or, without tags, the path is an expression that is not known.
pub fn purge_target<'p>(
    headers: &HeaderMap,
    path: &'p str,
) -> Result<PurgeTarget<'p>, PurgeHeaderError> {
    let tags = tags(headers)?;
    if !tags.is_empty() {
        return Ok(PurgeTarget::Tags(tags));
    }
    let is_regex = headers
        .get(&PURGE_METHOD)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"regex"));
    if !is_regex {
        return Ok(PurgeTarget::Path(path));
    }
    match path.strip_suffix(ANYTHING) {
        Some(prefix) if !prefix.contains(ANYTHING) => Ok(PurgeTarget::Prefix(prefix)),
        _ => Err(OTHER_EXPRESSION),
    }
}

/// Returns the tags that a request names.
fn tags(headers: &HeaderMap) -> Result<BTreeSet<Tag>, PurgeHeaderError> {
    let lists = TAG_LISTS.iter().flat_map(|name| headers.get_all(name));
    let mut tags = BTreeSet::new();
    for list in lists {
        let list = list.to_str().map_err(|_| BAD_TAG)?;
        for tag in split_tags(list) {
            tags.insert(Tag::new(tag).map_err(|_| BAD_TAG)?);
        }
        if tags.len() > MAX_TAGS {
            return Err(TOO_MANY_TAGS);
        }
    }
    Ok(tags)
}

/// Returns whether a purge only makes stale.
pub(super) fn is_soft(headers: &HeaderMap) -> bool {
    let says = |name: &HeaderName, value: &[u8]| {
        let header = headers.get(name);
        header.is_some_and(|found: &HeaderValue| found.as_bytes().eq_ignore_ascii_case(value))
    };
    says(&PURGE_METHOD, b"soft") || says(&SOFT_PURGE, b"1") || headers.contains_key(&TAG_LISTS[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers<const N: usize>(pairs: [(HeaderName, &str); N]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).expect("a value");
        let pairs = pairs.map(|(name, text)| (name, value(text)));
        pairs.into_iter().collect()
    }

    #[test]
    fn tags_come_from_the_headers_of_varnish_and_fastly() {
        let [softpurge, purge, _, surrogate] = TAG_LISTS.clone();
        let named = |headers: &HeaderMap| {
            let tags = tags(headers).map(|tags| tags.iter().map(Tag::to_string).collect());
            (tags, is_soft(headers))
        };
        let is = |tags: &[&str], soft| {
            let tags: Vec<_> = tags.iter().map(|tag| (*tag).to_owned()).collect();
            (Ok(tags), soft)
        };
        assert_eq!(named(&headers([])), is(&[], false));
        assert_eq!(named(&headers([(purge, "b, a b")])), is(&["a", "b"], false));
        assert_eq!(named(&headers([(softpurge, "a")])), is(&["a"], true));
        let fastly = headers([(surrogate.clone(), "a b"), (SOFT_PURGE.clone(), "1")]);
        assert_eq!(named(&fastly), is(&["a", "b"], true));
        assert_eq!(
            named(&headers([(PURGE_METHOD.clone(), "Soft")])),
            is(&[], true)
        );
        let many: Vec<_> = (0..=MAX_TAGS).map(|tag| tag.to_string()).collect();
        for bad in ["\u{e4}", &"x".repeat(1025), &many.join(" ")] {
            let found = tags(&headers([(surrogate.clone(), bad)]));
            assert!(found.is_err());
        }
    }

    #[test]
    fn only_the_end_of_a_path_is_an_expression() {
        let regex = headers([(PURGE_METHOD.clone(), "Regex")]);
        let of = |path| purge_target(&regex, path);
        assert_eq!(of("/.*"), Ok(PurgeTarget::Prefix("/")));
        let folder = PurgeTarget::Prefix("/wp-content/");
        assert_eq!(of("/wp-content/.*"), Ok(folder));
        for path in ["/", "/a", "/.*/b", "/.*/.*", "/(a|b).*x"] {
            assert_eq!(of(path), Err(OTHER_EXPRESSION), "{path}");
        }
        let plain = purge_target(&HeaderMap::new(), "/.*");
        assert_eq!(
            plain,
            Ok(PurgeTarget::Path("/.*")),
            "a name may be spelled so"
        );
    }
}
