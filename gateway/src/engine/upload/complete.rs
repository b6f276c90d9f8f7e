//! Completing an upload, and finding out what came of it when nobody said.

use std::sync::Arc;

use super::WriteError;
use super::commit::ATTEMPTS;
use super::published::{Published, Sent};
use super::writing::Writing;
use crate::engine::core::Core;
use crate::engine::written::{Answered, Known};
use crate::engine::{Error, Source};
use crate::origin::write::{Headers, MAX_COPY};
use crate::origin::{CompletedPart, CopySource, Guard, OriginError, Upload, Written};
use crate::plan::upload::From;
use crate::plan::{ByteRange, ETag, ObjectKey, Timestamp, Version};

impl Writing {
    /// Makes the object out of its parts, and looks whether it is the one that it should be.
    pub(super) async fn complete(
        self: &Arc<Self>,
        upload: &Upload,
        parts: Vec<CompletedPart>,
        guard: Guard,
        size: u64,
    ) -> Result<Published, WriteError> {
        let origin = &self.source.origin;
        let (expected, count) = (
            ETag::of_parts(parts.iter().map(|part| &part.etag)),
            parts.len(),
        );
        let id = self.source.object(&upload.key);
        let asked = self.inner.core.now();
        let complete = origin.writing().complete(upload, parts.clone(), guard);
        let error = match self.inner.core.change_key(&id, complete).await {
            Ok(written) => {
                let published = self.verify(upload, written, size, asked).await?;
                return Ok(Published {
                    bytes: Sent::Parts(parts),
                    ..published
                });
            }
            Err(error) => error,
        };
        // What has changed may be the version that an earlier try made. Not by its length alone.
        let may_be_ours = error == OriginError::Changed && expected.is_some();
        if !error.leaves_doubt() && !may_be_ours {
            if error == OriginError::InvalidPart {
                self.unsend(upload);
            }
            return Err(error.into());
        }
        let asked = self.inner.core.now();
        let found = self.look_for(&upload.key, size, expected.as_ref(), count);
        match (found.await, &error) {
            (Ok(Some(version)), _) => {
                // One that was refused is there still.
                self.give_up(upload.clone());
                return Ok(Published::found(version, asked));
            }
            (_, OriginError::Changed) => {}
            (Ok(None), OriginError::NoSuchUpload) => self.lost(upload),
            // Completed or given up: as long as nobody can tell, it is neither.
            (Err(error), OriginError::NoSuchUpload) => return Err(error.into()),
            _ => expected.into_iter().for_each(|tag| self.state().tries(tag)),
        }
        Err(error.into())
    }

