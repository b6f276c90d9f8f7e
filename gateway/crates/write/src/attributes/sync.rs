//! fsync(2) of changed attributes and of folders.

use crate::{WriteError, Writers};
use tidegate_engine::ReadContext;
use tidegate_plan::ObjectKey;

impl Writers {
    /// Makes the attributes of an object durable that are changed and not in the bucket yet.
    ///
    /// # Errors
    /// Those of the spool's disk.
    pub async fn sync_attributes(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
    ) -> Result<(), WriteError> {
        match self.0.attributes.get(&source.object(key)) {
            Some(_) => self.0.attributes.sync().await,
            None => Ok(()),
        }
    }

    /// Makes the names in a folder durable, whose prefix ends in `/` or is empty, and its attributes: those that are not
    /// in the bucket yet. All but new folders are there, or in the spool, once the call that changed them has returned.
    ///
    /// # Errors
    /// The bucket's for a new folder that it has refused, once; those of the spool's disk.
    pub async fn sync_folder(&self, source: &ReadContext, prefix: &str) -> Result<(), WriteError> {
        self.0.send_markers(source.origin.id(), prefix).await?;
        self.0.attributes.sync().await
    }
}
