//! Writers over a bucket that is reached through S3.

use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tidegate_engine::{Assists, Budget, EncodingTimes, Engine, Parts, ReadContext};
use tidegate_origin::{Metrics, Origin};
use tidegate_plan::{PartSizes, Profile, Timestamp};
use tidegate_write::Writers;
use tidegate_write::{Settings, WritePath};

/// The smallest part that S3 accepts, except as the last.
pub(crate) const PART: u64 = 5 << 20;

/// Starts a process that writes: an engine with nothing cached, and a spool of `size` bytes.
pub(crate) async fn start(
    spool: &Path,
    size: u64,
    settings: &tidegate_origin::Settings,
) -> (Engine, Arc<ReadContext>, Writers) {
    start_with(terms(spool, size), settings).await
}

/// Returns the settings of a spool of `size` bytes.
pub(crate) fn terms(spool: &Path, size: u64) -> Settings {
    Settings {
        parts: PartSizes::new(PART),
        size,
        kept: 2 * PART,
        ..Settings::new(spool.to_owned())
    }
}

/// Does the same with other settings.
pub(crate) async fn start_with(
    terms: Settings,
    settings: &tidegate_origin::Settings,
) -> (Engine, Arc<ReadContext>, Writers) {
    let origin = tidegate_origin::connect(settings, &Metrics::default()).await;
    start_over(terms, origin.expect("valid settings"))
}

/// Does the same over this origin.
pub(crate) fn start_over(
    terms: Settings,
    origin: Arc<dyn Origin>,
) -> (Engine, Arc<ReadContext>, Writers) {
    let source = Arc::new(ReadContext::new(origin, Profile::web()));
    let stores = tidegate_cache::Settings::default();
    let geometry = stores.geometry;
    let tidegate_cache::Stores { chunks, meta, .. } =
        tidegate_cache::open(&stores, &mut Registry::default()).expect("in memory");
    let engine = Engine::new(Parts {
        assists: Assists::default(),
        encoding: EncodingTimes::default(),
        chunks,
        meta,
        geometry,
        budget: Budget::new(64 << 20),
        clock: Arc::new(|| Timestamp::from(std::time::SystemTime::now())),
        runtime: None,
        origins: Vec::new(),
    });
    let sources = std::slice::from_ref(&source);
    let writers = Writers::start(&WritePath::new(&engine), terms, sources).expect("a spool");
    (engine, source, writers)
}
