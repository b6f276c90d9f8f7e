//! Drafts that are uploaded under a staging key, so that bytes that left the spool can be read
//! back.

use std::sync::Arc;

use crate::WriteError;
use crate::draft::base_version::BaseVersion;
use crate::draft::phase::Step;
use crate::draft::shared_draft::SharedDraft;
use crate::publish::staging_key::is_staging_key;
use crate::task::catch_panic;
use crate::task::run_to_completion;
use tidegate_origin::{Guard, Upload};
use tidegate_plan::{ObjectKey, Version};

impl SharedDraft {
    /// Completes the upload under the staging key, and makes it the base. The caller holds the
    /// gate.
    pub(crate) async fn publish_staged(self: &Arc<Self>) -> Result<(), WriteError> {
        let size = self.state().draft().size();
        let (upload, parts) = self.assemble().await?;
        tracing::info!(
            key = upload.key.as_str(),
            "an object that goes back to what has left the spool goes on under a hidden key"
        );
        let published = self.complete(&upload, parts, Guard::None, size).await?;
        self.inner.metrics.staged.inc();
        self.rebase(&upload, published.version).await
    }

    /// Makes the staged object the base, and empties the spool.
    pub(crate) async fn rebase(
        self: &Arc<Self>,
        upload: &Upload,
        version: Version,
    ) -> Result<(), WriteError> {
        let base = BaseVersion {
            key: upload.key.clone(),
            version: Arc::new(version),
        };
        // Readers of the spool finish first.
        let _page = self.page.write().await;
        let restarted = self.restart(&base).await?;
        let (before, freed) = {
            let mut state = self.state();
            state.rebase(base)
        };
        drop(restarted);
        self.chunks.clear();
        self.inner.spool.space.give(freed);
        self.delete_staged_base(before);
        Ok(())
    }

    /// Makes bytes that left the spool readable again.
    pub(crate) async fn read_back(self: &Arc<Self>) -> Result<(), WriteError> {
        let writing = self.clone();
        let work = async move { writing.read_back_now().await };
        run_to_completion(&self.inner.core, work).await
    }

    async fn read_back_now(self: &Arc<Self>) -> Result<(), WriteError> {
        let _gate = self.gate.write().await;
        if !self.state().draft().has_gone_bytes() {
            return Ok(());
        }
        self.state().step(Step::BeginAttempt);
        self.wait_for_parts().await;
        self.state().retry_mut().forget_failure();
        let published = catch_panic(self.make_readable()).await;
        self.state().step(Step::EndReadingBack);
        published
    }

    async fn make_readable(self: &Arc<Self>) -> Result<(), WriteError> {
        let _hold = self.inner.path.keys.lock_key(&self.id()).await;
        // An unanswered completion may have succeeded.
        let under_its_key = self.go_on_completing().await?;
        match under_its_key {
            None if self.state().draft().has_gone_bytes() => self.publish_staged().await,
            None => Ok(()),
            Some(published) => self.settle(published, &mut None).await,
        }
    }

    /// Deletes a base under a staging key, in the background.
    pub(crate) fn delete_staged_base(&self, base: Option<BaseVersion>) {
        if let Some(BaseVersion { key, version }) = base {
            self.delete_staging_key(key, version.version_id.clone());
        }
    }

    /// Deletes a key in the same way, unless it is the object's own.
    pub(crate) fn delete_staging_key(&self, key: ObjectKey, version_id: Option<String>) {
        // A base under another name is another object, of which this one was copied.
        if key == self.state().id().key || !is_staging_key(key.as_str()) {
            return;
        }
        let source = self.source.clone();
        self.inner.core.spawn(async move {
            // Permanently: an old version of it would never be found.
            let origin = source.origin.writing();
            if let Err(error) = origin.delete_version(&key, version_id).await {
                tracing::warn!(%error, key = key.as_str(), "cannot delete a hidden object; delete it by hand");
            }
        });
    }
}
