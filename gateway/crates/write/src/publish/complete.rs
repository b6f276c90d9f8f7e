//! Completing an upload, and finding out the outcome if the store did not answer.

use std::sync::Arc;

use crate::WriteError;
use crate::change::change_mark::change_key;
use crate::change::server_copy::copy;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::uncertain::has_metadata_of;
use crate::publish::assemble::MAX_COPIED_PIECE;
use crate::publish::commit::MAX_PUBLISH_ATTEMPTS;
use crate::publish::published_version::{PublishedVersion, SentBytes};
use tidegate_engine::written::{RequestStart, WriteAnswer, WriteConfirmation};
use tidegate_engine::{Core, Coverage};
use tidegate_engine::{Error, ReadContext};
use tidegate_origin::write::Headers;
use tidegate_origin::{CompletedPart, Guard, OriginError, Upload, WrittenVersion};
use tidegate_plan::{ByteRange, ChangeKind, ETag, ObjectId, ObjectKey, Version};

/// The size from which a cached copy of one part is worth the requests that a copy in parts takes. A smaller one is put,
/// with its bytes from the cache.
const MIN_COPIED_PART: u64 = 1 << 20;

/// The largest object of which a store copies no range: AWS copies one only of objects above 5 MiB.
const MAX_UNRANGED: u64 = 5 << 20;

impl SharedDraft {
    /// Completes the object from its parts, and checks that it has the intended length.
    pub(crate) async fn complete(
        self: &Arc<Self>,
        upload: &Upload,
        parts: Vec<CompletedPart>,
        guard: Guard,
        size: u64,
    ) -> Result<PublishedVersion, WriteError> {
        let origin = &self.source.origin;
        let (expected, count) = (
            ETag::of_parts(parts.iter().map(|part| &part.etag)),
            parts.len(),
        );
        let id = self.source.object(&upload.key);
        let asked = RequestStart::now(&self.inner.core, &id).await;
        let complete = origin.writing().complete(upload, parts.clone(), guard);
        let error = match change_key(&self.inner.core, (&id, ChangeKind::Created), complete).await {
            Ok(written) => {
                let published = self.verify(&id, written, size, asked).await?;
                return Ok(PublishedVersion {
                    bytes: SentBytes::Parts(parts),
                    ..published
                });
            }
            Err(error) => error,
        };
        // A changed version may be the one that an earlier try made. Its length alone does not
        // prove it.
        let may_be_ours = error == OriginError::Changed && expected.is_some();
        if !error.leaves_doubt() && !may_be_ours {
            if error == OriginError::InvalidPart {
                self.unsend(upload);
            }
            return Err(error.into());
        }
        let asked = RequestStart::now(&self.inner.core, &id).await;
        let told = (expected.as_ref(), count, may_be_ours);
        let found = self.find_completed(&upload.key, size, told);
        match (found.await, &error) {
            (Ok(Some(version)), _) => {
                // The upload of a refused completion may still exist.
                self.abandon_upload(upload.clone());
                return Ok(PublishedVersion::found(version, asked));
            }
            (_, OriginError::Changed) => {}
            (Ok(None), OriginError::NoSuchUpload) => self.lose_upload(upload),
            // Completed or aborted: until the store answers, it counts as neither.
            (Err(error), OriginError::NoSuchUpload) => return Err(error.into()),
            _ => expected
                .into_iter()
                .for_each(|tag| self.state().add_uncertain(tag, None)),
        }
        Err(error.into())
    }

    /// Returns the tag of the current object if the new object's own tag will not follow from those
    /// of its parts. An object with this tag is not ours, whatever the outcome of the completion.
    pub(crate) async fn earlier_tag(
        &self,
        upload: &Upload,
        parts: &[CompletedPart],
    ) -> Result<Option<ETag>, WriteError> {
        let is_told = ETag::of_parts(parts.iter().map(|part| &part.etag)).is_some();
        if is_told || upload.key != self.id().key {
            return Ok(None);
        }
        let found = self.find_version(&upload.key).await?;
        Ok(found.map(|version| version.etag))
    }

    /// Returns the completed version, as far as the bucket reports it.
    async fn verify(
        &self,
        id: &ObjectId,
        written: WrittenVersion,
        size: u64,
        asked: RequestStart,
    ) -> Result<PublishedVersion, WriteError> {
        let made = Version {
            etag: written.etag,
            size,
            last_modified: None,
            version_id: written.version_id,
            headers: self.state().upload().begun_with(),
        };
        let core = &self.inner.core;
        let answered = WriteAnswer::now(core, asked, written.answered);
        let (version, known) = confirmed(core, &self.source, id, made, answered).await?;
        Ok(PublishedVersion {
            version,
            known,
            bytes: SentBytes::InDoubt,
        })
    }

