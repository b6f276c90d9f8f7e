//! Entity tags and their two comparisons (RFC 9110, 8.8.3).

use std::fmt;
use std::sync::Arc;

use md5::{Digest as _, Md5};

use crate::{Coding, hex};

/// An entity tag as the origin sent it: quoted, perhaps with a `W/` before it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ETag(Arc<str>);

impl ETag {
    /// Reads one entity tag: `"…"` or `W/"…"` with the characters that RFC 9110, 8.8.3 allows.
    ///
    /// A bare word without quotes, which some stores send, becomes the opaque part of a strong tag. Returns `None` for
    /// any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let opaque = text.strip_prefix("W/").unwrap_or(text);
        let inner = opaque
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let is_etagc = |b: u8| b == 0x21 || (0x23..=0x7e).contains(&b) || b >= 0x80;
        match inner {
            Some(inner) if inner.bytes().all(is_etagc) => Some(Self(text.into())),
            None if !text.is_empty()
                && opaque == text
                && text.bytes().all(|b| b.is_ascii_graphic() && b != b'"') =>
            {
                Some(Self(format!("\"{text}\"").into()))
            }
            _ => None,
        }
    }

    /// Computes the tag that S3 gives an object written in one request: the MD5 of its bytes (S3 API reference,
    /// "Object"). Objects that S3 encrypts with a key of the customer's have other tags.
    #[must_use]
    pub fn of_bytes<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Md5::new();
        pieces.into_iter().for_each(|piece| hash.update(piece));
        Self(format!("\"{}\"", hex(&hash.finalize())).into())
    }

    /// Computes the tag that S3 gives an object made of parts with these tags: the MD5 of their MD5s, and the number of
    /// parts. Returns `None` if a part's tag is not one of [`ETag::of_bytes`].
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let (mut hash, mut count) = (Md5::new(), 0_u32);
        for part in parts {
            let digits = part.0.strip_prefix('"')?.strip_suffix('"')?;
            if digits.len() != 32 || !digits.is_ascii() {
                return None;
            }
            for at in (0..32).step_by(2) {
                hash.update([u8::from_str_radix(&digits[at..at + 2], 16).ok()?]);
            }
            count += 1;
        }
        Some(Self(
            format!("\"{}-{count}\"", hex(&hash.finalize())).into(),
        ))
    }

    /// Returns the tag as it stands in a header, quotes included.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the tag is marked weak.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.0.starts_with("W/")
    }

    /// Compares strongly (RFC 9110, 8.8.3.2): both strong, and alike.
    #[must_use]
    pub fn strong_eq(&self, other: &Self) -> bool {
        !self.is_weak() && !other.is_weak() && self.0 == other.0
    }

    /// Compares weakly (RFC 9110, 8.8.3.2): the opaque parts alike, weak or not.
    #[must_use]
    pub fn weak_eq(&self, other: &Self) -> bool {
        self.opaque() == other.opaque()
    }

    /// Returns the tag of the bytes with this tag after `coding`. It is a tag of its own (RFC 9110, 8.8.3.3), and weak,
    /// because another release may encode the same bytes otherwise.
    #[must_use]
    pub fn variant(&self, coding: Coding) -> Self {
        let opaque = self.opaque().trim_end_matches('"');
        Self(format!("W/{opaque}-{}\"", coding.name()).into())
    }

    fn opaque(&self) -> &str {
        self.0.strip_prefix("W/").unwrap_or(&self.0)
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
