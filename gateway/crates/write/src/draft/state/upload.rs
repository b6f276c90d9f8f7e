//! The upload of a draft's parts, and the checksums of those that were sent.

use std::collections::BTreeMap;

use crate::spool::journal::Record;
use crate::spool::replay::ReplayedDraft;
use tidegate_origin::write::Headers;
use tidegate_origin::{CompletedPart, Sums, Upload};
use tidegate_plan::upload::Draft;
use tidegate_plan::{ByteRange, ETag, ObjectKey};

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct UploadState {
    begun: Option<OpenUpload>,
    /// Whether parts are sent to a staging key.
    is_staged: bool,
    /// Whether each part is copied on its own, because the store wants all of one size.
    copies_apart: bool,
    /// The checksums of parts that an earlier process sent, until they are compared with the spool.
    unverified: BTreeMap<u32, Sums>,
    /// The checksums of sent parts, for the journal and for the completion.
    sums: BTreeMap<u32, Sums>,
}

/// An upload that was begun.
#[derive(Debug)]
struct OpenUpload {
    upload: Upload,
    /// The headers that it was begun with.
    headers: Headers,
    /// Its completion, until the outcome is known.
    completion: Option<Completion>,
}

/// A completion whose outcome is not known.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    parts: Vec<CompletedPart>,
    /// The tag of the object before it, if the new object's own tag will not be known.
    before: Option<ETag>,
}

/// An upload that its draft has given up.
#[derive(Debug)]
pub(crate) struct LeftUpload {
    pub(crate) upload: Upload,
    /// The outcome of a completion is not known.
    pub(crate) may_be_complete: bool,
}

impl UploadState {
    /// Returns what a journal says of the upload, which was begun with `headers`. One under another key than `own` is
    /// staged: the draft goes to its own key in the end.
    pub(crate) fn recovered(
        own: &ObjectKey,
        begun: Option<(Upload, Headers)>,
        replayed: &ReplayedDraft,
    ) -> Self {
        let is_staged = match &begun {
            Some((upload, _)) => upload.key != *own,
            None => replayed.begin.hidden,
        };
        let parts = replayed.completing.clone();
        let before = replayed.before.clone();
        let completion = parts.map(|parts| Completion { parts, before });
        Self {
            begun: begun.map(|(upload, headers)| OpenUpload {
                upload,
                headers,
                completion,
            }),
            is_staged,
            copies_apart: false,
            unverified: replayed.sums.clone(),
            sums: replayed.sums.clone(),
        }
    }

    /// Returns the upload that was begun.
    pub(crate) fn begun(&self) -> Option<&Upload> {
        self.begun.as_ref().map(|begun| &begun.upload)
    }

    /// Returns the headers that it was begun with; none without an upload.
    pub(crate) fn begun_with(&self) -> Headers {
        let begun = self.begun.as_ref();
        begun.map_or_else(Headers::new, |begun| begun.headers.clone())
    }

    /// Returns whether an upload was begun, or is to go to a staging key.
    pub(crate) fn is_used(&self) -> bool {
        self.begun.is_some() || self.is_staged
    }

    pub(crate) fn completion(&self) -> Option<&Completion> {
        self.begun.as_ref()?.completion.as_ref()
    }

    pub(crate) fn is_staged(&self) -> bool {
        self.is_staged
    }

    pub(crate) fn copies_apart(&self) -> bool {
        self.copies_apart
    }

    /// Returns whether all parts that an earlier process sent were compared with the spool.
    pub(crate) fn is_verified(&self) -> bool {
        self.unverified.is_empty()
    }

    /// Returns the checksums of a part, counted from 0, that was sent.
    pub(crate) fn sums_of(&self, index: u32) -> Option<&Sums> {
        self.sums.get(&index)
    }

    /// Returns the parts as a completion of `upload` lists them.
    pub(crate) fn listed(&self, upload: &Upload, parts: Vec<(u32, ETag)>) -> Vec<CompletedPart> {
        let listed = parts.into_iter().map(|(number, etag)| CompletedPart {
            number,
            etag,
            crc32c: (self.sums_of(number - 1)).and_then(|it| upload.sums.listed(*it)),
        });
        listed.collect()
    }

    /// Returns a part that an earlier process sent and that was not compared with the spool yet: its number from 0, its
    /// range, and the checksums of what was sent.
    pub(crate) fn next_unverified(&mut self, draft: &Draft) -> Option<(u32, ByteRange, Sums)> {
        loop {
            let (index, sums) = self.unverified.first_key_value()?;
            let (index, sums) = (*index, *sums);
            match draft.sent_range(index) {
                Some(range) => return Some((index, range, sums)),
                None => drop(self.unverified.remove(&index)),
            }
        }
    }

    pub(super) fn end_verification(&mut self, index: u32) {
        self.unverified.remove(&index);
    }

    /// Compares no part any more, because those that an earlier process sent count no more.
    pub(super) fn forget_unverified(&mut self) {
        self.unverified.clear();
    }

    pub(super) fn forget_sums(&mut self) {
        self.sums.clear();
    }

    pub(super) fn begin(&mut self, upload: Upload, headers: Headers) {
        self.begun = Some(OpenUpload {
            upload,
            headers,
            completion: None,
        });
    }

    /// Returns the journal's record of the upload.
    pub(super) fn record(&self) -> Option<Record> {
        let begun = self.begun.as_ref()?;
        Some(Record::upload(&begun.upload, &begun.headers))
    }

    /// Notes a part that was sent, and returns the journal's record of it.
    pub(super) fn add_part(&mut self, index: u32, length: u64, etag: &ETag, sums: Sums) -> Record {
        self.sums.insert(index, sums);
        Record::part(index, length, etag, sums)
    }

    /// Notes that it is about to be completed, and returns the journal's record of that.
    pub(super) fn begin_completion(
        &mut self,
        parts: Vec<CompletedPart>,
        before: Option<ETag>,
    ) -> Record {
        let completion = Completion { parts, before };
        let record = completion.record();
        if let Some(begun) = &mut self.begun {
            begun.completion = Some(completion);
        }
        record
    }

    pub(super) fn forget_completion(&mut self) {
        if let Some(begun) = &mut self.begun {
            begun.completion = None;
        }
    }

    /// Sends parts to a staging key from now on.
    pub(super) fn begin_staging(&mut self) {
        self.is_staged = true;
    }

    pub(super) fn end_staging(&mut self) {
        self.is_staged = false;
    }

    pub(super) fn copy_apart(&mut self) {
        self.copies_apart = true;
    }

    /// Takes the upload. The caller abandons it.
    pub(super) fn take(&mut self) -> Option<LeftUpload> {
        let begun = self.begun.take()?;
        Some(LeftUpload {
            upload: begun.upload,
            may_be_complete: begun.completion.is_some(),
        })
    }

    /// Forgets an upload that is complete.
    pub(super) fn end(&mut self) {
        self.begun = None;
        self.unverified.clear();
    }

    /// Takes the upload of an edition that the next one replaces.
    pub(super) fn begin_edition(&mut self) -> Option<LeftUpload> {
        self.unverified.clear();
        self.sums.clear();
        self.is_staged = false;
        self.take()
    }
}

impl Completion {
    pub(crate) fn parts(&self) -> &[CompletedPart] {
        &self.parts
    }

    pub(crate) fn before(&self) -> Option<&ETag> {
        self.before.as_ref()
    }

    pub(super) fn record(&self) -> Record {
        Record::completing(&self.parts, self.before())
    }
}