    /// Returns the object of this key if it is the intended one. It is known by its tag, if that
    /// follows from the parts (S3, unless encrypted with keys of its own). Otherwise it must have
    /// the length and the number of parts, and must not have been there before. One with other metadata is another
    /// writer's; if the completion was not refused, a copy onto itself without an answer may have set that.
    pub(crate) async fn find_completed(
        &self,
        key: &ObjectKey,
        size: u64,
        (expected, parts, is_refused): (Option<&ETag>, usize, bool),
    ) -> Result<Option<Version>, OriginError> {
        let found = self.find_version(key).await?;
        let has_sent = |version: &Version| {
            let state = self.state();
            let is_sent = |headers: &Headers| has_metadata_of(&version.headers, headers);
            is_sent(&state.upload().begun_with())
                || is_sent(state.headers())
                || (!is_refused && state.uncertain().is_copied())
        };
        Ok(found.filter(|version| {
            let alike = match expected {
                Some(expected) => version.etag.weak_eq(expected),
                None => {
                    let state = self.state();
                    let before = state.upload().completion().and_then(|it| it.before());
                    before != Some(&version.etag)
                        && version.etag.as_str().ends_with(&format!("-{parts}\""))
                }
            };
            alike && version.size == size && has_sent(version)
        }))
    }