    /// The tag of what is there now, where the object's own will not follow from those of its parts. Whatever
    /// becomes of the completion, that is not ours.
    pub(super) async fn look_before(
        &self,
        upload: &Upload,
        parts: &[CompletedPart],
    ) -> Result<Option<ETag>, WriteError> {
        let is_told = ETag::of_parts(parts.iter().map(|part| &part.etag)).is_some();
        if is_told || upload.key != self.id().key {
            return Ok(None);
        }
        match self.source.origin.head(&upload.key).await {
            Ok(version) => Ok(Some(version.etag)),
            Err(OriginError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The version that was completed, as far as it is told.
    async fn verify(
        &self,
        upload: &Upload,
        written: Written,
        size: u64,
        asked: Timestamp,
    ) -> Result<Published, WriteError> {
        let made = Version {
            etag: written.etag,
            size,
            last_modified: None,
            version_id: written.version_id,
            headers: self.state().begun_with.clone(),
        };
        let core = &self.inner.core;
        let answered = Answered::now(core, asked, written.answered);
        let (version, known) = confirmed(core, &self.source, &upload.key, made, answered).await?;
        Ok(Published {
            version,
            known,
            bytes: Sent::InDoubt,
        })
    }

    /// The object of this key, if it is the one that was to be written: by its tag, where that can be
    /// told from the parts (S3, unless encrypted with keys of its own), else by length and number of
    /// parts, unless it was there before.
    pub(super) async fn look_for(
        &self,
        key: &ObjectKey,
        size: u64,
        expected: Option<&ETag>,
        parts: usize,
    ) -> Result<Option<Version>, OriginError> {
        let version = match self.source.origin.head(key).await {
            Err(OriginError::NotFound) => return Ok(None),
            found => found?,
        };
        let alike = match expected {
            Some(expected) => version.etag.weak_eq(expected),
            None => {
                let was_there = self.state().before.as_ref() == Some(&version.etag);
                !was_there && version.etag.as_str().ends_with(&format!("-{parts}\""))
            }
        };
        Ok((alike && version.size == size).then_some(version))
    }

    /// Where nothing but headers was changed, a copy of the object onto itself has them.
    pub(super) async fn set_headers(
        &self,
        size: u64,
        guard: &Guard,
    ) -> Result<Option<Published>, WriteError> {
        let (version, headers) = {
            let state = self.state();
            let all = state.draft.sources(ByteRange::new(0, size));
            let untouched = matches!(all[..], [(range, From::Base)] if range.len() == size);
            let base = state.base.as_ref().filter(|it| it.key == state.id.key);
            let base = base.filter(|it| it.version.size == size && size <= MAX_COPY);
            match (base, guard) {
                (Some(base), Guard::Same(_)) if untouched => {
                    (base.version.clone(), state.headers.clone())
                }
                _ => return Ok(None),
            }
        };
        self.copied_onto_itself(&version, headers).await.map(Some)
    }

    /// Gives a version of the object other headers.
    async fn copied_onto_itself(
        &self,
        version: &Version,
        headers: Headers,
    ) -> Result<Published, WriteError> {
        let key = self.id().key;
        let source = CopySource {
            key: key.clone(),
            etag: version.etag.clone(),
        };
        let origin = &self.source.origin;
        let copy = origin.writing().copy(source, &key, Some(headers.clone()));
        let core = &self.inner.core;
        let asked = core.now();
        let error = match core.change_key(&self.id(), copy).await {
            Ok(written) => {
                return Ok(Published {
                    known: Known::Answered(Answered::now(core, asked, written.answered)),
                    version: Version {
                        etag: written.etag,
                        version_id: written.version_id,
                        last_modified: None,
                        headers,
                        size: version.size,
                    },
                    bytes: Sent::Copied,
                });
            }
            Err(error) => error,
        };
        // It may have been carried out, now or at an earlier try, and its tag may be another: its
        // headers tell.
        let asked = core.now();
        match origin.head(&key).await {
            Ok(found) if found.size == version.size && alike(&found.headers, &headers) => {
                Ok(Published::found(found, asked))
            }
            _ => Err(error.into()),
        }
    }

    /// Headers that were set after the upload was begun: a copy of the object onto itself has them.
    pub(super) async fn mend_headers(&self, published: Published) -> Result<Published, WriteError> {
        let (key, headers, begun_with) = {
            let state = self.state();
            let key = state.id.key.clone();
            (key, state.headers.clone(), state.begun_with.clone())
        };
        if headers == begun_with {
            return Ok(published);
        }
        if published.version.size > MAX_COPY {
            tracing::warn!(
                key = key.as_str(),
                "the object is too large to set its headers again"
            );
            return Ok(published);
        }
        self.state().tries(published.version.etag.clone());
        let mut tries = 1..ATTEMPTS;
        let mended = loop {
            let copied = self.copied_onto_itself(&published.version, headers.clone());
            match copied.await {
                Err(error) if error.is_passing() && tries.next().is_some() => {}
                copied => break copied?,
            }
        };
        Ok(Published {
            bytes: match mended.bytes {
                // Of what was published just now.
                Sent::Copied => published.bytes,
                bytes => bytes,
            },
            ..mended
        })
    }
}

/// A version that was completed, which must have the length that was written: as the bucket tells it, or, where
/// it does not answer, as it was made.
///
/// # Errors
/// [`Error::BadOrigin`] where it has another length.
pub(super) async fn confirmed(
    core: &Core,
    source: &Source,
    key: &ObjectKey,
    made: Version,
    answered: Answered,
) -> Result<(Version, Known), WriteError> {
    let asked = core.now();
    match source.origin.head(key).await {
        Ok(found) if found.etag == made.etag && found.size != made.size => {
            let what = "the completed object has another length";
            Err(WriteError::Origin(Error::BadOrigin(what)))
        }
        Ok(found) if found.etag == made.etag => Ok((found, Known::Confirmed(asked))),
        // Of a writer that came after.
        Ok(_) | Err(OriginError::NotFound) => Ok((made, Known::Superseded)),
        Err(_) => Ok((made, Known::Answered(answered))),
    }
}

/// The same headers, in whatever order.
fn alike(one: &Headers, other: &Headers) -> bool {
    one.len() == other.len() && one.iter().all(|header| other.contains(header))
}
