//! A published version, and its bytes that may be cached.

use std::sync::Arc;

use crate::draft::shared_draft::SharedDraft;
use tidegate_engine::written::{
    self, Chunks, Filing, FilingCause, PartChunks, RequestStart, WriteConfirmation,
};
use tidegate_origin::CompletedPart;
use tidegate_plan::{ByteRange, ObjectId, Version, VersionId};

/// A version that was published.
pub(crate) struct PublishedVersion {
    pub(crate) version: Version,
    pub(crate) known: WriteConfirmation,
    pub(crate) bytes: SentBytes,
}

/// The bytes of a published version, as far as the store has confirmed them.
pub(crate) enum SentBytes {
    /// None: the outcome of the write is not certain.
    InDoubt,
    /// They were sent in one request. The chunks are in memory, if any tier is to keep them.
    InOneRequest(Option<Chunks>),
    /// They were sent and copied as these parts.
    Parts(Vec<CompletedPart>),
    /// They are those of the version before.
    Copied,
}

impl SentBytes {
    /// Caches the chunks that this process holds; `held` are those of the parts.
    pub(crate) fn file(self, filing: &Filing, held: &PartChunks) {
        match self {
            Self::InOneRequest(Some(chunks)) => filing.put_all(chunks),
            Self::Parts(parts) => held.file(filing, &parts),
            Self::InOneRequest(None) | Self::Copied | Self::InDoubt => {}
        }
    }
}

impl PublishedVersion {
    /// Returns a version that was found in the bucket though the write was not answered.
    pub(crate) fn found(version: Version, asked: RequestStart) -> Self {
        Self {
            version,
            known: WriteConfirmation::Confirmed(asked),
            bytes: SentBytes::InDoubt,
        }
    }
}

impl SharedDraft {
    /// Makes a published version known to readers, and caches its bytes. Returns whether it still counts.
    pub(crate) async fn install(
        &self,
        id: &ObjectId,
        version: &Arc<Version>,
        known: WriteConfirmation,
        bytes: SentBytes,
    ) -> bool {
        let profile = self.source.profile.load_full();
        let copied = self.copied(&bytes).await;
        let core = &self.inner.core;
        let installed = written::install(core, &profile, id, version, known, |filing| {
            bytes.file(filing, &self.chunks);
            if let Some((base, ranges)) = copied {
                filing.put_of(base, &ranges, FilingCause::Base);
            }
        });
        let installed = installed.await;
        self.chunks.clear();
        installed
    }

    /// Returns the ranges that the store copied from the base, and the version of the base.
    async fn copied(&self, bytes: &SentBytes) -> Option<(VersionId, Vec<ByteRange>)> {
        let (base, ranges) = {
            let state = self.state();
            let ranges = match bytes {
                SentBytes::Copied => vec![ByteRange::new(0, state.draft().size())],
                SentBytes::Parts(_) => state.draft().copied_ranges(),
                SentBytes::InOneRequest(_) | SentBytes::InDoubt => Vec::new(),
            };
            (state.base().cloned()?, ranges)
        };
        if ranges.is_empty() {
            return None;
        }
        let id = self.source.object(&base.key);
        let base = self.inner.core.version_id(&id, &base.version).await;
        Some((base, ranges))
    }
}