    /// Returns the version that the bucket has of a key.
    pub(crate) async fn find_version(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Version>, OriginError> {
        match self.source.origin.head(key).await {
            Err(OriginError::NotFound) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Copies the object onto itself with its new headers, if nothing but headers was changed.
    pub(crate) async fn set_headers(
        &self,
        size: u64,
        guard: &Guard,
    ) -> Result<Option<PublishedVersion>, WriteError> {
        let (version, headers) = {
            let state = self.state();
            let untouched = state.is_untouched(size);
            let base = state.own_base();
            let most = self.inner.settings.max_copy;
            let base = base.filter(|it| it.version.size == size && size <= most);
            match (base, guard) {
                (Some(base), Guard::Same(_)) if untouched => {
                    (base.version.clone(), state.headers_to_store())
                }
                _ => return Ok(None),
            }
        };
        self.copied_onto_itself(&version, headers).await.map(Some)
    }

    /// Copies an untouched version of another object in one request, if the object may be replaced and is small enough
    /// that a caller need not see progress.
    pub(crate) async fn copy_whole(
        &self,
        size: u64,
        guard: &Guard,
    ) -> Result<Option<PublishedVersion>, WriteError> {
        let (source, key, headers) = {
            let state = self.state();
            let is_whole = state.is_untouched(size) && size <= MAX_COPIED_PIECE;
            let base = state.copied_base().filter(|_| is_whole);
            match base {
                Some(base) if *guard == Guard::None => (
                    base.source(),
                    state.id().key.clone(),
                    state.headers_to_store(),
                ),
                _ => return Ok(None),
            }
        };
        let (core, id) = (&self.inner.core, self.id());
        let asked = RequestStart::now(core, &id).await;
        let copy = self.source.origin.writing();
        let copy = copy.copy(source, (&key, Guard::None), Some(headers.clone()));
        let written = change_key(core, (&id, ChangeKind::Created), copy).await?;
        Ok(Some(PublishedVersion {
            known: WriteConfirmation::Answered(WriteAnswer::now(core, asked, written.answered)),
            version: Version {
                etag: written.etag,
                version_id: written.version_id,
                last_modified: None,
                headers,
                size,
            },
            bytes: SentBytes::Copied,
        }))
    }

    /// Returns whether the store copies an object of one part as a part. It does if the cache lacks bytes of it, which would
    /// be fetched and sent, or if it is large enough for the further requests.
    pub(crate) async fn copies_in_parts(&self) -> bool {
        let (base, size) = {
            let state = self.state();
            let size = state.draft().size();
            let is_copy = size > 0 && state.is_of_base(size);
            let can_copy =
                |size_of_source: u64| size == size_of_source || size_of_source > MAX_UNRANGED;
            let base = state.copied_base().filter(|_| is_copy);
            (base.filter(|it| can_copy(it.version.size)).cloned(), size)
        };
        let Some(base) = base else {
            return false;
        };
        let cached = self.object(&base).await.locate(ByteRange::new(0, size));
        size >= MIN_COPIED_PART || !matches!(cached, Coverage::All(_))
    }

    /// Sets the headers of a version of the object.
    async fn copied_onto_itself(
        &self,
        version: &Version,
        headers: Headers,
    ) -> Result<PublishedVersion, WriteError> {
        let (core, id) = (&self.inner.core, self.id());
        let asked = RequestStart::now(core, &id).await;
        let self_copy = core.begin_self_copy(&id, &version.etag);
        let moved = || self.progress.send_replace(());
        let what = (version, Some(headers.clone()));
        let copied = copy(
            &self.inner,
            &self.source,
            what,
            &id.key,
            (&id, Guard::None),
            &moved,
        );
        let error = match copied.await {
            Ok(written) => {
                self_copy.made(&written.etag);
                return Ok(PublishedVersion {
                    known: WriteConfirmation::Answered(WriteAnswer::now(
                        core,
                        asked,
                        written.answered,
                    )),
                    version: Version {
                        etag: written.etag,
                        version_id: written.version_id,
                        last_modified: None,
                        headers,
                        size: version.size,
                    },
                    bytes: SentBytes::Copied,
                });
            }
            Err(error) => error,
        };
        // A refusal says that another writer was faster, unless an earlier try may have been carried out.
        match error {
            WriteError::Changed if !self.state().uncertain().is_copied() => return Err(error),
            WriteError::Changed => {}
            _ => self.state().note_uncertain_copy(),
        }
        // The copy of an object in parts has another tag. Its headers show it.
        let asked = RequestStart::now(core, &id).await;
        let is_copy = |found: &Version| {
            let is_tagged = found.etag.weak_eq(&version.etag) || is_of_parts(&version.etag);
            is_tagged && found.size == version.size && alike(&found.headers, &headers)
        };
        match self.source.origin.head(&id.key).await {
            Ok(found) if is_copy(&found) => Ok(PublishedVersion::found(found, asked)),
            _ => Err(error),
        }
    }

    /// Sets headers that changed after the upload was begun, by a copy of the object onto itself.
    pub(crate) async fn fix_headers(
        &self,
        published: PublishedVersion,
    ) -> Result<PublishedVersion, WriteError> {
        let (headers, begun_with) = {
            let state = self.state();
            (state.headers_to_end(), state.upload().begun_with())
        };
        if headers == begun_with {
            return Ok(published);
        }
        let tag = published.version.etag.clone();
        self.state().add_uncertain(tag, None);
        let mut tries = 1..MAX_PUBLISH_ATTEMPTS;
        let mended = loop {
            let copied = self.copied_onto_itself(&published.version, headers.clone());
            match copied.await {
                Err(error) if error.is_passing() && tries.next().is_some() => {}
                copied => break copied?,
            }
        };
        Ok(PublishedVersion {
            bytes: match mended.bytes {
                // Those of the upload that was completed just now.
                SentBytes::Copied => published.bytes,
                bytes => bytes,
            },
            ..mended
        })
    }
}

/// Checks that a completed version has the written length. Returns it as the bucket reports it, or
/// as it was made if the bucket does not answer.
///
/// # Errors
/// [`Error::BadOrigin`] if it has another length.
pub(crate) async fn confirmed(
    core: &Core,
    source: &ReadContext,
    id: &ObjectId,
    made: Version,
    answered: WriteAnswer,
) -> Result<(Version, WriteConfirmation), WriteError> {
    let asked = RequestStart::now(core, id).await;
    match source.origin.head(&id.key).await {
        Ok(found) if found.etag == made.etag && found.size != made.size => {
            let what = "the completed object has another length";
            Err(WriteError::Origin(Error::BadOrigin(what)))
        }
        Ok(found) if found.etag == made.etag => Ok((found, WriteConfirmation::Confirmed(asked))),
        // The version of a later writer.
        Ok(_) | Err(OriginError::NotFound) => Ok((made, WriteConfirmation::Superseded)),
        Err(_) => Ok((made, WriteConfirmation::Answered(answered))),
    }
}

/// Returns whether a tag is that of an object in parts: it ends in their number.
fn is_of_parts(etag: &ETag) -> bool {
    let count = etag.as_str().trim_end_matches('"').rsplit_once('-');
    count.is_some_and(|(_, count)| !count.is_empty() && count.bytes().all(|it| it.is_ascii_digit()))
}

/// Returns whether both have the same headers, in any order.
pub(crate) fn alike(one: &Headers, other: &Headers) -> bool {
    one.len() == other.len() && one.iter().all(|header| other.contains(header))
}
