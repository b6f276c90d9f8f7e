//! Writes that send no bytes: copies into parts, and deletions.

use super::S3;
use super::failure;
use super::write::{if_match, of_source, part_number, tag};
use crate::{CopySource, Guard, OriginError, Upload, WriteOutcome};
use tidegate_plan::{ByteRange, ObjectKey};

impl S3 {
    pub(super) async fn copy_part(
        &self,
        upload: Upload,
        number: u32,
        source: &CopySource,
        range: Option<ByteRange>,
    ) -> Result<WriteOutcome, OriginError> {
        if range.is_some_and(ByteRange::is_empty) {
            return Err(OriginError::BadAnswer("an empty range is no part"));
        }
        let range = range.map(|range| format!("bytes={}-{}", range.start, range.end - 1));
        let copy = self
            .writer
            .upload_part_copy()
            .bucket(&self.bucket)
            .key(upload.key.as_str())
            .upload_id(upload.id)
            .part_number(part_number(number)?)
            .copy_source(self.source(source))
            .copy_source_if_match(source.etag.as_str())
            .set_copy_source_range(range);
        match copy.send().await {
            Ok(output) => {
                let result = output.copy_part_result;
                Ok(WriteOutcome::Part(tag(
                    result.and_then(|result| result.e_tag)
                )?))
            }
            Err(error) => Err(of_source(failure::of_write(&error))),
        }
    }

    /// Deletes an object, without the condition if the store does not know it. A weak tag matches nothing.
    pub(super) async fn delete(
        &self,
        key: &ObjectKey,
        version_id: Option<String>,
        guard: &Guard,
    ) -> Result<WriteOutcome, OriginError> {
        let is_compared = match guard {
            Guard::Same(etag) => !etag.is_weak() && self.deletions.are_sent(),
            Guard::None | Guard::Absent => false,
        };
        if !is_compared {
            return self.delete_if(key, version_id, None).await;
        }
        let compared = self.delete_if(key, version_id.clone(), if_match(guard));
        match compared.await {
            Err(OriginError::Unsupported) => {
                let done = self.delete_if(key, version_id, None).await?;
                self.deletions.note_refused(&self.bucket, "deletions");
                Ok(done)
            }
            done @ (Ok(_) | Err(OriginError::Changed)) => {
                self.deletions.note_compared();
                done
            }
            failed => failed,
        }
    }

    async fn delete_if(
        &self,
        key: &ObjectKey,
        version_id: Option<String>,
        if_match: Option<String>,
    ) -> Result<WriteOutcome, OriginError> {
        let delete = self.writer.delete_object().bucket(&self.bucket);
        let delete = delete.key(key.as_str()).set_version_id(version_id);
        let delete = delete.set_if_match(if_match);
        match delete.send().await {
            Ok(_) => Ok(WriteOutcome::Done),
            Err(error) => match failure::of_write(&error) {
                OriginError::NotFound | OriginError::KeyRefused => Ok(WriteOutcome::Done),
                error => Err(error),
            },
        }
    }
}
