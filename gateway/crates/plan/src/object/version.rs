//! The identity of bytes. The version is part of every chunk's address, so a stale chunk cannot be addressed.

use std::borrow::Cow;
use std::fmt;

use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, EXPIRES,
};
use http::{HeaderName, HeaderValue};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use crate::{Coding, ETag, ObjectKey, Timestamp};

/// The headers that an object is stored with and answered with, beside `x-amz-meta-*`.
const STORED_HEADERS: [HeaderName; 6] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    CONTENT_DISPOSITION,
    CONTENT_LANGUAGE,
    CACHE_CONTROL,
    EXPIRES,
];

/// Returns whether a header is the object's own: stored with it, and part of each of its answers.
#[must_use]
pub fn is_stored_header(name: &HeaderName) -> bool {
    STORED_HEADERS.contains(name) || name.as_str().starts_with("x-amz-meta-")
}

/// The identity of a bucket at an endpoint as an access sees it ([`Bucket`](crate::Bucket)): a hash, stable across
/// restarts and independent of the origin's configured name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginId(pub u64);

impl OriginId {
    /// Returns the identity of `bucket` at `endpoint` for an access without a name.
    #[must_use]
    pub fn new(endpoint: &str, bucket: &str) -> Self {
        let mut text = endpoint.trim_end_matches('/').to_ascii_lowercase();
        text.push('\0');
        text.push_str(bucket);
        Self(xxh3_64(text.as_bytes()))
    }
}

/// One object in any of its versions.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The identity of its bucket.
    pub origin: OriginId,
    /// Its key there.
    pub key: ObjectKey,
}

impl ObjectId {
    /// Returns whether this is an object of this bucket whose key begins with `prefix`.
    #[must_use]
    pub fn is_below(&self, origin: OriginId, prefix: &str) -> bool {
        self.origin == origin && self.key.as_str().starts_with(prefix)
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}/{:?}", self.origin.0, self.key)
    }
}

/// The address under which chunks of one version are cached: 128 bits over origin, key, ETag, size
/// and purge generation, and the time if the tag is weak.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionId(pub u128);

impl VersionId {
    /// Hashes everything that distinguishes one version's bytes from another's. `generation` is the number of the last
    /// purge that covered the key: chunks cached before it become unreachable. A weak tag may stay while bytes change
    /// (RFC 9110, 8.8.1), so the time counts with it.
    #[must_use]
    pub fn new(id: &ObjectId, version: &Version, generation: u64) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&id.origin.0.to_le_bytes());
        hash.update(&generation.to_le_bytes());
        hash.update(&version.size.to_le_bytes());
        hash.update(&xxh3_128(id.key.as_str().as_bytes()).to_le_bytes());
        hash.update(version.etag.as_str().as_bytes());
        if let (true, Some(time)) = (version.etag.is_weak(), version.last_modified) {
            hash.update(&time.0.to_le_bytes());
        }
        Self(hash.digest128())
    }

    /// Returns the address of this version's bytes after `coding`. It becomes unreachable with the version after a
    /// purge or a change.
    #[must_use]
    pub fn variant(self, coding: Coding) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&self.0.to_le_bytes());
        hash.update(coding.name().as_bytes());
        Self(hash.digest128())
    }

    /// Returns the address of this variant's bytes, which are `size` bytes with this hash.
    #[must_use]
    pub fn with_encoding(self, size: u64, hash_of_bytes: u128) -> Self {
        let mut hash = Xxh3::new();
        hash.update(&self.0.to_le_bytes());
        hash.update(&size.to_le_bytes());
        hash.update(&hash_of_bytes.to_le_bytes());
        Self(hash.digest128())
    }
}

impl fmt::Debug for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The origin's description of one version of an object: its validators, size and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The validator that every further request for this version carries as `If-Match`.
    pub etag: ETag,
    /// Length in bytes.
    pub size: u64,
    /// The time of its last write, to the second; only this changes if only metadata is corrected.
    pub last_modified: Option<Timestamp>,
    /// The bucket's own id of this version, if the bucket keeps versions.
    pub version_id: Option<String>,
    /// The object's own headers that are passed on (`content-type`, `content-encoding`,
    /// `content-disposition`, `content-language`, `cache-control`, `expires`, `x-amz-meta-*`), as
    /// the origin sent them, without `etag`, `last-modified` and `content-length`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Version {
    /// Returns whether an answer with the tag of this version, which describes `other`, can have bytes of it. A tag may repeat,
    /// but not for another size; a weak one may stay while bytes change (RFC 9110, 8.8.1), and then `Last-Modified` tells.
    #[must_use]
    pub fn can_have_bytes_of(&self, other: &Self) -> bool {
        let is_weak = self.etag.is_weak() || other.etag.is_weak();
        let times = self.last_modified.zip(other.last_modified);
        self.size == other.size && !(is_weak && times.is_some_and(|(own, other)| own != other))
    }

    /// Returns the value of one of the object's own headers, if it is readable text.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.values(name).next()?.to_str().ok()
    }

    /// Returns the values of one of the object's own headers, one for each of its lines.
    pub fn values(&self, name: &HeaderName) -> impl Iterator<Item = &HeaderValue> {
        let lines = self.headers.iter().filter(move |(own, _)| own == name);
        lines.map(|(_, value)| value)
    }
}

/// Returns the text of a header that an object is stored with, as a store is told it again: UTF-8, else Latin-1 (RFC 9110, 5.5).
/// The signature of a request (SigV4) is made over text, so other bytes cannot be sent.
#[must_use]
pub fn stored_text(value: &HeaderValue) -> Cow<'_, str> {
    let bytes = value.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_header_is_told_again_as_text() {
        let rows: [(&[u8], &str); 3] = [
            (b"plain", "plain"),
            ("M\u{fc}ller".as_bytes(), "M\u{fc}ller"),
            (b"M\xfcller", "M\u{fc}ller"),
        ];
        for (bytes, text) in rows {
            let value = HeaderValue::from_bytes(bytes).expect("a value");
            assert_eq!(stored_text(&value), text);
        }
    }

    #[test]
    fn the_time_counts_with_a_weak_tag_only() {
        let id = ObjectId {
            origin: OriginId(1),
            key: ObjectKey::new("key").expect("a valid key"),
        };
        let address = |tag: &str, time: Option<u64>| {
            let version = Version {
                etag: ETag::parse(tag).expect("a valid tag"),
                size: 3,
                last_modified: time.map(Timestamp),
                version_id: None,
                headers: Vec::new(),
            };
            VersionId::new(&id, &version, 0)
        };
        for (tag, counts) in [("\"tag\"", false), ("W/\"tag\"", true)] {
            let [none, early, late] = [None, Some(1000), Some(2000)].map(|time| address(tag, time));
            assert_eq!(early != late, counts, "{tag}");
            assert_eq!(none != early, counts, "{tag}");
        }
    }
}
