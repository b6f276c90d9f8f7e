//! An object that is put again from its own bytes: a copy, and a file that was changed by hand.

use std::fs::Metadata;
use std::sync::Arc;

use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopySource, GetObjectInput,
    GetObjectOutput, MetadataDirective, PutObjectInput,
};
use s3s::{S3 as _, S3Error, S3Request, S3Response, S3Result, s3_error};

use super::{Bucket, local, must_be_plain};
use crate::embedded::condition::Conditions;

impl Bucket {
    pub(in crate::embedded) async fn copy(
        self: Arc<Self>,
        request: S3Request<CopyObjectInput>,
    ) -> S3Result<S3Response<CopyObjectOutput>> {
        let input = request.input;
        let CopySource::Bucket { bucket, key, .. } = &input.copy_source else {
            return Err(s3_error!(NotImplemented));
        };
        must_be_plain(&input.key)?;
        let source = self.stripe(bucket, key);
        let target = self.stripe(&input.bucket, &input.key);
        // Always in this order, and a shared lock only once, so that two copies cannot wait for each other.
        let _first = self.locks[source.min(target)].write().await;
        let _second = match source == target {
            true => None,
            false => Some(self.locks[source.max(target)].write().await),
        };
        let file = self.sealed_file(bucket, key).await?;
        let found = self.open_object(bucket, key).await?;
        Conditions::from(&input).check_source(found.e_tag.as_ref(), &file)?;
        let mut put = replacement(found);
        if replaces_headers(&input) {
            put.cache_control = input.cache_control;
            put.content_disposition = input.content_disposition;
            put.content_encoding = input.content_encoding;
            put.content_language = input.content_language;
            put.content_type = input.content_type;
            put.expires = input.expires;
            put.metadata = input.metadata;
            put.website_redirect_location = input.website_redirect_location;
        }
        let result = self.replace(&input.bucket, &input.key, put).await?;
        Ok(S3Response::new(CopyObjectOutput {
            copy_object_result: Some(result),
            ..CopyObjectOutput::default()
        }))
    }

    /// Returns the metadata of an object's file, and makes sure that its ETag fits its bytes. The caller holds the key's lock
    /// for writing.
    pub(super) async fn sealed_file(&self, bucket: &str, key: &str) -> S3Result<Metadata> {
        let file = self.file(bucket, key).await?;
        if self.seals.holds(bucket, key, &file).await {
            return Ok(file);
        }
        self.adopt(bucket, key).await?;
        self.file(bucket, key).await
    }

    /// Takes the present file as the object, and keeps the object's headers. The caller holds the key's lock.
    async fn adopt(&self, bucket: &str, key: &str) -> S3Result<()> {
        let found = self.open_object(bucket, key).await?;
        self.replace(bucket, key, replacement(found))
            .await
            .map(drop)
    }

    /// Opens the file of an object, and reads its headers.
    async fn open_object(&self, bucket: &str, key: &str) -> S3Result<GetObjectOutput> {
        let get = GetObjectInput::builder()
            .bucket(bucket.to_owned())
            .key(key.to_owned())
            .build()
            .map_err(S3Error::internal_error)?;
        Ok(self.files.get_object(local(get)).await?.output)
    }

    /// Puts an object whole in place of what is there: s3s-fs writes a file of its own, and renames it.
    async fn replace(
        &self,
        bucket: &str,
        key: &str,
        put: PutObjectInput,
    ) -> S3Result<CopyObjectResult> {
        let put = PutObjectInput {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            ..put
        };
        let e_tag = self.files.put_object(local(put)).await?.output.e_tag;
        self.seal(bucket, key).await?;
        let modified = self.file(bucket, key).await?.modified();
        Ok(CopyObjectResult {
            e_tag,
            last_modified: Some(modified.map_err(S3Error::internal_error)?.into()),
            ..CopyObjectResult::default()
        })
    }
}

/// Returns whether a copy takes its headers from the request; by default it takes those of its source.
fn replaces_headers(input: &CopyObjectInput) -> bool {
    let directive = input.metadata_directive.as_ref();
    directive.is_some_and(|directive| directive.as_str() == MetadataDirective::REPLACE)
}

/// Returns what puts an object's bytes with its headers, under a key that is not named yet. Its sums stay behind: s3s-fs keeps
/// those of the object that an upload in parts has replaced.
fn replacement(found: GetObjectOutput) -> PutObjectInput {
    PutObjectInput {
        body: found.body,
        cache_control: found.cache_control,
        content_disposition: found.content_disposition,
        content_encoding: found.content_encoding,
        content_language: found.content_language,
        content_type: found.content_type,
        expires: found.expires,
        metadata: found.metadata,
        website_redirect_location: found.website_redirect_location,
        ..PutObjectInput::default()
    }
}
