//! Tags of objects: a header of the object names them, and a purge of a tag covers every object that has it.

use std::fmt;

use http::HeaderName;

use super::Version;

/// The header that names an object's tags if the configuration says nothing else.
pub const DEFAULT_TAGS_HEADER: &str = "x-amz-meta-cache-tags";

/// The longest tag in bytes.
pub const MAX_TAG: usize = 1024;

/// The most tags of one object that are told apart.
pub const MAX_TAGS: usize = 1000;

/// A tag: visible ASCII without a comma.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(String);

/// The reason why a text is no tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TagError {
    /// It is empty.
    #[error("a tag is empty")]
    Empty,
    /// It has more than [`MAX_TAG`] bytes.
    #[error("a tag is longer than {MAX_TAG} bytes")]
    TooLong,
    /// It has a space, a comma, a control character, or one beyond ASCII.
    #[error("a tag is visible ASCII without spaces and commas")]
    BadCharacter,
}

impl Tag {
    /// Checks a tag.
    ///
    /// # Errors
    /// The reason why the text is no tag.
    pub fn new(text: &str) -> Result<Self, TagError> {
        if text.is_empty() {
            return Err(TagError::Empty);
        }
        if text.len() > MAX_TAG {
            return Err(TagError::TooLong);
        }
        let is_right = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        if !text.bytes().all(is_right) {
            return Err(TagError::BadCharacter);
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Splits a list of tags: by spaces (`Surrogate-Key`), by commas, or by both (`xkey`).
pub fn split_tags(list: &str) -> impl Iterator<Item = &str> {
    let is_between = |one: char| one == ',' || one.is_ascii_whitespace();
    list.split(is_between).filter(|tag| !tag.is_empty())
}

/// Returns the tags of a version, in all headers of this name. Texts that are no [`Tag`] are among them; no purge names
/// them.
pub fn tags_of<'v>(version: &'v Version, header: &'v HeaderName) -> impl Iterator<Item = &'v str> {
    let own = version
        .headers
        .iter()
        .filter(move |(name, _)| name == header);
    own.filter_map(|(_, value)| value.to_str().ok())
        .flat_map(split_tags)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::ETag;

    #[test]
    fn a_tag_is_one_visible_word() {
        for right in ["a", "post-17", "node:4/full", "~!", &"x".repeat(MAX_TAG)] {
            assert_eq!(
                Tag::new(right).map(|tag| tag.to_string()).as_deref(),
                Ok(right)
            );
        }
        for (wrong, error) in [
            ("", TagError::Empty),
            (&*"x".repeat(MAX_TAG + 1), TagError::TooLong),
            ("a b", TagError::BadCharacter),
            ("a,b", TagError::BadCharacter),
            ("a\n", TagError::BadCharacter),
            ("a\0", TagError::BadCharacter),
            ("ä", TagError::BadCharacter),
        ] {
            assert_eq!(Tag::new(wrong), Err(error), "{wrong:?}");
        }
    }

    #[test]
    fn lists_are_those_of_surrogate_key_and_xkey() {
        for (list, tags) in [
            ("a b  c", vec!["a", "b", "c"]),
            ("a,b, c", vec!["a", "b", "c"]),
            (" a\tb,,", vec!["a", "b"]),
            (" , ", vec![]),
        ] {
            assert_eq!(split_tags(list).collect::<Vec<_>>(), tags, "{list:?}");
        }
    }

    #[test]
    fn a_version_has_the_tags_of_all_its_headers_of_the_name() {
        let header = HeaderName::from_static(DEFAULT_TAGS_HEADER);
        let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).expect("a value");
        let version = Version {
            etag: ETag::parse("\"1\"").expect("an ETag"),
            size: 1,
            last_modified: None,
            version_id: None,
            headers: vec![
                (header.clone(), value("a b")),
                (HeaderName::from_static("x-amz-meta-other"), value("c")),
                (header.clone(), value("d")),
                (header.clone(), value("\u{fc}")),
            ],
        };
        assert_eq!(
            tags_of(&version, &header).collect::<Vec<_>>(),
            ["a", "b", "d"]
        );
    }
}
