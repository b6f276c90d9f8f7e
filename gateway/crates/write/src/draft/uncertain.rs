//! Uncertain commits: tries to publish without an answer.
//!
//! If one was carried out, the object in the bucket is ours, and no reason to refuse the next try.
//! It is recognized by its tag, which follows from the sent bytes (S3, unless encrypted with keys
//! of its own).

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};

use crate::spool::journal::Record;
use tidegate_origin::Guard;
use tidegate_origin::write::Headers;
use tidegate_plan::version::stored_text;
use tidegate_plan::{ETag, Version};

/// See the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UncertainCommits {
    /// The objects that are, or may be, in the bucket: each by its tag and, as far as they are known, its headers.
    objects: Vec<(ETag, Option<Headers>)>,
    /// Whether an earlier process may have begun one more, of the bytes in the spool.
    earlier: bool,
    /// Whether a copy of the object onto itself may have been carried out.
    copied: bool,
}

impl UncertainCommits {
    /// Returns the tries that an earlier process noted.
    pub(crate) fn earlier(tags: Vec<ETag>) -> Self {
        let objects = tags.into_iter().map(|tag| (tag, None)).collect();
        Self {
            objects,
            earlier: true,
            copied: true,
        }
    }

    /// Returns whether an object of the same bytes may be that of an earlier process.
    pub(crate) fn is_earlier(&self) -> bool {
        self.earlier
    }

    /// Returns whether the object may be its own copy with new headers.
    pub(crate) fn is_copied(&self) -> bool {
        self.copied
    }

    /// Notes a copy of the object onto itself without an answer.
    pub(crate) fn note_copy(&mut self) {
        self.copied = true;
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds one, unless it is there. Returns the journal record of a new tag.
    pub(crate) fn add(&mut self, etag: ETag, headers: Option<Headers>) -> Option<Record> {
        let is_new = !self.objects.iter().any(|(tag, _)| tag.weak_eq(&etag));
        let record = is_new.then(|| Record::tried(&etag));
        let object = (etag, headers);
        if !self.objects.contains(&object) {
            self.objects.push(object);
        }
        record
    }

    /// Returns their journal records.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut tags: Vec<_> = self.objects.iter().map(|(tag, _)| tag).collect();
        tags.dedup();
        tags.into_iter().map(Record::tried).collect()
    }

    /// Returns whether one of them is this version. Of two writers that make the same object, only the headers tell which
    /// was first.
    pub(crate) fn has(&self, version: &Version, guard: &Guard) -> bool {
        self.objects.iter().any(|(tag, headers)| {
            let sent = headers.as_ref().filter(|_| *guard == Guard::Absent);
            let is_stored = sent.is_none_or(|sent| is_made_with(&version.headers, sent));
            tag.weak_eq(&version.etag) && is_stored
        })
    }
}

/// Returns whether an object of the same bytes is that of a request with these headers. Metadata tells it: stores leave
/// it as it was sent, while some add a character set, a type or a time to live. Mounts send the time of the content.
pub(crate) fn is_made_with(stored: &Headers, sent: &Headers) -> bool {
    match metadata_of(sent).is_empty() {
        true => is_stored_as(stored, sent),
        false => has_metadata_of(stored, sent),
    }
}

/// Returns whether an object has the metadata that was sent, if there was any.
pub(crate) fn has_metadata_of(stored: &Headers, sent: &Headers) -> bool {
    let metadata = metadata_of(sent);
    metadata.is_empty() || is_stored_as(&metadata_of(stored), &metadata)
}

fn metadata_of(headers: &Headers) -> Headers {
    let headers = headers.iter();
    let is_metadata = |(name, _): &&(HeaderName, _)| name.as_str().starts_with("x-amz-meta-");
    headers.filter(is_metadata).cloned().collect()
}

/// Returns whether an object was stored with these headers, and no others but a default content
/// type.
pub(crate) fn is_stored_as(stored: &Headers, sent: &Headers) -> bool {
    let made_up = |(name, value): &(HeaderName, HeaderValue)| {
        *name == CONTENT_TYPE
            && value.as_bytes().ends_with(b"/octet-stream")
            && sent.iter().all(|(name, _)| *name != CONTENT_TYPE)
    };
    let has = |headers: &Headers, (name, value): &(HeaderName, HeaderValue)| {
        let same =
            |(own, text): &(HeaderName, _)| own == name && stored_text(text) == stored_text(value);
        headers.iter().any(same)
    };
    sent.iter().all(|header| has(stored, header))
        && (stored.iter()).all(|header| has(sent, header) || made_up(header))
}
