//! Drafts that an earlier process left in the spool.

use std::sync::Arc;

use crate::Writers;
use crate::draft::base_version::BaseVersion;
use crate::draft::records::headers_of;
use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::draft::state::target::CommitTarget;
use crate::publish::queue::remove;
use crate::spool::file::SpoolFile;
use crate::spool::journal::{Base, GuardWord};
use crate::spool::replay::ReplayedDraft;
use crate::spool::{FILES_BYTES, SpoolError};
use tidegate_engine::ReadContext;
use tidegate_engine::times::Times;
use tidegate_origin::write::Headers;
use tidegate_origin::{Guard, Upload};
use tidegate_plan::{ETag, ObjectKey, OriginId, Version};

impl Writers {
    /// Resumes every draft in the spool. Blocks.
    pub(crate) fn recover(&self, sources: &[Arc<ReadContext>]) -> Result<(), SpoolError> {
        let spool = &self.0.spool;
        let drafts = spool
            .recover(&self.0.settings.reading, self.0.core.now())
            .map_err(|error| SpoolError::Io {
                what: "read",
                path: self.0.settings.spool.clone(),
                error,
            })?;
        for (file, replayed) in drafts {
            let source = source_of(OriginId(replayed.begin.origin), sources);
            let (key, promised) = (replayed.begin.key.clone(), replayed.promised);
            match source.and_then(|source| self.take_up(source, file, replayed)) {
                Some(writing) if promised => {
                    tracing::info!(key, "going on with an object that was closed or synced");
                    writing.enqueue();
                    self.0.resumed.add(&writing);
                }
                Some(writing) => remove(writing.abandon()),
                None => {
                    tracing::error!(
                        key,
                        "an object in the spool belongs to no bucket that may be written to, or is there twice; it is left there"
                    );
                }
            }
        }
        Ok(())
    }

    fn take_up(
        &self,
        source: &Arc<ReadContext>,
        file: Arc<SpoolFile>,
        replayed: ReplayedDraft,
    ) -> Option<Arc<SharedDraft>> {
        let state = self.state(source, file, &replayed)?;
        let id = state.id().clone();
        let writing = SharedDraft::new(&self.0, source, state);
        if replayed.promised {
            let mut writings = self.0.writings();
            // Two drafts of one object: a process ended in the middle of a rename. Both are kept.
            if writings.contains_key(&id) {
                return None;
            }
            writings.insert(id, writing.clone());
        }
        self.0.spool.space.take(FILES_BYTES);
        Some(writing)
    }

    fn state(
        &self,
        source: &ReadContext,
        file: Arc<SpoolFile>,
        replayed: &ReplayedDraft,
    ) -> Option<DraftState> {
        let begin = &replayed.begin;
        let id = source.object(&ObjectKey::new(&begin.key).ok()?);
        let guard = match &begin.guard {
            GuardWord::None => Guard::None,
            GuardWord::Absent => Guard::Absent,
            GuardWord::Same(etag) => Guard::Same(ETag::parse(etag)?),
        };
        let stored = headers_of(&begin.headers);
        let base = match &begin.base {
            Some(base) => Some(pinned(base, &stored)?),
            None => None,
        };
        let upload = match &replayed.upload {
            Some(begun) => {
                let upload = Upload {
                    key: ObjectKey::new(&begun.key).ok()?,
                    id: begun.id.clone(),
                    sums: begun.sums,
                };
                Some((upload, headers_of(&begun.headers)))
            }
            None => None,
        };
        // The times that were seen before the restart, not those of its base.
        let core = &self.0.core;
        let seen = core.times.of_draft(&id);
        let times = seen.unwrap_or_else(|| Times::at(core.next_time(&id)));
        let target = CommitTarget::new(id, stored, guard).with_optional_guard(begin.may_lack_guard);
        let state = DraftState::new(&self.0, target, base);
        Some(state.recovered(&self.0, file, replayed, upload, times))
    }
}

/// Returns the source of a draft. For a draft from before its access had a name, returns the first
/// source of its bucket.
fn source_of(origin: OriginId, sources: &[Arc<ReadContext>]) -> Option<&Arc<ReadContext>> {
    let same = sources.iter().find(|source| source.origin.id() == origin);
    let unnamed = |source: &&Arc<ReadContext>| source.origin.bucket().identity_for(None) == origin;
    same.or_else(|| sources.iter().find(unnamed))
}

fn pinned(base: &Base, headers: &Headers) -> Option<BaseVersion> {
    Some(BaseVersion {
        key: ObjectKey::new(&base.key).ok()?,
        version: Arc::new(Version {
            etag: ETag::parse(&base.etag)?,
            size: base.size,
            last_modified: None,
            version_id: None,
            headers: headers.clone(),
        }),
    })
}
