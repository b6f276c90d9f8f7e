//! The questions as methods, each with the answer that fits it.

use super::{
    CompletedPart, CopySource, Guard, Headers, OriginWrite, PartSums, Upload, Write, Written, Wrote,
};
use crate::origin::{OriginError, Payload};
use crate::plan::{ByteRange, ETag, ObjectKey};

const OTHER: OriginError = OriginError::BadAnswer("an answer to another question");

impl dyn OriginWrite + '_ {
    async fn object(&self, write: Write) -> Result<Written, OriginError> {
        match self.write(write).await? {
            Wrote::Object(written) => Ok(written),
            _ => Err(OTHER),
        }
    }

    async fn part_tag(&self, write: Write) -> Result<ETag, OriginError> {
        match self.write(write).await? {
            Wrote::Part(etag) => Ok(etag),
            _ => Err(OTHER),
        }
    }

    async fn done(&self, write: Write) -> Result<(), OriginError> {
        match self.write(write).await? {
            Wrote::Done => Ok(()),
            _ => Err(OTHER),
        }
    }

    /// [`Write::Put`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] where the guard does not hold.
    pub async fn put(
        &self,
        key: &ObjectKey,
        headers: Headers,
        payload: Payload,
        guard: Guard,
    ) -> Result<Written, OriginError> {
        let key = key.clone();
        let put = Write::Put {
            key,
            headers,
            payload,
            guard,
        };
        self.object(put).await
    }

    /// [`Write::Begin`].
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
            Wrote::Upload(upload) => Ok(upload),
            _ => Err(OTHER),
        }
    }

    /// [`Write::Part`].
    ///
    /// # Errors
    /// [`OriginError::NoSuchUpload`] where the upload is gone.
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

    /// [`Write::CopyPart`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] where the source has another version or is gone.
    pub async fn copy_part(
        &self,
        upload: &Upload,
        number: u32,
        source: CopySource,
        range: ByteRange,
    ) -> Result<ETag, OriginError> {
        let upload = upload.clone();
        let copy = Write::CopyPart {
            upload,
            number,
            source,
            range,
        };
        self.part_tag(copy).await
    }

    /// [`Write::Complete`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] where the guard does not hold: the upload is still there.
    /// [`OriginError::NoSuchUpload`] where it is gone: also when an earlier try was carried out.
    /// [`OriginError::InvalidPart`] where a part is another one, or is not taken with the others.
    pub async fn complete(
        &self,
        upload: &Upload,
        parts: impl IntoIterator<Item = impl Into<CompletedPart>>,
        guard: Guard,
    ) -> Result<Written, OriginError> {
        let upload = upload.clone();
        let parts = parts.into_iter().map(Into::into).collect();
        let complete = Write::Complete {
            upload,
            parts,
            guard,
        };
        self.object(complete).await
    }

    /// [`Write::Abort`].
    ///
    /// # Errors
    /// The origin's.
    pub async fn abort(&self, upload: &Upload) -> Result<(), OriginError> {
        self.done(Write::Abort(upload.clone())).await
    }

    /// [`Write::Uploads`].
    ///
    /// # Errors
    /// The origin's.
    pub async fn uploads(&self, key: &ObjectKey) -> Result<Vec<Upload>, OriginError> {
        match self.write(Write::Uploads(key.clone())).await? {
            Wrote::Uploads(uploads) => Ok(uploads),
            _ => Err(OTHER),
        }
    }

    /// [`Write::Copy`].
    ///
    /// # Errors
    /// [`OriginError::Changed`] where the source has another version or is gone.
    pub async fn copy(
        &self,
        source: CopySource,
        key: &ObjectKey,
        headers: Option<Headers>,
    ) -> Result<Written, OriginError> {
        let key = key.clone();
        self.object(Write::Copy {
            source,
            key,
            headers,
        })
        .await
    }

    /// [`Write::Delete`].
    ///
    /// # Errors
    /// The origin's.
    pub async fn delete(&self, key: &ObjectKey) -> Result<(), OriginError> {
        self.delete_version(key, None).await
    }

    /// [`Write::Delete`] of one version, where its id is known.
    ///
    /// # Errors
    /// The origin's.
    pub async fn delete_version(
        &self,
        key: &ObjectKey,
        version_id: Option<String>,
    ) -> Result<(), OriginError> {
        let key = key.clone();
        self.done(Write::Delete { key, version_id }).await
    }
}
