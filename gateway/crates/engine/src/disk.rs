//! Chunks from disk, and from the origin where the disk fails.
//!
//! A disk that fails, or gives up within its own deadline, counts as a miss: the origin brings the chunk. If a disk is
//! merely late while a reader waits, the origin is asked as well, and the first to deliver wins. If the origin fails to
//! bring a chunk, a slow disk may still have it.

use std::time::Duration;

use bytes::Bytes;
use futures_core::future::BoxFuture;
use tokio::time::sleep;

use super::Error;
use super::budget::Charge;
use super::fetch::{End, Fetch, unwanted};
use super::pins;
use tidegate_cache::{PlannedRead, Tier};
use tidegate_origin::Priority;
use tidegate_plan::tiering;

/// At most one of this many chunks read from disk may be raced against the origin.
const SHARE: u64 = 20;

impl Fetch {
    /// Reads the part's only chunk from disk, or fetches it if the disk does not deliver.
    pub(super) async fn read_disk(mut self, charge: Option<Charge>, planned: PlannedRead) {
        let had_charge = charge.is_some();
        let result = async {
            self.pay_in_turn(charge).await?;
            let (fill, key) = (self.fill.clone(), self.fill.key(self.next));
            let core = &fill.core;
            let len = self.fill.chunk_len(self.next);
            drop(planned);
            let late = tiering::hedge_delay(
                core.chunks
                    .disk_estimate(&key, len)
                    .unwrap_or_default()
                    .takes,
            );
            core.metrics.disk_reads.inc();
            let mut read: BoxFuture<'_, _> = Box::pin(async {
                let found = core.chunks.get(&key, len).await;
                if let Some((_, Tier::Disk)) = found {
                    pins::found(core, &fill.id, &key);
                }
                found
            });
            let found = tokio::select! {
                biased;
                found = &mut read => found,
                // Read-ahead for a reader that left before the chunk's turn.
                end = unwanted(&self.fill, &self.part), if !had_charge || self.part.is_wanted() => {
                    return Err(end);
                }
                () = self.late_disk(late) => return self.race(read).await,
            };
            match found {
                Some((bytes, _)) => self.land(bytes),
                // Read-ahead that no reader waits for: a reader that gets there asks again.
                None if had_charge && self.fill.forget_unwanted(&self.part) => {
                    return Err(End::Unwanted);
                }
                None => self.request_or_rescue(Priority::Demand).await?,
            }
            Ok(())
        };
        let result = result.await;
        self.end(result).await;
    }

    /// Asks the origin as well for a chunk with which the disk is late, and takes it from the first to deliver.
    async fn race(&mut self, mut read: BoxFuture<'_, Option<(Bytes, Tier)>>) -> Result<(), End> {
        let mut reads = true;
        let found = {
            let fetched = self.request(Priority::Demand);
            tokio::pin!(fetched);
            loop {
                tokio::select! {
                    fetched = &mut fetched => break Err(fetched),
                    found = &mut read, if reads => match found {
                        Some((bytes, _)) => break Ok(bytes),
                        None => reads = false,
                    }
                }
            }
        };
        let found = match found {
            Err(Err(End::Failed(error))) if error.excuses_slow_disk() => {
                let late = if reads { read.await } else { None };
                match late {
                    Some((bytes, _)) => Ok(bytes),
                    None => return self.rescue(error).await,
                }
            }
            found => found,
        };
        let metrics = &self.fill.core.metrics;
        match found {
            Ok(bytes) => {
                metrics.race_won_by("disk");
                self.land(bytes);
                Ok(())
            }
            Err(fetched) => {
                metrics.race_won_by("origin");
                fetched
            }
        }
    }

    /// Asks the origin for the part; if it fails, reads the missing chunks from a slow disk.
    pub(super) async fn request_or_rescue(&mut self, priority: Priority) -> Result<(), End> {
        match self.request(priority).await {
            Err(End::Failed(error)) if error.excuses_slow_disk() => self.rescue(error).await,
            other => other,
        }
    }

    /// Lands the chunks that the origin failed to bring, if a slow disk has them.
    async fn rescue(&mut self, error: Error) -> Result<(), End> {
        let core = self.fill.core.clone();
        if let Some(flight) = self.headless.take() {
            let index = self.part.chunks.start;
            let (key, len) = (self.fill.key(index), self.fill.chunk_len(index));
            match core.chunks.get_patiently(&key, len).await {
                Some((bytes, _)) => flight.finish(Ok(bytes)),
                None => {
                    self.headless = Some(flight);
                    return Err(End::Failed(error));
                }
            }
        }
        while !self.flights.is_empty() {
            let (key, len) = (self.fill.key(self.next), self.fill.chunk_len(self.next));
            match core.chunks.get_patiently(&key, len).await {
                Some((bytes, _)) => self.land(bytes),
                None => return Err(End::Failed(error)),
            }
        }
        Ok(())
    }

    /// Returns when a disk is late with a chunk, a reader waits for it, and the race share allows a request to the
    /// origin.
    pub(super) async fn late_disk(&self, late: Duration) {
        let metrics = &self.fill.core.metrics;
        loop {
            sleep(late).await;
            if self.is_awaited() && metrics.raced.get() * SHARE <= metrics.disk_reads.get() {
                metrics.raced.inc();
                return;
            }
        }
    }
}
