//! The end of a received object: it appears, or leaves nothing behind.

use std::sync::Arc;

use super::ObjectReceiver;
use crate::WriteError;
use crate::abort::abort;
use crate::change::change_mark::change_key;
use crate::draft::uncertain::is_stored_as;
use crate::publish::complete::confirmed;
use crate::publish::published_version::{PublishedVersion, SentBytes};
use tidegate_engine::written::{self, Chunks, RequestStart, WriteAnswer, WriteConfirmation};
use tidegate_origin::{Guard, OriginError, Payload, WrittenVersion};
use tidegate_plan::{ChangeKind, ETag, Version};

impl ObjectReceiver {
    /// Publishes the object.
    pub(super) async fn publish(&mut self) -> Result<PublishedVersion, WriteError> {
        let guard = Guard::from(self.incoming.wanted.clone());
        if self.upload.is_none() {
            return self.put(guard).await;
        }
        self.parts.sort_by_key(|part| part.number);
        let upload = self.upload.clone().expect("looked at just above");
        let parts = self.parts.clone();
        let expected = ETag::of_parts(parts.iter().map(|part| &part.etag));
        let asked = RequestStart::now(&self.core, &self.id).await;
        let writing = self.source.origin.writing();
        let complete = writing.complete(&upload, parts.clone(), guard);
        match change_key(&self.core, (&self.id, ChangeKind::Created), complete).await {
            Ok(written) => {
                self.upload = None;
                let answered = WriteAnswer::now(&self.core, asked, written.answered);
                let made = self.made(written);
                let (core, source) = (&self.core, &self.source);
                let found = confirmed(core, source, &self.id, made, answered).await?;
                Ok(PublishedVersion {
                    version: found.0,
                    known: found.1,
                    bytes: SentBytes::Parts(parts),
                })
            }
            Err(error) if error.leaves_doubt() => self.find(error, expected).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Publishes an object of one part.
    async fn put(&mut self, guard: Guard) -> Result<PublishedVersion, WriteError> {
        let (core, profile) = (&self.core, self.source.profile.load_full());
        let pieces = self.filling.take();
        let payload = Payload::pieces(pieces.clone());
        let headers = self.incoming.headers.clone();
        let asked = RequestStart::now(core, &self.id).await;
        let origin = self.source.origin.writing();
        let put = origin.put(&self.id.key, headers, payload, guard);
        let put = change_key(core, (&self.id, ChangeKind::Created), put);
        let (put, chunks) = tokio::join!(put, Chunks::cut(core, &profile, &pieces, true));
        let written = put?;
        Ok(PublishedVersion {
            known: WriteConfirmation::Answered(WriteAnswer::now(core, asked, written.answered)),
            version: self.made(written),
            bytes: SentBytes::InOneRequest(chunks),
        })
    }

    /// Returns the new version, as the answer describes it.
    fn made(&self, written: WrittenVersion) -> Version {
        Version {
            etag: written.etag,
            size: self.size,
            last_modified: None,
            version_id: written.version_id,
            headers: self.incoming.headers.clone(),
        }
    }

    /// Makes the published version known to all readers of this process.
    pub(super) async fn settle(&self, published: PublishedVersion) -> ETag {
        let (core, id) = (&self.core, &self.id);
        core.forget_times(id);
        core.forget_name(id.origin, id.key.as_str());
        core.forget_others(id);
        let profile = self.source.profile.load();
        let (version, bytes) = (Arc::new(published.version), published.bytes);
        let etag = version.etag.clone();
        let known = published.known;
        written::install(core, &profile, id, &version, known, |filing| {
            bytes.file(filing, &self.chunks);
        })
        .await;
        etag
    }

    /// Checks the bucket after a completion without an answer. An equal object counts as ours,
    /// whichever writer made it. The upload is aborted then, because it may still exist.
    async fn find(
        &self,
        error: OriginError,
        expected: Option<ETag>,
    ) -> Result<PublishedVersion, WriteError> {
        let asked = RequestStart::now(&self.core, &self.id).await;
        let found = self.source.origin.head(&self.id.key).await;
        match (found, expected) {
            (Ok(version), Some(etag))
                if version.etag == etag
                    && version.size == self.size
                    && is_stored_as(&version.headers, &self.incoming.headers) =>
            {
                Ok(PublishedVersion::found(version, asked))
            }
            _ => Err(error.into()),
        }
    }
}

impl Drop for ObjectReceiver {
    /// Aborts the upload if the object has not appeared.
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else {
            return;
        };
        let origin = self.source.origin.clone();
        let mut sent = std::mem::take(&mut self.sent);
        let core = self.core.clone();
        self.core.spawn(async move {
            // A part that arrives after the abort would stay.
            sent.shutdown().await;
            abort(&core, &*origin, &upload).await;
        });
    }
}
