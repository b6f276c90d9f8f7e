//! Sends and copies all parts of an object of several parts.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::draft::base_version::BaseVersion;
use crate::draft::shared_draft::SharedDraft;
use crate::{MAX_DRAFT_STREAMS, WriteError};
use tidegate_origin::{CompletedPart, OriginError, Upload};
use tidegate_plan::ETag;
use tidegate_plan::upload::{Piece, Pieces, SendOccasion};

/// The most bytes of a base that one request copies, unless one part is larger. S3 allows 5 GiB,
/// but a close that waits for a slow store must see progress (`deadline`), with all streams in use.
pub(crate) const MAX_COPIED_PIECE: u64 = 64 << 20;

impl SharedDraft {
    /// Sends and copies all parts of the object.
    pub(crate) async fn assemble(
        self: &Arc<Self>,
    ) -> Result<(Upload, Vec<CompletedPart>), WriteError> {
        self.verify_sent().await?;
        self.send_rest().await?;
        let pieces = {
            let state = self.state();
            let sizes = state.draft().sizes();
            state.draft().pieces(if state.upload().copies_apart() {
                sizes.first()
            } else {
                MAX_COPIED_PIECE
            })
        };
        let pieces = pieces.map_err(|_| WriteError::Lost)?;
        let upload = self.upload().await?;
        let parts = self.copy_rest(&upload, pieces).await?;
        let parts = self.state().upload().listed(&upload, parts);
        let before = self.earlier_tag(&upload, &parts).await?;
        let (promised, all_journaled) = {
            let mut state = self.state();
            state.begin_completion(parts.clone(), before);
            let is_journaled = !state.phase().is_behind();
            (
                state.phase().is_promised(),
                is_journaled && !state.draft().has_gone_bytes(),
            )
        };
        // After a crash, the journal must show these parts, not those that were promised before.
        let appended = match promised {
            true => self.sync().await,
            false => self.flush().await,
        };
        match appended {
            // A full disk must not prevent the completion that frees room.
            Err(error) if all_journaled => {
                let key = upload.key.as_str();
                tracing::warn!(%error, key, "cannot note a completion in the journal");
            }
            appended => appended?,
        }
        Ok((upload, parts))
    }

    /// Marks parts for sending again that an earlier process sent and whose bytes in the spool
    /// differ. That process was killed after it had written into them.
    async fn verify_sent(&self) -> Result<(), WriteError> {
        loop {
            let next = self.state().next_unverified();
            let Some((index, range, sums)) = next else {
                return Ok(());
            };
            let file = self.file();
            let found = file.blocking(move |file| file.sums(range)).await?;
            let is_same = found.crc64 == sums.crc64;
            self.state().end_verification(index, is_same);
        }
    }

    /// Sends all parts that are due. Returns when none is under way any more.
    async fn send_rest(self: &Arc<Self>) -> Result<(), WriteError> {
        let mut progress = self.progress.subscribe();
        loop {
            progress.mark_unchanged();
            let failed = self.state().retry().has_failed();
            if !failed {
                self.kick(SendOccasion::Closing);
            }
            if !self.state().retry().is_sending() {
                break;
            }
            // `sent` changes the count, also when a part fails.
            let _ = progress.changed().await;
        }
        let failure = self.state().retry_mut().take_failure();
        match failure {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Has the server copy the pieces that come from the base.
    async fn copy_rest(
        self: &Arc<Self>,
        upload: &Upload,
        pieces: Pieces,
    ) -> Result<Vec<(u32, ETag)>, WriteError> {
        let (base, whole) = {
            let state = self.state();
            let whole = state.base().map(|base| base.version.size);
            (state.base().map(BaseVersion::source), whole)
        };
        let copied = pieces.into_iter().map(|piece| {
            let base = base.clone();
            async move {
                let (number, range) = match piece {
                    Piece::Sent(number, etag) => return Ok((number, etag)),
                    Piece::Copy(number, range) => (number, range),
                };
                let source = base.ok_or(WriteError::Lost)?;
                let range = Some(range).filter(|range| Some(range.len()) != whole);
                let _stream = self.inner.streams.acquire().await;
                let origin = self.source.origin.writing();
                match origin.copy_part(upload, number, source, range).await {
                    Ok(etag) => {
                        self.progress.send_replace(());
                        Ok((number, etag))
                    }
                    Err(OriginError::NoSuchUpload) => {
                        self.lose_upload(upload);
                        Err(WriteError::Lost)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        });
        stream::iter(copied)
            .buffered(MAX_DRAFT_STREAMS)
            .try_collect()
            .await
    }
}
