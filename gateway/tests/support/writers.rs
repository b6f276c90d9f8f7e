//! Writers over a bucket that is reached through S3.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::registry::Registry;
use tidegate::engine::upload::Settings;
use tidegate::engine::{Budget, Engine, Parts, Source, Writers};
use tidegate::origin::{self, Metrics};
use tidegate::store;
use tidegate_plan::{PartSizes, Profile, Timestamp};

/// The smallest part that S3 accepts, except as the last.
pub(crate) const PART: u64 = 5 << 20;

/// Starts a process that writes: an engine with nothing cached, and a spool of `size` bytes.
pub(crate) async fn start(
    spool: &Path,
    size: u64,
    settings: &origin::Settings,
) -> (Engine, Arc<Source>, Writers) {
    let terms = Settings {
        parts: PartSizes::new(PART),
        size,
        kept: 2 * PART,
        ..Settings::new(spool.to_owned())
    };
    start_with(terms, settings).await
}

/// Does the same with other settings.
pub(crate) async fn start_with(
    terms: Settings,
    settings: &origin::Settings,
) -> (Engine, Arc<Source>, Writers) {
    let origin = origin::connect(settings, &Metrics::default()).await;
    let source = Arc::new(Source {
        origin: origin.expect("valid settings"),
        profile: ArcSwap::from_pointee(Profile::web()),
    });
    let stores = store::Settings::default();
    let geometry = stores.geometry;
    let store::Stores { chunks, meta, .. } =
        store::open(&stores, &mut Registry::default()).expect("in memory");
    let engine = Engine::new(Parts {
        chunks,
        meta,
        geometry,
        budget: Budget::new(64 << 20),
        clock: Arc::new(|| Timestamp::from(std::time::SystemTime::now())),
        runtime: None,
        origins: Vec::new(),
    });
    let sources = std::slice::from_ref(&source);
    let writers = Writers::start(&engine, terms, sources).expect("a spool");
    (engine, source, writers)
}
