//! The parts under every frontend: origins, stores, and the engine over them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

use super::events::fleet::{self, FleetMember};
use super::events::{BucketEvents, ChangeReceivers, PreparedEvents, Proofs};
use super::hooks::WrittenKeys;
use super::origins::LiveOrigins;
use super::process::fetch_runtime::FetchRuntime;
use super::routes::RouteParts;
use super::traces::Traces;
use super::{hooks, locate, routes, settings};
use crate::doctor::Origins;
use tidegate_cache::Stores;
use tidegate_config::{Config, Environment};
use tidegate_engine::{Assists, Budget, EncodingTimes, Engine, Parts};
use tidegate_events::EventLog;
use tidegate_hooks::Hooks;
use tidegate_http::ClientMemory;
use tidegate_plan::{ByteSize, Timestamp};
use tidegate_telemetry::exposition;
use tidegate_write::WritePath;

/// The parts under every frontend.
pub(super) struct GatewayParts {
    pub(super) engine: Engine,
    pub(super) write_path: Arc<WritePath>,
    pub(super) stores: Stores,
    /// The hooks, which bucket events call as well.
    pub(super) hooks: Arc<Hooks>,
    /// Has the hooks exchanged.
    pub(super) written_keys: Arc<WrittenKeys>,
    pub(super) routes: RouteParts,
    pub(super) live_origins: LiveOrigins,
    pub(super) proofs: Proofs,
    /// The last events of buckets and of the fleet.
    pub(super) event_log: Arc<EventLog>,
    pub(super) origin_metrics: tidegate_origin::Metrics,
    pub(super) locator: Arc<locate::Locator>,
    pub(super) registry: Registry,
    pub(super) client_memory: Arc<ClientMemory>,
    /// This gateway in its fleet, if there is one.
    pub(super) fleet: Option<FleetMember>,
    /// The traces of some requests.
    pub(super) traces: Traces,
    /// Runs requests to origins and disks as long as it is kept.
    pub(super) background: FetchRuntime,
}

/// The subscriptions to events, with those of the start.
pub(super) type EventParts = (Arc<BucketEvents>, PreparedEvents);

impl GatewayParts {
    /// Prepares the subscriptions of a configuration to the events of buckets.
    pub(super) fn events(
        &mut self,
        config: &Config,
        env: &Environment,
    ) -> anyhow::Result<EventParts> {
        let receivers = ChangeReceivers {
            engine: self.engine.clone(),
            hooks: self.hooks.clone(),
            fleet: self.fleet.as_ref().map(FleetMember::link),
            log: self.event_log.clone(),
        };
        let events = Arc::new(BucketEvents::new(receivers, &mut self.registry));
        let origins = self.live_origins.all();
        let prepared = events.prepare(config, env, (&origins, &self.proofs))?;
        Ok((events, prepared))
    }

    /// Closes the engine, which has open files, if a part over it has not started.
    pub(super) async fn close_on_error<T>(
        &self,
        deadline: Duration,
        started: anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if started.is_err() {
            self.engine.close(deadline).await;
        }
        started
    }
}

/// Puts together the parts under every frontend.
pub(super) async fn assemble(config: &Config, env: &Environment) -> anyhow::Result<GatewayParts> {
    let mut registry = Registry::with_prefix(exposition::PREFIX);
    let origin_metrics = tidegate_origin::Metrics::default();
    origin_metrics.register(&mut registry);
    let live_origins = LiveOrigins::connect(config, env, &origin_metrics).await?;
    let origins = live_origins.all();
    let proofs = Proofs::default().next(config, &origins);
    let auth = tidegate_auth::Metrics::default();
    auth.register(&mut registry);
    let routes = routes::routes(config, env, (&origins, &proofs), &auth)?;
    let locator = Arc::new(locate::Locator::new(config, &routes.routes, &origins));
    let (budget, client_memory) = split_budget(config.cache.budget);
    let client_memory = Arc::new(ClientMemory::new(client_memory));
    let background = FetchRuntime::start()?;
    let hooks = hooks::start(config, env, &origins, background.handle())?;
    hooks.register(&mut registry);
    let traces = Traces::start(&config.trace, env, background.handle(), &mut registry)?;
    // From here on there are open parts to close.
    let (engine, stores, mut registry) = engine(
        config,
        &origins,
        Budget::new(budget),
        background.handle(),
        registry,
    )
    .await?;
    let event_log = Arc::<EventLog>::default();
    let under = (&engine, &hooks, &stores.pins, &event_log);
    let fleet = match fleet::join(config, env, &origins, under, &mut registry).await {
        Ok(fleet) => fleet,
        Err(error) => {
            engine.close(config.http.drain.into()).await;
            return Err(error);
        }
    };
    let written_keys = WrittenKeys::new(&hooks, config, &origins);
    if fleet.is_none() {
        // A fleet observes the changes itself, and chooses the gateway that calls the hooks.
        engine.observe_changes(written_keys.clone());
    }
    Ok(GatewayParts {
        write_path: WritePath::new(&engine),
        engine,
        stores,
        hooks,
        written_keys,
        routes,
        live_origins,
        proofs,
        event_log,
        origin_metrics,
        locator,
        registry,
        client_memory,
        fleet,
        traces,
        background,
    })
}

/// Opens the stores and the engine over them; returns both, and the registry with their metrics.
async fn engine(
    config: &Config,
    origins: &Origins,
    budget: Budget,
    runtime: Option<Handle>,
    mut registry: Registry,
) -> anyhow::Result<(Engine, Stores, Registry)> {
    let settings = settings::stores(config)?;
    let geometry = settings.geometry;
    // Opening reads the disks, and so may block.
    let opened = tokio::task::spawn_blocking(move || {
        let stores = tidegate_cache::open(&settings, &mut registry);
        stores.map(|stores| (stores, registry))
    });
    let (stores, mut registry) = opened.await?.context("cannot open the cache")?;
    let engine = Engine::new(Parts {
        assists: Assists::default(),
        encoding: EncodingTimes::default(),
        chunks: stores.chunks.clone(),
        meta: stores.meta.clone(),
        geometry,
        budget,
        clock: Arc::new(|| Timestamp::from(SystemTime::now())),
        runtime,
        origins: origins.clone().into_iter().collect(),
    });
    engine.register(&mut registry);
    Ok((engine, stores, registry))
}

/// Returns the bytes of a budget for fetches and read-ahead, and a quarter for the chunks that clients keep alive. Two
/// budgets, so that a crowd of slow clients cannot keep the origin's bytes from arriving, nor a bulk transfer turn
/// clients into slow ones.
pub(super) fn split_budget(budget: ByteSize) -> (u64, usize) {
    let pinned = budget.0 / 4;
    let client_memory = usize::try_from(pinned).unwrap_or(usize::MAX);
    (budget.0 - pinned, client_memory)
}
