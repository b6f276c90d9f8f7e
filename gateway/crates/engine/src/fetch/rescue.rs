//! Rescue: if the origin fails to bring a chunk, a slow disk may still have it.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::FutureExt as _;

use super::task::{Bring, Fetch, FetchEnd};
use crate::Error;

/// Reads the chunks that the origin failed to bring from a slow disk.
pub(crate) struct Rescue(pub(crate) Arc<dyn Bring>);

impl Bring for Rescue {
    fn bring<'a>(&'a self, fetch: &'a mut Fetch) -> BoxFuture<'a, Result<(), FetchEnd>> {
        let bring = async move {
            match self.0.bring(fetch).await {
                Err(FetchEnd::Failed(error)) if error.excuses_slow_disk() => {
                    rescue(fetch, error).await
                }
                other => other,
            }
        };
        bring.boxed()
    }
}

/// Lands the chunks that the origin failed to bring, if a slow disk has them; otherwise fails with the origin's error.
async fn rescue(fetch: &mut Fetch, error: Error) -> Result<(), FetchEnd> {
    let fetches = fetch.fetches.clone();
    let chunks = &fetches.core.chunks;
    let rules = fetch.options.lookup(true);
    if let Some(flight) = fetch.headless.clone() {
        let index = fetch.part.chunks.start;
        let (key, len) = (fetches.key(index), fetches.chunk_len(index));
        match chunks.look_up(&key, len, rules).await {
            Some((bytes, _)) => flight.finish(Ok(bytes)),
            None => return Err(FetchEnd::Failed(error)),
        }
        fetch.headless = None;
    }
    while !fetch.flights.is_empty() {
        let (key, len) = (fetches.key(fetch.next), fetches.chunk_len(fetch.next));
        match chunks.look_up(&key, len, rules).await {
            Some((bytes, _)) => fetch.land(bytes),
            None => return Err(FetchEnd::Failed(error)),
        }
    }
    Ok(())
}
