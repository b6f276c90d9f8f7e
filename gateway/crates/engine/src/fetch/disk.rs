//! Chunks from disk, and from the origin where the disk fails: a disk that fails, or gives up within its own deadline,
//! counts as a miss.

use bytes::Bytes;
use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;

use super::origin::OriginFetch;
use super::task::{Bring, Fetch, FetchEnd};
use crate::invalidate::pins;
use tidegate_cache::Tier;

/// Reads the part's only chunk from disk, or fetches it if the disk does not deliver.
pub(crate) struct DiskFetch;

impl Bring for DiskFetch {
    fn bring<'a>(&'a self, fetch: &'a mut Fetch) -> BoxFuture<'a, Result<(), FetchEnd>> {
        let bring = async move {
            let mut read = self.read(fetch);
            let found = self.wait(fetch, &mut read).await?;
            self.finish(fetch, found).await
        };
        bring.boxed()
    }
}

/// A chunk that is being read from disk; `None` if the disk does not deliver it.
pub(super) type DiskRead = BoxFuture<'static, Option<(Bytes, Tier)>>;

impl DiskFetch {
    /// Returns the read of the chunk, which starts at its first poll.
    pub(super) fn read(&self, fetch: &Fetch) -> DiskRead {
        let fetches = fetch.fetches.clone();
        let (key, len) = (fetches.key(fetch.next), fetches.chunk_len(fetch.next));
        fetches.core.metrics.disk_reads.inc();
        let rules = fetch.options.lookup(false);
        let read = async move {
            let found = fetches.core.chunks.look_up(&key, len, rules).await;
            if let Some((_, Tier::Disk)) = found {
                pins::pin_found(&fetches.core, &fetches.id, &key);
            }
            found
        };
        read.boxed()
    }

    /// Waits for the read for as long as a reader wants the chunk.
    pub(super) async fn wait(
        &self,
        fetch: &Fetch,
        read: &mut DiskRead,
    ) -> Result<Option<Bytes>, FetchEnd> {
        tokio::select! {
            biased;
            found = read => Ok(found.map(|(bytes, _)| bytes)),
            // Read-ahead for a reader that left before the chunk's turn.
            end = fetch.until_unwanted(), if !fetch.prepaid || fetch.part.is_wanted() => Err(end),
        }
    }

    /// Lands the chunk, or asks the origin for it.
    pub(super) async fn finish(
        &self,
        fetch: &mut Fetch,
        found: Option<Bytes>,
    ) -> Result<(), FetchEnd> {
        match found {
            Some(bytes) => {
                fetch.land(bytes);
                Ok(())
            }
            // Read-ahead that no reader waits for: a reader that gets there asks again.
            None if fetch.prepaid && fetch.fetches.forget_unwanted(&fetch.part) => {
                Err(FetchEnd::Unwanted)
            }
            None => OriginFetch.bring(fetch).await,
        }
    }
}
