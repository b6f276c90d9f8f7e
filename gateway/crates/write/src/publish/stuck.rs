//! Journals that the disk has not let go of, although their objects were published or deleted since: a disk that has become
//! read-only, say.
//!
//! The next process would take such a journal up. Its old bytes would replace what was written since, or a deleted object
//! would come back. So nothing changes the object before its journal is gone. A change that makes a waiting draft older
//! looks first whether the disk will let go of that draft's journal, and reports an error if it does not.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use crate::spool::file::SpoolFile;
use crate::{Drafts, WriteError};
use tidegate_plan::ObjectId;
use tidegate_telemetry::locks::Recover as _;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct StuckJournals(Mutex<HashMap<ObjectId, Vec<EndedFile>>>);

/// The files of a draft that has ended.
#[derive(Debug, Clone)]
pub(crate) struct EndedFile {
    pub(crate) file: Arc<SpoolFile>,
    /// Handles are open that read and write the data on.
    pub(crate) is_read: bool,
}

impl EndedFile {
    /// Removes the journal, durably, and the data unless it is read.
    async fn remove(&self) -> io::Result<()> {
        let is_read = self.is_read;
        let remove = move |file: &Arc<SpoolFile>| match is_read {
            true => file.forget(),
            false => file.try_to_remove(),
        };
        self.file.blocking(remove).await
    }
}

impl Drafts {
    /// Removes the files of a draft that was published or discarded. `promised`: the next process would take its journal
    /// up.
    ///
    /// # Errors
    /// The disk's, if it keeps a promised journal.
    pub(crate) async fn end_file(
        &self,
        ended: EndedFile,
        promised: bool,
    ) -> Result<(), WriteError> {
        let Err(error) = ended.remove().await else {
            return Ok(());
        };
        let Some(id) = ended.file.object() else {
            return Ok(());
        };
        let key = id.key.as_str();
        tracing::error!(%error, key, promised, "cannot remove the journal of an object that was published or deleted");
        if !promised {
            return Ok(());
        }
        let id = self.core.of_bucket(&id);
        let mut stuck = self.stuck.0.lock().recover();
        stuck.entry(id).or_default().push(ended);
        Err(error.into())
    }

    /// Keeps the journal of a draft that was renamed over another one, if the disk has kept the journals of that one: the
    /// next process undoes the rename. The old key does not change before those are gone, and then this one.
    pub(crate) fn keep_with(&self, file: Arc<SpoolFile>, over: &ObjectId) {
        let Some(id) = file.object() else {
            return;
        };
        let mut stuck = self.stuck.0.lock().recover();
        let first = stuck.get(&self.core.of_bucket(over)).cloned();
        let kept = stuck.entry(self.core.of_bucket(&id)).or_default();
        kept.extend(first.unwrap_or_default());
        let is_read = false;
        kept.push(EndedFile { file, is_read });
    }

    /// Removes the journals of an object that the disk has not let go of. The caller is about to change the object.
    ///
    /// # Errors
    /// The disk's: the object must stay as it is.
    pub(crate) async fn check_journals(&self, id: &ObjectId) -> Result<(), WriteError> {
        let stuck = {
            let stuck = self.stuck.0.lock().recover();
            if stuck.is_empty() {
                return Ok(());
            }
            stuck.get(&self.core.of_bucket(id)).cloned()
        };
        for ended in stuck.unwrap_or_default() {
            ended.remove().await?;
            let mut stuck = self.stuck.0.lock().recover();
            let id = self.core.of_bucket(id);
            if let Some(left) = stuck.get_mut(&id) {
                left.retain(|other| !Arc::ptr_eq(&other.file, &ended.file));
                if left.is_empty() {
                    stuck.remove(&id);
                }
            }
        }
        Ok(())
    }
}
