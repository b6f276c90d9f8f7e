//! Digests of a body that its client announces: `Content-MD5` (RFC 1864), `x-amz-checksum-*` (S3), `Content-Digest` and
//! `Repr-Digest` (RFC 9530). The last two mean the same in a request with a whole representation.

use crc_fast::CrcAlgorithm;
use http::HeaderMap;
use md5::Md5;
use sha2::{Digest as _, Sha256, Sha512};

/// The error of an announced digest that cannot be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest cannot be read")]
pub struct UnreadableDigest;

/// All announced digests of a body, computed while it arrives.
#[derive(Debug, Default)]
pub struct Digests(Vec<(DigestState, Vec<u8>)>);

#[derive(Debug)]
enum DigestState {
    Md5(Md5),
    Sha256(Sha256),
    Sha512(Sha512),
    Crc(Box<crc_fast::Digest>, usize),
}

impl DigestState {
    /// Returns the algorithm of this name, in the spelling of the fields above.
    fn from_name(name: &str) -> Option<Self> {
        let crc = |algorithm, bytes| Self::Crc(Box::new(crc_fast::Digest::new(algorithm)), bytes);
        Some(match name {
            "md5" => Self::Md5(Md5::new()),
            "sha-256" | "sha256" => Self::Sha256(Sha256::new()),
            "sha-512" => Self::Sha512(Sha512::new()),
            "crc32" => crc(CrcAlgorithm::Crc32IsoHdlc, 4),
            "crc32c" => crc(CrcAlgorithm::Crc32Iscsi, 4),
            "crc64nvme" => crc(CrcAlgorithm::Crc64Nvme, 8),
            _ => return None,
        })
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
            Self::Crc(hash, _) => hash.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Md5(hash) => hash.finalize().to_vec(),
            Self::Sha256(hash) => hash.finalize().to_vec(),
            Self::Sha512(hash) => hash.finalize().to_vec(),
            Self::Crc(hash, bytes) => hash.finalize().to_be_bytes()[8 - bytes..].to_vec(),
        }
    }
}

impl Digests {
    /// Reads the digests that a request's headers announce. Unknown algorithms of the `Digest` fields are skipped (RFC
    /// 9530, 2); an algorithm that S3 has a header for must be known.
    ///
    /// # Errors
    /// A value that is not base64, and `x-amz-checksum-sha1`, which is not computed here.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, UnreadableDigest> {
        let mut digests = Self::default();
        for (name, value) in headers {
            let name = name.as_str();
            let plain = match name {
                "content-md5" => Some("md5"),
                // The SDK's algorithm, not a digest.
                "x-amz-checksum-algorithm" | "x-amz-checksum-type" => None,
                _ => name.strip_prefix("x-amz-checksum-"),
            };
            let fields = matches!(name, "content-digest" | "repr-digest");
            if plain.is_none() && !fields {
                continue;
            }
            let text = value.to_str().map_err(|_| UnreadableDigest)?;
            match plain {
                Some(algorithm) => {
                    let hash = DigestState::from_name(algorithm).ok_or(UnreadableDigest)?;
                    digests.add(hash, text)?;
                }
                None => digests.add_fields(text)?,
            }
        }
        Ok(digests)
    }

    /// Reads a dictionary of byte sequences (RFC 9651, 3.2 and 3.3.5): `sha-256=:…:, sha-512=:…:`.
    fn add_fields(&mut self, text: &str) -> Result<(), UnreadableDigest> {
        for member in text.split(',') {
            let (name, value) = member.trim().split_once('=').ok_or(UnreadableDigest)?;
            let value = value
                .strip_prefix(':')
                .and_then(|rest| rest.strip_suffix(':'));
            let value = value.ok_or(UnreadableDigest)?;
            if let Some(hash) = DigestState::from_name(name) {
                self.add(hash, value)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, hash: DigestState, base64: &str) -> Result<(), UnreadableDigest> {
        let value = base64_simd::STANDARD.decode_to_vec(base64.trim());
        self.0.push((hash, value.map_err(|_| UnreadableDigest)?));
        Ok(())
    }

    /// Returns whether no digest was announced.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds more of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|(hash, _)| hash.update(bytes));
    }

    /// Returns whether the body matches every announced digest.
    #[must_use]
    pub fn agree(self) -> bool {
        let mut all = self.0.into_iter();
        all.all(|(hash, announced)| hash.finish() == announced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, value: &str) -> Result<Digests, UnreadableDigest> {
        let value = value.parse().expect("a header value");
        Digests::from_headers(&HeaderMap::from_iter([(
            name.parse().expect("a name"),
            value,
        )]))
    }

    /// Covers each algorithm with its digest of `123456789`.
    #[test]
    fn every_algorithm_tells_right_from_wrong() {
        let rows = [
            ("content-md5", "JfnnlDI7RTiF9RgfG2JNCw=="),
            ("x-amz-checksum-crc32", "y/Q5Jg=="),
            ("x-amz-checksum-crc32c", "4waSgw=="),
            ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
            (
                "x-amz-checksum-sha256",
                "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
            ),
            (
                "repr-digest",
                "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:",
            ),
            (
                "content-digest",
                "unknown=:AAAA:, sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=:",
            ),
        ];
        for (name, value) in rows {
            for (bytes, right) in [("123456789", true), ("12345678", false)] {
                let mut digests = of(name, value).expect(name);
                assert!(!digests.is_empty());
                digests.update(bytes.as_bytes());
                assert_eq!(digests.agree(), right, "{name} of {bytes}");
            }
        }
    }

    #[test]
    fn what_cannot_be_checked_is_refused_and_what_is_unknown_passed_over() {
        for (name, value) in [
            ("content-md5", "no base64!"),
            ("x-amz-checksum-sha1", "98O8HYCOBHMqUdRVaaU5BA=="),
            ("repr-digest", "sha-256=plain"),
            ("repr-digest", "sha-256"),
        ] {
            assert!(of(name, value).is_err(), "{name}: {value}");
        }
        let none = of("repr-digest", "new=:AAAA:").expect("passed over");
        assert!(none.is_empty() && none.agree());
        assert!(
            of("x-amz-checksum-algorithm", "CRC32")
                .expect("no value")
                .is_empty()
        );
    }
}
