//! Long work under way, in words: the load of an index, the spool that an earlier process left, and the drain at the end.

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio_util::sync::CancellationToken;

use tidegate_engine::Engine;
use tidegate_write::{Progress, Stage, Writers};

/// The parts of the gateway that work for long.
#[derive(Debug)]
pub(in crate::app) struct LongWork {
    pub(in crate::app) engine: Engine,
    /// The drafts of mounts, if one is writable.
    pub(in crate::app) writers: Option<Writers>,
    /// Stops the public listeners; the admin listener says so in `/readyz`.
    pub(in crate::app) draining: CancellationToken,
    /// The metrics of the public listener: they count its requests.
    pub(in crate::app) http: Arc<tidegate_http::Metrics>,
}

impl LongWork {
    /// Makes and registers the metrics of the public listener as well.
    pub(in crate::app) fn new(
        engine: &Engine,
        writers: Option<Writers>,
        registry: &mut Registry,
    ) -> Arc<Self> {
        let http = Arc::new(tidegate_http::Metrics::default());
        http.register(registry);
        Arc::new(Self {
            engine: engine.clone(),
            writers,
            draining: CancellationToken::new(),
            http,
        })
    }

    /// Returns one line for each work under way. Waits for nothing.
    pub(in crate::app) fn lines(&self) -> Vec<String> {
        if self.draining.is_cancelled() {
            let requests = self.http.requests_in_flight();
            return vec![drain(requests, self.unsent())];
        }
        let index = self.engine.loaded().err();
        let resumed = self.writers.as_ref().and_then(Writers::resumed);
        index.into_iter().chain(resumed.map(replay)).collect()
    }

    /// Returns the number of closed objects that the drain waits for.
    fn unsent(&self) -> usize {
        let pending = self.writers.iter().flat_map(Writers::pending);
        pending
            .filter(|one| matches!(one.stage, Stage::Sending | Stage::Waiting))
            .count()
    }
}

fn replay(Progress { done, of }: Progress) -> String {
    format!("sending the spool: {done} of {of}")
}

fn drain(requests: u64, unsent: usize) -> String {
    let counted = |count: u64, one: &str| {
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {one}{plural} left"))
    };
    let left = [
        counted(requests, "request"),
        counted(unsent as u64, "written object"),
    ];
    let left: Vec<_> = left.into_iter().flatten().collect();
    match left.is_empty() {
        true => "draining: what is queued is written out".to_owned(),
        false => format!("draining: {}", left.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tidegate_cache::Stores;
    use tidegate_cache::fake::{FakeStore, Faults};
    use tidegate_engine::{Assists, Budget, EncodingTimes, Parts};
    use tidegate_plan::{Geometry, Timestamp};

    /// Returns an engine over a disk that a test looks after.
    fn engine(disk: &Arc<FakeStore>) -> Engine {
        let settings = tidegate_cache::Settings::default();
        let opened = tidegate_cache::open(&settings, &mut Registry::default());
        let Stores { meta, .. } = opened.expect("stores in memory");
        Engine::new(Parts {
            assists: Assists::default(),
            encoding: EncodingTimes::default(),
            runtime: None,
            chunks: disk.clone(),
            meta,
            geometry: Geometry::new(1 << 20).expect("a power of two"),
            budget: Budget::new(64 << 20),
            clock: Arc::new(|| Timestamp::from_secs(1_700_000_000)),
            origins: Vec::new(),
        })
    }

    #[tokio::test]
    async fn an_index_that_is_loaded_is_told_of_until_it_is_complete_or_the_drain_begins() {
        let disk = Arc::new(FakeStore::new());
        let work = LongWork::new(&engine(&disk), None, &mut Registry::default());
        assert_eq!(work.lines(), [""; 0]);
        let load = |loading| {
            disk.set(Faults {
                loading,
                ..Faults::default()
            });
        };
        load(true);
        let loading = "the index of the fake disk is still being loaded";
        assert_eq!(work.lines(), [loading]);
        load(false);
        assert_eq!(work.lines(), [""; 0]);
        load(true);
        work.draining.cancel();
        assert_eq!(work.lines(), ["draining: what is queued is written out"]);
    }

    #[test]
    fn a_drain_tells_what_it_waits_for() {
        for (requests, unsent, words) in [
            (12, 0, "draining: 12 requests left"),
            (1, 1, "draining: 1 request left, 1 written object left"),
            (0, 3, "draining: 3 written objects left"),
            (0, 0, "draining: what is queued is written out"),
        ] {
            assert_eq!(drain(requests, unsent), words);
        }
    }
}
