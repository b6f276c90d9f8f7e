//! Writes that send no bytes: copies, deletions, and what concerns uploads under way.

use super::upload::{FakeUpload, opaque, tag};
use super::{FakeOrigin, Fault};
use crate::{Guard, OriginError, Upload, Write, WriteOutcome};
use tidegate_plan::ObjectKey;

impl FakeOrigin {
    pub(super) fn apply_without_bytes(
        &self,
        write: Write,
        faults: &[Fault],
    ) -> Result<WriteOutcome, OriginError> {
        match write {
            Write::Uploads(key) => return Ok(WriteOutcome::Uploads(self.uploads_of(&key))),
            Write::Copy {
                source,
                key,
                headers,
                guard,
            } => {
                let guard = match faults.contains(&Fault::IgnoreConditions) {
                    true => Guard::None,
                    false => guard,
                };
                let (version, bytes) = self.source(&source)?;
                let headers = headers.unwrap_or_else(|| version.headers.clone());
                // A copy in one request is stored as one, whatever its source was.
                let etag = match self.hidden_tags() {
                    (true, count) => opaque(count, ""),
                    (false, _) => tag(&bytes),
                };
                return self.install(&key, bytes, etag, headers, &guard);
            }
            Write::Abort(upload) => drop(self.state().uploads.remove(&upload.id)),
            Write::Delete {
                key,
                version_id,
                guard,
            } => {
                // AWS compares with a delete marker, too.
                let is_there = self
                    .state()
                    .objects
                    .get(&key)
                    .is_some_and(|it| !it.is_empty());
                if is_there && !faults.contains(&Fault::IgnoreConditions) {
                    self.hold(&key, &guard)?;
                }
                match version_id {
                    Some(id) => self.delete_version(&key, &id),
                    None => self.delete(key.as_str()),
                }
            }
            Write::Put { .. }
            | Write::Begin { .. }
            | Write::Part { .. }
            | Write::CopyPart { .. }
            | Write::Complete { .. } => unreachable!("its bytes are applied"),
        }
        Ok(WriteOutcome::Done)
    }

    fn uploads_of(&self, key: &ObjectKey) -> Vec<Upload> {
        let state = self.state();
        let of_key = state.uploads.iter().filter(|(_, begun)| begun.key == *key);
        let upload = |(id, begun): (&String, &FakeUpload)| Upload {
            key: begun.key.clone(),
            id: id.clone(),
            sums: begun.sums,
        };
        of_key.map(upload).collect()
    }
}
