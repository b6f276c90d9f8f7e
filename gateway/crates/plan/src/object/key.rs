//! The mapping from a request's path to an object's key: the key *is* the path.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::sync::Arc;

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode,
};

/// The longest key that S3 takes, in bytes of UTF-8 (S3 user guide, "Object key naming").
pub const MAX_KEY: usize = 1024;

/// The characters that are not escaped in a path or query (RFC 3986, 3.3, less `&`, `+` and `=`).
const UNESCAPED_CHARACTERS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'(')
    .remove(b')')
    .remove(b',')
    .remove(b':')
    .remove(b'@');

/// Returns a key, or the end of one, in its one percent-encoded spelling for a path.
#[must_use]
pub fn encode_path(key: &str) -> PercentEncode<'_> {
    utf8_percent_encode(key, UNESCAPED_CHARACTERS)
}

/// The name of an object in its bucket: 1 to 1,024 bytes of UTF-8 without NUL and without `.` or
/// `..` segments, so that it means the same to every client and proxy in between.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(Arc<str>);

/// The error of a text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The key is empty.
    #[error("the key is empty")]
    Empty,
    /// The key is longer than [`MAX_KEY`].
    #[error("the key is longer than {MAX_KEY} bytes")]
    TooLong,
    /// The bytes are not UTF-8, or there is a NUL among them.
    #[error("the key is not valid text")]
    NotText,
    /// There is a `.` or `..` segment, plain or percent-encoded.
    #[error("the key has a dot segment")]
    DotSegment,
    /// A path names a key that begins with a slash.
    #[error("the key begins with a slash")]
    LeadingSlash,
}

impl ObjectKey {
    /// Checks a key that is written out in full, not percent-encoded.
    ///
    /// # Errors
    /// The first of the rules above that the key breaks.
    pub fn new(key: &str) -> Result<Self, KeyError> {
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        if key.len() > MAX_KEY {
            return Err(KeyError::TooLong);
        }
        if key.as_bytes().contains(&0) {
            return Err(KeyError::NotText);
        }
        if has_dot_segment(key) {
            return Err(KeyError::DotSegment);
        }
        Ok(Self(key.into()))
    }

    /// Returns the key that a request target's path names below a route: `prefix` and the path after the route's own,
    /// percent-decoded exactly once (RFC 3986, 2.4). `+` stands for itself, and `//` is kept.
    ///
    /// A key begins with a slash only where `prefix` does: MinIO leaves the slash out and gives another object, which
    /// purges and events would not reach under this name.
    ///
    /// # Errors
    /// As for [`ObjectKey::new`], on the decoded text; [`KeyError::LeadingSlash`].
    pub fn from_path(prefix: &str, path: &str) -> Result<Self, KeyError> {
        let decoded = match path.as_bytes().contains(&b'%') {
            false => Cow::Borrowed(path),
            true => percent_decode_str(path)
                .decode_utf8()
                .map_err(|_| KeyError::NotText)?,
        };
        if prefix.is_empty() {
            let key = Self::new(&decoded)?;
            return match decoded.starts_with('/') {
                true => Err(KeyError::LeadingSlash),
                false => Ok(key),
            };
        }
        Self::new(&format!("{prefix}{decoded}"))
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a segment between slashes is `.` or `..`, in a text that is not percent-encoded.
#[must_use]
pub fn has_dot_segment(key: &str) -> bool {
    // Most keys show at a glance that they have none.
    let is_behind_slash = |pair: &[u8]| pair == b"/.";
    (key.starts_with('.') || key.as_bytes().windows(2).any(is_behind_slash))
        && key
            .split('/')
            .any(|segment| segment == "." || segment == "..")
}

/// Keys are hashed and ordered as their text.
impl Borrow<str> for ObjectKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests;
