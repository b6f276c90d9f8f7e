//! The journal records of a draft. A whole draft takes few records, so that a journal that is
//! synced again and again does not grow without bound.

use http::{HeaderName, HeaderValue};

use crate::spool::journal::Record;
use tidegate_origin::write::Headers;
use tidegate_origin::{CompletedPart, Sums, Upload};
use tidegate_plan::ETag;
use tidegate_plan::version::stored_text;

/// Converts headers to their form in a journal.
pub(crate) fn header_pairs(headers: &Headers) -> Vec<(String, String)> {
    let pair = |(name, value): &(HeaderName, HeaderValue)| {
        (name.as_str().to_owned(), stored_text(value).into_owned())
    };
    headers.iter().map(pair).collect()
}

/// Returns headers from their form in a journal.
pub(crate) fn headers_of(pairs: &[(String, String)]) -> Headers {
    let header = |(name, value): &(String, String)| {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        Some((name, HeaderValue::try_from(value.as_str()).ok()?))
    };
    pairs.iter().filter_map(header).collect()
}

impl Record {
    /// Records that an upload was begun with these headers.
    pub(crate) fn upload(upload: &Upload, headers: &Headers) -> Self {
        Self::Upload {
            key: upload.key.as_str().to_owned(),
            id: upload.id.clone(),
            headers: header_pairs(headers),
            sums: upload.sums,
        }
    }

    /// Records that a part, counted from 0, was sent.
    pub(crate) fn part(index: u32, length: u64, etag: &ETag, sums: Sums) -> Self {
        Self::Part {
            index,
            length,
            etag: etag.as_str().to_owned(),
            crc64: sums.crc64,
            crc32c: sums.crc32c,
        }
    }

    /// Records the parts, counted from 1, that the object is completed from.
    pub(crate) fn completing(parts: &[CompletedPart], before: Option<&ETag>) -> Self {
        let pair = |part: &CompletedPart| (part.number, part.etag.as_str().to_owned());
        Self::Completing {
            parts: parts.iter().map(pair).collect(),
            crc32c: all_sums(parts).unwrap_or_default(),
            before: before.map(|etag| etag.as_str().to_owned()),
        }
    }

    /// Records that an object with this tag is, or may be, in the bucket, and is ours.
    pub(crate) fn tried(etag: &ETag) -> Self {
        Self::Tried {
            etag: etag.as_str().to_owned(),
        }
    }
}

/// Returns the checksums of the parts, if each has one.
fn all_sums(parts: &[CompletedPart]) -> Option<Vec<u32>> {
    parts.iter().map(|part| part.crc32c).collect()
}
