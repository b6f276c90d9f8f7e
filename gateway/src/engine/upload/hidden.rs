//! Drafts that go up under a key of their own, so that what has left the spool can be read back.

use std::sync::Arc;

use super::WriteError;
use super::writing::{Pinned, Writing};
use crate::engine::core::caught;
use crate::origin::{Guard, Upload};
use crate::plan::{Extents, ObjectKey, Version};

impl Writing {
    /// Completes what there is under the hidden key, and makes that the base. The gate is held.
    pub(super) async fn publish_hidden(self: &Arc<Self>) -> Result<(), WriteError> {
        let size = self.state().draft.size();
        let (upload, parts) = self.assemble().await?;
        tracing::info!(
            key = upload.key.as_str(),
            "an object that goes back to what has left the spool goes on under a hidden key"
        );
        let published = self.complete(&upload, parts, Guard::None, size).await?;
        self.inner.metrics.hidden.inc();
        self.rebase(&upload, published.version).await
    }

    /// The hidden object is the base from here on, and the spool is empty.
    pub(super) async fn rebase(
        self: &Arc<Self>,
        upload: &Upload,
        version: Version,
    ) -> Result<(), WriteError> {
        let base = Pinned {
            key: upload.key.clone(),
            version: Arc::new(version),
        };
        // Who reads from the spool goes first.
        let _page = self.page.write().await;
        let restarted = self.restart(&base).await?;
        let (before, freed) = {
            let mut state = self.state();
            let freed = state.take_room();
            state.draft = state.draft.next_from(base.version.size);
            state.upload = None;
            state.unnoted = Extents::default();
            state.unverified.clear();
            (state.base.replace(base), freed)
        };
        drop(restarted);
        self.chunks.clear();
        self.inner.spool.space.give(freed);
        self.drop_hidden(before);
        Ok(())
    }

    /// Makes bytes that are gone readable again.
    pub(super) async fn read_back(self: &Arc<Self>) -> Result<(), WriteError> {
        let writing = self.clone();
        self.inner
            .core
            .to_its_end(async move { writing.read_back_now().await })
            .await
    }

    async fn read_back_now(self: &Arc<Self>) -> Result<(), WriteError> {
        let _gate = self.gate.write().await;
        if !self.state().draft.has_gone() {
            return Ok(());
        }
        self.state().closing = true;
        self.wait_for_parts().await;
        self.state().failure = None;
        let published = caught(self.make_readable()).await;
        self.state().closing = false;
        published
    }

    async fn make_readable(self: &Arc<Self>) -> Result<(), WriteError> {
        let _hold = self.inner.core.hold_key(&self.id()).await;
        // A completion that nobody answered may have been one.
        let under_its_key = self.go_on_completing().await?;
        match under_its_key {
            None if self.state().draft.has_gone() => self.publish_hidden().await,
            None => Ok(()),
            Some(published) => self.settle(published).await,
        }
    }

    /// Deletes a base that only we know, behind the caller's back.
    pub(super) fn drop_hidden(&self, base: Option<Pinned>) {
        if let Some(Pinned { key, version }) = base {
            self.drop_hidden_key(key, version.version_id.clone());
        }
    }

    /// The same of a key, unless it is the object's own.
    pub(super) fn drop_hidden_key(&self, key: ObjectKey, version_id: Option<String>) {
        if key == self.state().id.key {
            return;
        }
        let source = self.source.clone();
        self.inner.core.spawn(async move {
            // For ever: nobody would find an old version of it.
            let origin = source.origin.writing();
            if let Err(error) = origin.delete_version(&key, version_id).await {
                tracing::warn!(%error, key = key.as_str(), "cannot delete a hidden object; delete it by hand");
            }
        });
    }
}
