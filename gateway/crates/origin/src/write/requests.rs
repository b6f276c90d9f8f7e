//! The requests as methods, each with its own answer type.

use super::{
    CompletedPart, CopySource, Guard, Headers, OriginWrite, PartSums, Upload, Write, WriteOutcome,
    WrittenVersion,
};
use crate::{OriginError, Payload};
use tidegate_plan::{ByteRange, ETag, ObjectKey};

const WRONG_ANSWER: OriginError = OriginError::BadAnswer("an answer to another question");

impl dyn OriginWrite + '_ {
    async fn object(&self, write: Write) -> Result<WrittenVersion, OriginError> {
        match self.write(write).await? {
            WriteOutcome::Object(written) => Ok(written),
            _ => Err(WRONG_ANSWER),
        }
    }

    async fn part_tag(&self, write: Write) -> Result<ETag, OriginError> {
        match self.write(write).await? {
            WriteOutcome::Part(etag) => Ok(etag),
            _ => Err(WRONG_ANSWER),
        }
    }

    async fn done(&self, write: Write) -> Result<(), OriginError> {
        match self.write(write).await? {
            WriteOutcome::Done => Ok(()),
            _ => Err(WRONG_ANSWER),
        }
    }

    /// Sends [`Write::Put`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] if the guard does not hold.
    pub async fn put(
        &self,
        key: &ObjectKey,
        headers: Headers,
        payload: Payload,
        guard: Guard,
    ) -> Result<WrittenVersion, OriginError> {
        let key = key.clone();
        let put = Write::Put {
            key,
            headers,
            payload,
            guard,
        };
        self.object(put).await
    }

    /// Sends [`Write::Begin`].
    ///
    /// # Errors
    /// The origin's.
    pub async fn begin(
        &self,
        key: &ObjectKey,
        headers: Headers,
        sums: PartSums,
    ) -> Result<Upload, OriginError> {
        let key = key.clone();
        let begin = Write::Begin { key, headers, sums };
        match self.write(begin).await? {
            WriteOutcome::Upload(upload) => Ok(upload),
            _ => Err(WRONG_ANSWER),
        }
    }

    /// Sends [`Write::Part`].
    ///
    /// # Errors
    /// [`OriginError::NoSuchUpload`] if the upload is gone.
    pub async fn part(
        &self,
        upload: &Upload,
        number: u32,
        payload: Payload,
    ) -> Result<ETag, OriginError> {
        let upload = upload.clone();
        let part = Write::Part {
            upload,
            number,
            payload,
        };
        self.part_tag(part).await
    }

    /// Sends [`Write::CopyPart`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] if the source has another version or is gone.
    pub async fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: CopySource,
        range: impl Into<Option<ByteRange>>,
    ) -> Result<ETag, OriginError> {
        let (upload, range) = (upload.clone(), range.into());
        let copy = Write::CopyPart {
            upload,
            number,
            source,
            range,
        };
        self.part_tag(copy).await
    }

    /// Sends [`Write::Complete`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] if the guard does not hold; the upload then remains.
    /// [`OriginError::NoSuchUpload`] if the upload is gone, also because an earlier try was carried
    /// out. [`OriginError::InvalidPart`] if a part differs from the store's or is not accepted with
    /// the others.
    pub async fn complete(
        &self,
        upload: &Upload,
        parts: impl IntoIterator<Item = impl Into<CompletedPart>>,
        guard: Guard,
    ) -> Result<WrittenVersion, OriginError> {
        let upload = upload.clone();
        let parts = parts.into_iter().map(Into::into).collect();
        let complete = Write::Complete {
            upload,
            parts,
            guard,
        };
        self.object(complete).await
    }

    /// Sends [`Write::Abort`].
    ///
    /// # Errors
    /// The origin's.
    pub async fn abort(&self, upload: &Upload) -> Result<(), OriginError> {
        self.done(Write::Abort(upload.clone())).await
    }

    /// Sends [`Write::Uploads`].
    ///
    /// # Errors
    /// The origin's.
    pub async fn uploads(&self, key: &ObjectKey) -> Result<Vec<Upload>, OriginError> {
        match self.write(Write::Uploads(key.clone())).await? {
            WriteOutcome::Uploads(uploads) => Ok(uploads),
            _ => Err(WRONG_ANSWER),
        }
    }

    /// Sends [`Write::Copy`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] if the source has another version or is gone, or if the store compares, and the guard does
    /// not hold.
    pub async fn copy(
        &self,
        source: CopySource,
        (key, guard): (&ObjectKey, Guard),
        headers: Option<Headers>,
    ) -> Result<WrittenVersion, OriginError> {
        let key = key.clone();
        self.object(Write::Copy {
            source,
            key,
            headers,
            guard,
        })
        .await
    }

    /// Sends [`Write::Delete`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] if the store compares, and the guard does not hold; the origin's.
    pub async fn delete(&self, key: &ObjectKey, guard: Guard) -> Result<(), OriginError> {
        let (key, version_id) = (key.clone(), None);
        self.done(Write::Delete {
            key,
            version_id,
            guard,
        })
        .await
    }

    /// Sends [`Write::Delete`] for one version, if its id is known.
    ///
    /// # Errors
    /// The origin's.
    pub async fn delete_version(
        &self,
        key: &ObjectKey,
        version_id: Option<String>,
    ) -> Result<(), OriginError> {
        let key = key.clone();
        let guard = Guard::None;
        self.done(Write::Delete {
            key,
            version_id,
            guard,
        })
        .await
    }
}
