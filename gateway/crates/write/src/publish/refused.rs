//! An operator's decision on a draft that was refused for good.
//!
//! Another writer has changed the object since the draft began. The draft stays in the spool until the operator keeps
//! it, keeps the other writer's version, or saves it under another key. Each choice leaves the draft as it was if it
//! cannot be carried out.

use std::sync::Arc;

use crate::draft::shared_draft::SharedDraft;
use crate::task::{catch_panic, run_to_completion};
use crate::{OpenMode, Stage, WriteError, Writer, Writers};
use tidegate_engine::{Coverage, Error};
use tidegate_plan::upload::ByteSource;
use tidegate_plan::{ByteRange, ObjectId, ObjectKey, Version};

/// The bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

/// An operator's decision on a refused draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusedChoice {
    /// The draft replaces the version in the bucket, also bytes that it had not changed.
    KeepOurs,
    /// The draft is discarded.
    KeepTheirs,
    /// The draft becomes a new object of this key, and the version in the bucket stays.
    SaveAside(ObjectKey),
}

/// The choices for which a refused draft has all bytes that they need. Its own version can be discarded in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PossibleChoices {
    /// It can replace the version in the bucket.
    pub keep_ours: bool,
    /// It can be saved under another key.
    pub save_aside: bool,
}

/// The reason why a decision was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The object has no refused draft.
    #[error("no draft of this object was refused")]
    NotRefused,
    /// The draft is unchanged.
    #[error("the draft stays as it is: {0}")]
    Failed(WriteError),
    /// The draft was saved under the other key, and stays, as a program has written to it since.
    #[error(
        "a program wrote to the draft while it was saved: it stays, and what was saved lacks that"
    )]
    WrittenMeanwhile,
}

impl From<WriteError> for ResolveError {
    fn from(error: WriteError) -> Self {
        Self::Failed(error)
    }
}

impl Writers {
    /// Carries out a decision on a refused draft, also if the caller stops waiting.
    ///
    /// # Errors
    /// If no draft of the object was refused, or the decision cannot be carried out.
    pub async fn resolve(&self, id: &ObjectId, choice: RefusedChoice) -> Result<(), ResolveError> {
        let (writers, id) = (self.clone(), id.clone());
        let work = async move { Ok(writers.carry_out(&id, choice).await) };
        run_to_completion(&self.0.core, work).await?
    }

    async fn carry_out(&self, id: &ObjectId, choice: RefusedChoice) -> Result<(), ResolveError> {
        let writing = self.refused(id)?;
        match choice {
            RefusedChoice::KeepTheirs => self.keep_theirs(id, None).await,
            RefusedChoice::KeepOurs => {
                let writer = self.join(writing)?;
                writer.own_all().await?;
                Ok(writer.publish().await?)
            }
            RefusedChoice::SaveAside(key) => {
                let (headers, revision) = {
                    let state = writing.state();
                    (state.headers().clone(), state.revision())
                };
                let source = writing.source.clone();
                let writer = self.join(writing)?;
                let aside = self.open(&source, &key, OpenMode::CreateNew, headers);
                let aside = aside.await?;
                if let Err(error) = catch_panic(writer.copy_and_publish(&aside)).await {
                    // Half a copy must not reach the bucket.
                    self.discard(&source, &key).await;
                    return Err(error.into());
                }
                self.keep_theirs(id, Some(revision)).await
            }
        }
    }

    /// Asks the bucket for the present version of an object that has a refused draft; `None`: it has none.
    ///
    /// # Errors
    /// If no draft of the object was refused, or the bucket does not answer.
    pub async fn theirs(&self, id: &ObjectId) -> Result<Option<Version>, ResolveError> {
        let writing = self.refused(id)?;
        let found = writing.find_version(&id.key).await;
        Ok(found.map_err(WriteError::from)?)
    }

    /// Returns the choices for which a refused draft has the bytes. A draft has the bytes that were written, and takes the
    /// rest from the version that it began with: from the cache, else from the bucket, of which at most 1 MiB is asked
    /// for. The cache may lose bytes at any time.
    ///
    /// # Errors
    /// If no draft of the object was refused, or the bucket does not answer.
    pub async fn possible_choices(&self, id: &ObjectId) -> Result<PossibleChoices, ResolveError> {
        let writing = self.refused(id)?;
        let (is_lost, has_gone) = {
            let state = writing.state();
            let has_gone = state.draft().has_gone_bytes() && !state.upload().is_staged();
            (state.phase().is_lost(), has_gone)
        };
        let keep_ours = !is_lost && writing.has_its_base().await?;
        Ok(PossibleChoices {
            keep_ours,
            save_aside: keep_ours && !has_gone,
        })
    }

