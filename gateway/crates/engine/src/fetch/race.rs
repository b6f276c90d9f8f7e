//! Races: if a disk is late while a reader waits, the origin is asked as well, and the first to deliver wins.

use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;
use tokio::time::sleep;

use super::disk::{DiskFetch, DiskRead};
use super::origin::OriginFetch;
use super::task::{Bring, Fetch, FetchEnd};
use tidegate_plan::tiering;

/// At most one of this many chunks read from disk may be raced against the origin.
const RACE_SHARE: u64 = 20;

/// Races late disk reads against the origin.
pub(crate) struct Race(pub(crate) DiskFetch);

impl Bring for Race {
    fn bring<'a>(&'a self, fetch: &'a mut Fetch) -> BoxFuture<'a, Result<(), FetchEnd>> {
        let bring = async move {
            let late = late_after(fetch);
            let mut read = self.0.read(fetch);
            let found = tokio::select! {
                biased;
                found = self.0.wait(fetch, &mut read) => found?,
                () = until_late(fetch, late) => return race(fetch, read).await,
            };
            self.0.finish(fetch, found).await
        };
        bring.boxed()
    }
}

/// Returns the time after which the read of the chunk is late.
fn late_after(fetch: &Fetch) -> Duration {
    let fetches = &fetch.fetches;
    let (key, len) = (fetches.key(fetch.next), fetches.chunk_len(fetch.next));
    let estimate = fetches.core.chunks.disk_estimate(&key, len);
    tiering::hedge_delay(estimate.unwrap_or_default().takes)
}

/// Returns when a disk is late with a chunk, a reader waits for it, and the race share allows a request to the origin.
async fn until_late(fetch: &Fetch, late: Duration) {
    let metrics = &fetch.fetches.core.metrics;
    loop {
        sleep(late).await;
        if fetch.is_awaited() && metrics.raced.get() * RACE_SHARE <= metrics.disk_reads.get() {
            metrics.raced.inc();
            return;
        }
    }
}

/// Asks the origin as well for a chunk with which the disk is late, and takes it from the first to deliver.
async fn race(fetch: &mut Fetch, mut read: DiskRead) -> Result<(), FetchEnd> {
    let mut reads = true;
    let found = {
        let mut fetched = OriginFetch.bring(fetch);
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
        Err(Err(FetchEnd::Failed(error))) if error.excuses_slow_disk() => {
            let late = if reads { read.await } else { None };
            let late = late.map(|(bytes, _)| bytes);
            late.ok_or(FetchEnd::Failed(error)).map(Ok)?
        }
        found => found,
    };
    let metrics = &fetch.fetches.core.metrics;
    match found {
        Ok(bytes) => {
            metrics.race_won_by("disk");
            fetch.land(bytes);
            Ok(())
        }
        Err(fetched) => {
            metrics.race_won_by("origin");
            fetched
        }
    }
}
