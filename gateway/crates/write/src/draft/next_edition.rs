//! Beginning the next edition of a promised draft, and discarding the one that it replaces.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::draft::shared_draft::SharedDraft;
use crate::draft::state::DraftState;
use crate::draft::state::editions::EndedEdition;
use crate::spool::FILES_BYTES;
use crate::spool::file::SpoolFile;
use crate::spool::journal::Record;
use tidegate_origin::write::Headers;
use tidegate_plan::{ByteRange, ObjectId};

/// The work of the disk for a draft that is empty already. It decides nothing: records that cannot be appended go with the
/// next ones, and bytes that cannot be cut off are gone before they are read.
enum DiskWork {
    /// The draft has an edition with another file. This one gets its last records, or goes if its bytes are lost.
    EndEdition(EndedEdition),
    /// The bytes go, and their room is free then.
    Cut {
        file: Arc<SpoolFile>,
        records: Vec<Record>,
        freed: u64,
    },
}

impl SharedDraft {
    /// Truncates the draft to nothing and returns the length before; `anew`: for a writer that replaces the object of this
    /// name, with these headers and whatever version the bucket has. `None`: a rename has given the draft another name, or
    /// the object was deleted meanwhile, and nothing was changed.
    ///
    /// Waits for a publish under way, and for a sync. A caller that gives up then has changed nothing. The rest needs no
    /// wait, so it neither fails nor comes later.
    pub(crate) async fn empty(self: &Arc<Self>, anew: Option<(&ObjectId, Headers)>) -> Option<u64> {
        let gate = self.gate.clone().write_owned().await;
        let page = self.page.clone().write_owned().await;
        let journal = self.journal.clone().lock_owned().await;
        let before = {
            let state = self.state();
            let is_other = |id: &ObjectId| id != state.id() || state.phase().is_discarded();
            if anew.as_ref().is_some_and(|(id, _)| is_other(id)) {
                return None;
            }
            state.draft().size()
        };
        let work = self.begin_edition().or_else(|| self.empty_in_place());
        if let Some((_, headers)) = anew {
            self.replace_all(headers);
        }
        if let Some(work) = work {
            let writing = self.clone();
            self.inner.core.spawn(async move {
                let _held = (gate, page);
                writing.carry_out(work, journal).await;
            });
        }
        Some(before)
    }

    /// Drops the condition on the version before: the last commit wins.
    fn replace_all(&self, headers: Headers) {
        let now = self.inner.core.now();
        self.state().replace_all(headers, now);
    }

    fn empty_in_place(&self) -> Option<DiskWork> {
        let mut state = self.state();
        if state.draft().size() == 0 {
            return None;
        }
        let freed = state.empty(self.inner.core.now());
        // Without a file no byte is in the spool, and the records go into the file that the first one makes.
        let (file, records) = state.take_records()?;
        Some(DiskWork::Cut {
            file,
            records,
            freed,
        })
    }

    /// Begins an empty edition if this one was promised and is not empty. The caller holds the gate, the page and the
    /// journal alone.
    fn begin_edition(self: &Arc<Self>) -> Option<DiskWork> {
        let work = {
            let mut state = self.state();
            let ended = state.begin_edition()?;
            let spool = &self.inner.spool;
            spool.space.take(FILES_BYTES);
            let next = spool.create(state.beginning(), Some(ended.file.clone()));
            state.open_file(next);
            state.note_change(self.inner.core.now());
            DiskWork::EndEdition(ended)
        };
        self.chunks.clear();
        Some(work)
    }

    async fn carry_out(self: &Arc<Self>, work: DiskWork, journal: OwnedMutexGuard<()>) {
        let done = match work {
            DiskWork::EndEdition(EndedEdition {
                file,
                is_lost: true,
                ..
            }) => {
                // A crash cannot restore that edition.
                let removed = file.blocking(|file| file.try_to_remove()).await;
                self.discard_replaced_edition();
                drop(journal);
                removed
            }
            DiskWork::EndEdition(EndedEdition { file, records, .. }) => {
                // Records of the edition before, queued since it was promised. If its journal does not get them, only
                // requests are lost.
                let noted = file.blocking(move |file| {
                    let _journal = journal;
                    file.note(&records)
                });
                let noted = noted.await;
                file.let_go(ByteRange::new(0, u64::MAX));
                noted
            }
            DiskWork::Cut {
                file,
                records,
                freed,
            } => {
                // Before bytes go: see `Record::Cut`. They go even if the record fails; otherwise they would reappear when
                // the draft grows.
                let noted = file.blocking(move |file| {
                    let _journal = journal;
                    file.note_durably(&records)
                });
                let noted = noted.await;
                let cut = file.blocking(|file| file.cut(0)).await;
                self.inner.spool.space.give(freed);
                noted.and(cut)
            }
        };
        if let Err(error) = done {
            let key = self.id().key;
            tracing::warn!(%error, key = key.as_str(), "the spool disk does not know yet that an object was truncated to nothing");
        }
    }

    /// Makes an edition that replaces a promised one durable before it is published. Otherwise a
    /// crash would find the one before, and publish it over this one. A full disk does not stop the
    /// publish, because that frees room.
    pub(crate) async fn promise_edition(self: &Arc<Self>) {
        if let Err(error) = self.sync_if(DraftState::replaces_edition).await {
            let key = self.id().key;
            tracing::warn!(%error, key = key.as_str(), "cannot make the replacement of a closed object durable before its publish");
        }
    }

    /// Drops the edition before, whose files are removed, with its upload and its base.
    pub(crate) fn discard_replaced_edition(self: &Arc<Self>) {
        let before = self.state().take_replaced_edition();
        let Some(before) = before else {
            return;
        };
        self.inner.spool.space.give(before.room);
        self.give_up_upload(before.upload);
        self.delete_staged_base(before.base);
    }
}
