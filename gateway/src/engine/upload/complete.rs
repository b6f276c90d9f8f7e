//! Completing an upload, and finding out what came of it when nobody said.

use std::sync::Arc;

use super::WriteError;
use super::commit::{ATTEMPTS, Published};
use super::writing::Writing;
use crate::engine::Error;
use crate::origin::write::{Headers, MAX_COPY};
use crate::origin::{CompletedPart, CopySource, Guard, Origin, OriginError, Upload, Written};
use crate::plan::upload::From;
use crate::plan::{ByteRange, ETag, ObjectKey, Version};

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
        let complete = origin.writing().complete(upload, parts, guard);
        let error = match self.inner.core.change_key(&id, complete).await {
            Ok(written) => return self.verify(upload, written, size).await,
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
        let found = self.look_for(&upload.key, size, expected.as_ref(), count);
        match (found.await, &error) {
            (Ok(Some(version)), _) => {
                // One that was refused is there still.
                self.give_up(upload.clone());
                return Ok(Published {
                    version,
                    confirmed: true,
                });
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
        Written { etag, version_id }: Written,
        size: u64,
    ) -> Result<Published, WriteError> {
        let origin = &*self.source.origin;
        let found = confirm_length(origin, &upload.key, &etag, size).await?;
        let confirmed = found.is_some();
        let version = found.unwrap_or_else(|| Version {
            etag,
            size,
            last_modified: None,
            version_id,
            headers: self.state().begun_with.clone(),
        });
        Ok(Published { version, confirmed })
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
        let error = match self.inner.core.change_key(&self.id(), copy).await {
            Ok(written) => {
                return Ok(Published {
                    version: Version {
                        etag: written.etag,
                        version_id: written.version_id,
                        last_modified: None,
                        headers,
                        size: version.size,
                    },
                    confirmed: false,
                });
            }
            Err(error) => error,
        };
        // It may have been carried out, now or at an earlier try, and its tag may be another: its
        // headers tell.
        match origin.head(&key).await {
            Ok(found) if found.size == version.size && alike(&found.headers, &headers) => {
                Ok(Published {
                    version: found,
                    confirmed: true,
                })
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
        for _ in 1..ATTEMPTS {
            match self
                .copied_onto_itself(&published.version, headers.clone())
                .await
            {
                Err(error) if error.is_passing() => {}
                copied => return copied,
            }
        }
        self.copied_onto_itself(&published.version, headers).await
    }
}

/// What was completed as `etag`, which must have the length that was written. `None`: nobody tells, or
/// there is another version by now, of somebody who came after.
///
/// # Errors
/// [`Error::BadOrigin`] where it has another length.
pub(super) async fn confirm_length(
    origin: &dyn Origin,
    key: &ObjectKey,
    etag: &ETag,
    size: u64,
) -> Result<Option<Version>, WriteError> {
    let found = origin.head(key).await;
    match found.ok().filter(|version| version.etag == *etag) {
        Some(version) if version.size != size => {
            let what = "the completed object has another length";
            Err(WriteError::Origin(Error::BadOrigin(what)))
        }
        found => Ok(found),
    }
}

/// The same headers, in whatever order.
fn alike(one: &Headers, other: &Headers) -> bool {
    one.len() == other.len() && one.iter().all(|header| other.contains(header))
}
