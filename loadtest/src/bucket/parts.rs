//! Multipart upload of a file straight to the bucket: the reference for writers.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Bucket, plainly};

/// The part size and concurrency of an upload.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// Bytes of each part but the last.
    pub size: u64,
    /// The number of parts under way at once.
    pub streams: usize,
}

impl Bucket {
    /// Uploads a file that is not empty. Bodies are neither signed nor hashed.
    ///
    /// # Errors
    /// If it cannot be read, or the server refuses.
    pub async fn upload(&self, key: &str, path: &Path, how: Parts) -> Result<()> {
        let file = Arc::new(File::open(path)?);
        let len = file.metadata()?.len();
        let create = self.client.create_multipart_upload().bucket(&self.name);
        let created = create.key(key).send().await.map_err(plainly)?;
        let upload = created.upload_id().context("an upload without an id")?;
        let mut parts: Vec<CompletedPart> = stream::iter(0..len.div_ceil(how.size))
            .map(|index| {
                let start = index * how.size;
                let part = (start, how.size.min(len - start));
                self.upload_part(key, upload, index, Arc::clone(&file), part)
            })
            .buffer_unordered(how.streams)
            .try_collect()
            .await?;
        parts.sort_by_key(CompletedPart::part_number);
        let parts = CompletedMultipartUpload::builder()
            .set_parts(Some(parts))
            .build();
        let complete = self.client.complete_multipart_upload().bucket(&self.name);
        let complete = complete.key(key).upload_id(upload).multipart_upload(parts);
        complete.send().await.map_err(plainly)?;
        Ok(())
    }

    /// Returns the number of multipart uploads to a key that were begun, and neither completed nor aborted. MinIO tells
    /// them for a whole key alone.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn unfinished(&self, key: &str) -> Result<usize> {
        let list = self.client.list_multipart_uploads().bucket(&self.name);
        let listed = list.prefix(key).send().await.map_err(plainly)?;
        Ok(listed.uploads().len())
    }

    async fn upload_part(
        &self,
        key: &str,
        upload: &str,
        index: u64,
        file: Arc<File>,
        (start, len): (u64, u64),
    ) -> Result<CompletedPart> {
        let bytes = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; usize::try_from(len)?];
            file.read_exact_at(&mut bytes, start)?;
            anyhow::Ok(bytes)
        })
        .await??;
        let number = i32::try_from(index + 1)?;
        let send = self.client.upload_part().bucket(&self.name).key(key);
        let send = send.upload_id(upload).part_number(number);
        let send = send.body(ByteStream::from(bytes)).customize();
        let sent = send.disable_payload_signing().send().await;
        Ok(CompletedPart::builder()
            .part_number(number)
            .set_e_tag(sent.map_err(plainly)?.e_tag)
            .build())
    }
}