    fn refused(&self, id: &ObjectId) -> Result<Arc<SharedDraft>, ResolveError> {
        let found = self.0.writings().get(id).cloned();
        let is_refused = |writing: &Arc<SharedDraft>| writing.state().stage() == Stage::Refused;
        found.filter(is_refused).ok_or(ResolveError::NotRefused)
    }

    fn join(&self, writing: Arc<SharedDraft>) -> Result<Writer, ResolveError> {
        Writer::join(&self.0, writing).ok_or(ResolveError::NotRefused)
    }

    /// Discards the draft, if it still has this revision. The bucket has another version than the readers of this process
    /// know, so the next of them asks for it. What is cached stays: other drafts may have nothing else of their base.
    async fn keep_theirs(&self, id: &ObjectId, revision: Option<u64>) -> Result<(), ResolveError> {
        let hold = self.0.hold_publishing(id).await;
        let hold = hold.ok_or(ResolveError::NotRefused)?;
        {
            let state = hold.writing.state();
            if state.stage() != Stage::Refused {
                return Err(ResolveError::NotRefused);
            }
            if revision.is_some_and(|revision| revision != state.revision()) {
                return Err(ResolveError::WrittenMeanwhile);
            }
        }
        hold.check_journal().await?;
        let discarded = hold.discard().await;
        self.0.engine.doubt_key(id).await;
        Ok(discarded?)
    }
}

impl SharedDraft {
    /// Returns whether the bytes that only its base has can be read. The first ones that are not cached stand for all that
    /// are not: the bucket has the version, or has it not.
    async fn has_its_base(&self) -> Result<bool, WriteError> {
        let (base, sources) = {
            let state = self.state();
            let all = ByteRange::new(0, u64::MAX);
            (state.base().cloned(), state.draft().sources(all))
        };
        let is_of_base = |(_, from): &(ByteRange, ByteSource)| *from == ByteSource::Base;
        let ranges = sources.into_iter().filter(is_of_base);
        let Some(base) = base else {
            return Ok(ranges.count() == 0);
        };
        let object = self.object(&base).await;
        for range in ranges.flat_map(|(range, _)| pieces(range)) {
            if !matches!(object.locate(range), Coverage::All(_)) {
                // Bytes on a disk that is being read in are not found yet, and are not lost.
                if self.inner.engine.loaded().is_err() {
                    return Err(Error::Unavailable.into());
                }
                return match self.bytes_of(Some(&base), range).await {
                    Ok(bytes) => Ok(bytes.len() as u64 == range.len()),
                    Err(WriteError::Changed) => Ok(false),
                    Err(error) => Err(error),
                };
            }
            tokio::task::consume_budget().await;
        }
        Ok(true)
    }
}

/// Returns a range in pieces.
fn pieces(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let begins = (range.start..range.end).step_by(PIECE as usize);
    begins.map(move |start| ByteRange::new(start, range.end.min(start + PIECE)))
}

impl Writer {
    /// Makes every byte that the draft has of its base its own, and drops the condition on the base.
    async fn own_all(&self) -> Result<(), WriteError> {
        let from_base = |at| {
            let rest = ByteRange::new(at, u64::MAX);
            self.writing.state().draft().first_of_base(rest)
        };
        let mut at = 0;
        while let Some(gap) = from_base(at) {
            let range = ByteRange::new(gap.start, gap.end.min(gap.start + PIECE));
            let bytes = self.read_at(range).await?;
            if bytes.len() as u64 != range.len() {
                return Err(Error::Changed.into());
            }
            match self.writing.own_piece(range, bytes).await {
                Err(WriteError::Gone(_)) if self.writing.can_read_back() => {
                    self.writing.read_back().await?;
                }
                owned => {
                    owned?;
                    at = range.end;
                }
            }
        }
        let mut state = self.writing.state();
        // Bytes of the base would be those of another version now. A writer may have cut and lengthened it meanwhile.
        let all = ByteRange::new(0, u64::MAX);
        if state.draft().first_of_base(all).is_some() {
            return Err(WriteError::Changed);
        }
        state.drop_guard();
        Ok(())
    }

    /// Copies all bytes to another draft, and publishes that.
    async fn copy_and_publish(&self, other: &Self) -> Result<(), WriteError> {
        let size = self.size();
        let mut at = 0;
        while at < size {
            let end = size.min(at + PIECE);
            let bytes = self.read_at(ByteRange::new(at, end)).await?;
            if bytes.is_empty() {
                return Err(WriteError::Interrupted);
            }
            let length = bytes.len() as u64;
            other.write_at(at, bytes).await?;
            at += length;
        }
        let attributes = self.snapshot().attributes;
        other.set_attributes(|kept| *kept = attributes).await;
        other.publish().await
    }
}
