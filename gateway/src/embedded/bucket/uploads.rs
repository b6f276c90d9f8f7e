//! Multipart uploads with corrections of s3s-fs.
//!
//! By itself (0.14.1), s3s-fs lists no uploads, ignores the conditions of a copied part and the
//! checksums of parts, and answers `AccessDenied` for an unknown upload. It completes only parts
//! that are numbered without gaps, and loses an upload whose completion is cut off.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CopySource, CreateMultipartUploadInput,
    CreateMultipartUploadOutput, ETagCondition, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, MultipartUpload, UploadPartCopyInput, UploadPartCopyOutput,
    UploadPartInput, UploadPartOutput,
};
use s3s::{S3 as _, S3Error, S3Request, S3Response, S3Result, s3_error};

use super::{Bucket, must_be_plain};
use tidegate_telemetry::locks::Recover as _;

/// The bucket and key of each upload under way; uploads end with the process.
#[derive(Debug, Default)]
pub(super) struct Uploads(Mutex<HashMap<String, (String, String)>>);

impl Uploads {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, (String, String)>> {
        self.0.lock().recover()
    }

    fn must_have(&self, id: &str) -> S3Result<()> {
        match self.lock().contains_key(id) {
            true => Ok(()),
            false => Err(s3_error!(NoSuchUpload)),
        }
    }
}

impl Bucket {
    pub(in crate::embedded) async fn create(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        must_be_plain(&request.input.key)?;
        let of = (request.input.bucket.clone(), request.input.key.clone());
        let response = self.files().create_multipart_upload(request).await?;
        if let Some(id) = &response.output.upload_id {
            self.uploads.lock().insert(id.clone(), of);
        }
        Ok(response)
    }

    pub(in crate::embedded) async fn part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        self.uploads.must_have(&request.input.upload_id)?;
        self.files().upload_part(request).await
    }

    pub(in crate::embedded) async fn copy_part(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        self.uploads.must_have(&request.input.upload_id)?;
        let CopySource::Bucket { bucket, key, .. } = &request.input.copy_source else {
            return Err(s3_error!(NotImplemented));
        };
        let _held = self.lock_sealed(bucket, key).await?;
        if let Some(ETagCondition::ETag(wanted)) = &request.input.copy_source_if_match
            && !self.tag(bucket, key).await?.strong_cmp(wanted)
        {
            return Err(s3_error!(PreconditionFailed));
        }
        self.files().upload_part_copy(request).await
    }

    pub(in crate::embedded) async fn complete(
        self: Arc<Self>,
        mut request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = &request.input;
        must_be_plain(&input.key)?;
        let id = input.upload_id.clone();
        let _held = self.lock(&input.bucket, &input.key).write().await;
        self.uploads.must_have(&id)?;
        self.close_gaps(&mut request.input).await?;
        let (bucket, key) = (request.input.bucket.clone(), request.input.key.clone());
        let response = self.files().complete_multipart_upload(request).await?;
        self.uploads.lock().remove(&id);
        self.seal(&bucket, &key).await?;
        Ok(response)
    }

    pub(in crate::embedded) async fn abort(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.uploads.must_have(&request.input.upload_id)?;
        let id = request.input.upload_id.clone();
        let response = self.files().abort_multipart_upload(request).await?;
        self.uploads.lock().remove(&id);
        Ok(response)
    }

    pub(in crate::embedded) async fn list_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
        let ListMultipartUploadsInput { bucket, prefix, .. } = request.input;
        let prefix = prefix.unwrap_or_default();
        let uploads = self.uploads.lock();
        let there = uploads
            .iter()
            .filter(|(_, (of, key))| *of == bucket && key.starts_with(&prefix));
        let upload = |(id, (_, key)): (&String, &(String, String))| MultipartUpload {
            key: Some(key.clone()),
            upload_id: Some(id.clone()),
            ..MultipartUpload::default()
        };
        Ok(S3Response::new(ListMultipartUploadsOutput {
            uploads: Some(there.map(upload).collect()),
            bucket: Some(bucket),
            ..ListMultipartUploadsOutput::default()
        }))
    }

    /// Renames the files of parts to the numbers that s3s-fs requires. If the completion is
    /// refused, they stay renamed: the next request is an abort or the same again.
    async fn close_gaps(&self, input: &mut CompleteMultipartUploadInput) -> S3Result<()> {
        let Some(upload) = &mut input.multipart_upload else {
            return Ok(());
        };
        let parts = upload.parts.iter_mut().flatten();
        for (part, at) in parts.zip(1_i32..) {
            let number = part.part_number.unwrap_or_default();
            if number < at {
                return Err(s3_error!(InvalidPartOrder));
            }
            let from = self.part_file(&input.upload_id, number);
            if number != at && from.is_file() {
                let to = self.part_file(&input.upload_id, at);
                let renamed = tokio::fs::rename(from, to).await;
                renamed.map_err(S3Error::internal_error)?;
            } else if !self.part_file(&input.upload_id, at).is_file() {
                return Err(s3_error!(InvalidPart));
            }
            part.part_number = Some(at);
        }
        Ok(())
    }

    fn part_file(&self, upload: &str, number: i32) -> PathBuf {
        self.root()
            .join(format!(".upload_id-{upload}.part-{number}"))
    }
}
