//! Reading a draft: from the spool, from its base, and zeros for the rest.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::time::{Instant, timeout_at};

use crate::WriteError;
use crate::draft::base_version::BaseVersion;
use crate::draft::edition::ClosedEdition;
use crate::draft::shared_draft::SharedDraft;
use tidegate_cache::Record;
use tidegate_engine::{Error, Object};
use tidegate_plan::ByteRange;
use tidegate_plan::Client;
use tidegate_plan::upload::{ByteSource, GonePart};

impl SharedDraft {
    /// Reads a range, as far as the object goes.
    pub(crate) async fn read_range(
        self: &Arc<Self>,
        range: ByteRange,
    ) -> Result<Bytes, WriteError> {
        let (mut bytes, mut at) = (BytesMut::new(), range.start);
        loop {
            let rest = ByteRange::new(at, range.end);
            let Some((piece, found)) = self.first_of(rest).await? else {
                return Ok(bytes.freeze());
            };
            if piece == range {
                return Ok(found);
            }
            bytes.extend_from_slice(&found);
            at = piece.end;
        }
    }

    /// Reads the first bytes of a range that come from one source.
    async fn first_of(&self, range: ByteRange) -> Result<Option<(ByteRange, Bytes)>, WriteError> {
        // Nothing leaves the spool while this is held.
        let page = self.page.read().await;
        let (first, file) = {
            let state = self.state();
            (
                state.draft().sources(range).first().copied(),
                state.file().cloned(),
            )
        };
        let Some((piece, from)) = first else {
            return Ok(None);
        };
        let bytes = match (from, file) {
            (ByteSource::Spool, Some(file)) => file.blocking(move |file| file.read(piece)).await?,
            (ByteSource::Spool, None) => return Err(WriteError::Lost),
            (ByteSource::Base, _) => {
                drop(page);
                self.base_bytes(piece).await?
            }
            (ByteSource::Zero, _) => zeros(piece),
            (ByteSource::Gone, _) => {
                let index = self.state().draft().sizes().index(piece.start);
                return Err(GonePart(index).into());
            }
        };
        Ok(Some((piece, bytes)))
    }

    /// Waits until the bytes of a closed draft that have left the spool can be read: it is published then. Returns `false`
    /// if that is not to be expected: it was refused, a writer has changed it, nothing of it was sent within `most`, or it took
    /// longer than `in_all`.
    pub(crate) async fn wait_for_gone_bytes(&self, most: Duration, in_all: Duration) -> bool {
        let stop = &self.inner.core.stop;
        let mut progress = self.progress.subscribe();
        let end = Instant::now() + in_all;
        let (mut until, mut sent_before) = (Instant::now() + most, 0);
        loop {
            progress.mark_unchanged();
            {
                let state = self.state();
                if !state.draft().has_gone_bytes() {
                    return true;
                }
                let phase = state.phase();
                if !phase.is_closed_and_promised() || phase.is_refused() {
                    return false;
                }
                // The tries of an outage are reported as well, and are no progress.
                let gets_on = phase.trouble().is_none() || {
                    let sent = state.draft().sent_parts().count();
                    std::mem::replace(&mut sent_before, sent) != sent
                };
                if gets_on {
                    until = Instant::now() + most;
                }
            }
            tokio::select! {
                moved = timeout_at(until.min(end), progress.changed()) => {
                    if moved.is_err() {
                        return false;
                    }
                }
                () = stop.cancelled() => return false,
            }
        }
    }

    /// Reads bytes of the version that the draft is based on, from the cache if it has them.
    pub(crate) async fn base_bytes(&self, range: ByteRange) -> Result<Bytes, WriteError> {
        let base = self.state().base().cloned();
        self.bytes_of(base.as_ref(), range).await
    }

    pub(crate) async fn bytes_of(
        &self,
        base: Option<&BaseVersion>,
        range: ByteRange,
    ) -> Result<Bytes, WriteError> {
        let base = base.ok_or(WriteError::Lost)?;
        let mut reader = self.object(base).await.read_at(range);
        let mut bytes = BytesMut::new();
        while let Some(piece) = reader.next().await {
            match piece {
                Ok(piece) => bytes.extend_from_slice(&piece),
                Err(Error::Changed | Error::NotFound) => return Err(WriteError::Changed),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bytes.freeze())
    }

    /// Reads bytes of a closed edition that a writer replaces.
    pub(crate) async fn read_replaced(
        &self,
        edition: &ClosedEdition,
        range: ByteRange,
    ) -> Result<Bytes, WriteError> {
        let mut bytes = BytesMut::new();
        for (piece, from) in edition.draft.sources(range) {
            let found = match from {
                ByteSource::Spool => edition.file.blocking(move |file| file.read(piece)).await?,
                ByteSource::Base => self.bytes_of(edition.base.as_ref(), piece).await?,
                ByteSource::Zero => zeros(piece),
                ByteSource::Gone => return Err(WriteError::Lost),
            };
            bytes.extend_from_slice(&found);
        }
        Ok(bytes.freeze())
    }

    /// Opens the base at exactly its version.
    pub(crate) async fn object(&self, base: &BaseVersion) -> Object {
        let engine = &self.inner.engine;
        let id = self.source.object(&base.key);
        let generation = self.inner.core.meta.generation(&id).await;
        let record = Record {
            id: self.inner.core.meta.address(&id, &base.version, generation),
            version: base.version.clone(),
            confirmed: self.inner.core.now(),
            must_confirm: false,
            written: None,
        };
        engine.open_record(&self.source, id, Arc::new(record), Client::Own)
    }
}

fn zeros(range: ByteRange) -> Bytes {
    let length = usize::try_from(range.len()).unwrap_or(usize::MAX);
    BytesMut::zeroed(length).freeze()
}
