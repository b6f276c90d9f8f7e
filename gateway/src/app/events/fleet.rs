//! The fleet: its messages from and to the engine, the pins and the hooks.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::nats_auth;
use crate::app::process::machine::machine_name;
use crate::doctor::Origins;
use tidegate_cache::{Meta, pins::PinError};
use tidegate_config::{Config, Environment};
use tidegate_engine::{ChangeObserver, Engine, PurgeKind, Scope};
use tidegate_events::fleet::{Extent, Fleet, FleetChange, FleetGateway, FleetMetrics, FleetSink};
use tidegate_events::log::{LoggedEvent, LoggedKind};
use tidegate_events::metrics::EventResult;
use tidegate_events::nats;
use tidegate_events::nats::fleet::{FleetSettings, NatsFleet};
use tidegate_events::{ApplyError, EventLog};
use tidegate_hooks::Hooks;
use tidegate_plan::{Bucket, ChangeKind, FolderChange, KeyChange, ObjectKey, OriginId, Timestamp};

/// The member may take this long to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The origins of a bucket's name: with each the name of the origin, and its bucket.
type NamedOrigins = BTreeMap<String, Vec<(String, OriginId, Bucket)>>;

/// This gateway in its fleet.
#[derive(Debug)]
pub(in crate::app) struct FleetMember {
    link: Arc<FleetLink>,
    /// Ends the connection also if the gateway does not start.
    stop: DropGuard,
    running: JoinHandle<()>,
}

/// The way to the other gateways.
#[derive(Debug)]
pub(in crate::app) struct FleetLink {
    fleet: Arc<Fleet>,
    engine: Engine,
    buckets: Arc<FleetBuckets>,
}

/// The buckets of this gateway, as a fleet names them. A reload exchanges them.
#[derive(Debug)]
struct FleetBuckets(ArcSwap<NamedOrigins>);

/// The parts that a message of another gateway reaches.
struct MemberSink {
    engine: Engine,
    hooks: Arc<Hooks>,
    pins: Arc<Meta>,
    buckets: Arc<FleetBuckets>,
    log: Arc<EventLog>,
}

/// Joins the fleet of a configuration, if it has one; what was cached before is confirmed before its next use.
pub(in crate::app) async fn join(
    config: &Config,
    env: &Environment,
    origins: &Origins,
    (engine, hooks, pins, log): (&Engine, &Arc<Hooks>, &Arc<Meta>, &Arc<EventLog>),
    registry: &mut Registry,
) -> anyhow::Result<Option<FleetMember>> {
    let section = &config.fleet;
    if section.nats.is_empty() {
        return Ok(None);
    }
    let buckets = Arc::new(FleetBuckets(ArcSwap::from_pointee(named(config, origins))));
    let sink = Arc::new(MemberSink {
        engine: engine.clone(),
        hooks: hooks.clone(),
        pins: pins.clone(),
        buckets: buckets.clone(),
        log: log.clone(),
    });
    let metrics = FleetMetrics::default();
    metrics.register(registry);
    // Messages may have been missed while this process was not there.
    if let Err(error) = sink.doubt_all().await {
        tracing::warn!(%error, "the doubt of what is cached is kept in memory only");
    }
    let clock = Arc::new(|| Timestamp::from(SystemTime::now()));
    let made = Fleet::new(machine_name(), sink, clock, metrics);
    let fleet = made.context("the system has no random numbers")?;
    fleet.set_buckets(buckets.names());
    let settings = settings(section, env).context("`fleet`")?;
    let nats = NatsFleet::new(&settings, fleet.clone()).context("`fleet`")?;
    let link = Arc::new(FleetLink {
        fleet,
        engine: engine.clone(),
        buckets,
    });
    engine.observe_changes(Arc::new(Arc::downgrade(&link)));
    let stop = CancellationToken::new();
    let running = tokio::spawn(nats.run(stop.clone()));
    Ok(Some(FleetMember {
        link,
        stop: stop.drop_guard(),
        running,
    }))
}

fn settings(section: &tidegate_config::Fleet, env: &Environment) -> anyhow::Result<FleetSettings> {
    let login = section.login();
    Ok(FleetSettings {
        servers: section.nats.clone(),
        subject: section.subject.clone(),
        auth: nats_auth::read(login, env)?,
        authorities: login.ca.map(Into::into),
    })
}

/// Checks the secrets of a configuration's fleet, and how its servers are reached. Connects to none.
pub(in crate::app) fn check(config: &Config, env: &Environment) -> anyhow::Result<()> {
    if config.fleet.nats.is_empty() {
        return Ok(());
    }
    let checked = settings(&config.fleet, env).and_then(|settings| {
        let FleetSettings {
            servers,
            auth,
            authorities,
            ..
        } = settings;
        Ok(nats::check(&servers, auth, authorities.as_ref())?)
    });
    checked.context("`fleet`")
}

/// Returns the origins by the names of their buckets.
fn named(config: &Config, origins: &Origins) -> NamedOrigins {
    let mut named = NamedOrigins::new();
    for section in &config.origin {
        if let Some(origin) = origins.get(&section.name) {
            let one = (section.name.clone(), origin.id(), origin.bucket());
            named.entry(section.bucket.clone()).or_default().push(one);
        }
    }
    named
}

impl FleetBuckets {
    fn names(&self) -> Vec<String> {
        self.0.load().keys().cloned().collect()
    }

    /// Returns the name of an origin's bucket.
    fn name_of(&self, origin: OriginId) -> Option<String> {
        let named = self.0.load();
        let has_it = |one: &(String, OriginId, Bucket)| one.1 == origin;
        let mut all = named.iter();
        let found = all.find(|(_, origins)| origins.iter().any(has_it));
        found.map(|(bucket, _)| bucket.clone())
    }

    /// Returns the origins of the buckets of this name.
    fn of(&self, bucket: &str) -> Vec<(String, OriginId, Bucket)> {
        self.0.load().get(bucket).cloned().unwrap_or_default()
    }

    /// Returns one origin, by its name, of each of the buckets that have a name: two endpoints may each have one.
    fn one_each(&self, bucket: &str) -> Vec<(String, OriginId)> {
        let mut seen = Vec::new();
        let mut all = self.of(bucket);
        all.retain(|(_, _, bucket)| {
            let is_first = !seen.contains(bucket);
            seen.push(*bucket);
            is_first
        });
        let named = all.into_iter().map(|(name, id, _)| (name, id));
        named.collect()
    }
}

impl FleetMember {
    /// Returns the way to the other gateways.
    pub(in crate::app) fn link(&self) -> Arc<FleetLink> {
        self.link.clone()
    }

    /// Tells the fleet that this gateway ends, within 5 s.
    pub(in crate::app) async fn stop(self) {
        drop(self.stop);
        if timeout(STOP_TIMEOUT, self.running).await.is_err() {
            tracing::warn!("the fleet's connection has not ended in time");
        }
    }
}

impl FleetLink {
    /// Returns the other gateways.
    pub(in crate::app) fn gateways(&self) -> Vec<FleetGateway> {
        self.fleet.gateways()
    }

    /// Takes the origins of another configuration. What is cached of new ones is confirmed before its next use, for
    /// messages about their buckets were for others until now; the returned future makes that durable.
    pub(in crate::app) fn replace(
        &self,
        config: &Config,
        origins: &Origins,
    ) -> impl Future<Output = ()> + use<'_> {
        let new = Arc::new(named(config, origins));
        let old = self.buckets.0.swap(new.clone());
        self.fleet.set_buckets(self.buckets.names());
        let ids = |named: &NamedOrigins| named.values().flatten().map(|(_, id, _)| *id).collect();
        let (old, new): (HashSet<_>, HashSet<_>) = (ids(&old), ids(&new));
        let joined = new.difference(&old);
        let doubts: Vec<_> = joined.map(|origin| self.engine.doubt(*origin)).collect();
        async {
            if let Err(error) = first_error(join_all(doubts).await) {
                tracing::warn!(%error, "not everything may be confirmed after a restart");
            }
        }
    }

    /// Sets or removes a pin here by `store`, and tells the others of it.
    ///
    /// # Errors
    /// That of `store`.
    pub(in crate::app) async fn change_pin<T, E>(
        &self,
        (origin, prefix, limit): (OriginId, String, Option<u64>),
        store: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let Some(bucket) = self.buckets.name_of(origin) else {
            return store.await;
        };
        let pin = FleetChange::Pinned {
            bucket,
            prefix,
            limit,
        };
        self.fleet.change_pin(pin, store).await
    }

    /// Has the hooks called for a change that the bucket has reported. `reaches_all` says whether it was reported to
    /// the other gateways as well; they are told otherwise.
    pub(in crate::app) fn reported(&self, change: &KeyChange, reaches_all: bool) {
        match reaches_all {
            true => self.fleet.call_hooks(change.clone()),
            false => self.fleet.report(change.clone()),
        }
    }
}

impl ChangeObserver for FleetLink {
    fn changed(&self, origin: OriginId, key: &ObjectKey, kind: ChangeKind) {
        if let Some(bucket) = self.buckets.name_of(origin) {
            self.reported(&KeyChange::of(&bucket, key, kind), false);
        }
    }

    fn purged(&self, origin: OriginId, target: &Scope, kind: PurgeKind) {
        if let Some(bucket) = self.buckets.name_of(origin) {
            self.fleet.publish(FleetChange::Purged {
                bucket,
                extents: vec![match target.clone() {
                    Scope::Key(key) => Extent::Key(key),
                    Scope::Prefix(prefix) => Extent::Prefix(prefix.to_string()),
                    Scope::Tag(tag) => Extent::Tag(tag),
                }],
                soft: kind == PurgeKind::Soft,
            });
        }
    }
}

impl MemberSink {
    /// Returns one origin of each bucket of this name: the engine reaches the others of the bucket.
    fn origins(&self, bucket: &str) -> Vec<OriginId> {
        let all = self.buckets.one_each(bucket).into_iter();
        all.map(|(_, id)| id).collect()
    }

    async fn doubt_all(&self) -> Result<(), ApplyError> {
        let names = self.buckets.names().into_iter();
        let buckets = names.flat_map(|bucket| self.origins(&bucket));
        let doubts = buckets.map(|origin| self.engine.doubt(origin));
        first_error(join_all(doubts).await)
    }

    async fn apply_one(&self, origin: OriginId, change: &FleetChange) -> Result<(), ApplyError> {
        match change {
            FleetChange::Purged { extents, soft, .. } => {
                let target = |extent: &Extent| match extent.clone() {
                    Extent::Key(key) => Scope::Key(key),
                    Extent::Prefix(prefix) => Scope::Prefix(prefix.into()),
                    Extent::Tag(tag) => Scope::Tag(tag),
                };
                let targets: Vec<_> = extents.iter().map(target).collect();
                let kind = match soft {
                    true => PurgeKind::Soft,
                    false => PurgeKind::Hard,
                };
                let purges = targets
                    .iter()
                    .map(|target| self.engine.apply_purge(origin, target, kind));
                let purged = join_all(purges).await.into_iter();
                first_error(purged.map(|purged| purged.map(|_| ())).collect())
            }
            FleetChange::Changed(change) => {
                self.engine.apply_change(origin, change).await;
                Ok(())
            }
            FleetChange::Pinned { prefix, limit, .. } => match limit {
                Some(limit) => {
                    let pinned = self.pins.pin(origin, prefix, *limit).await;
                    pinned.map_err(not_applied)
                }
                None => match self.pins.unpin(origin, prefix).await {
                    Ok(()) | Err(PinError::NoSuch) => Ok(()),
                    Err(error) => Err(not_applied(error)),
                },
            },
        }
    }
}

impl MemberSink {
    /// Adds a change of another gateway to the last events.
    fn log(&self, change: &FleetChange, is_applied: bool) {
        let (kind, keys) = match change {
            FleetChange::Purged { extents, soft, .. } => {
                let key = |extent: &Extent| match extent {
                    Extent::Key(key) => key.as_str().to_owned(),
                    Extent::Prefix(prefix) => format!("{prefix}*"),
                    Extent::Tag(tag) => format!("tag {tag}"),
                };
                let kind = match soft {
                    true => LoggedKind::MarkedStale,
                    false => LoggedKind::Purged,
                };
                (kind, extents.iter().map(key).collect())
            }
            FleetChange::Changed(KeyChange { key, kind, .. }) => {
                ((*kind).into(), vec![key.as_str().to_owned()])
            }
            FleetChange::Pinned { prefix, limit, .. } => {
                let kind = match limit {
                    Some(_) => LoggedKind::Pinned,
                    None => LoggedKind::Unpinned,
                };
                (kind, vec![format!("{prefix}*")])
            }
        };
        let event = |key| LoggedEvent {
            time: SystemTime::now().into(),
            source: "fleet".to_owned(),
            kind,
            key,
            result: match is_applied {
                true => EventResult::Applied,
                false => EventResult::Failed,
            },
            lag: None,
        };
        self.log.add(keys.into_iter().map(event));
    }
}

impl FleetSink for MemberSink {
    fn apply<'a>(&'a self, change: &'a FleetChange) -> BoxFuture<'a, Result<bool, ApplyError>> {
        let (FleetChange::Purged { bucket, .. }
        | FleetChange::Changed(KeyChange { bucket, .. })
        | FleetChange::Pinned { bucket, .. }) = change;
        // A pin belongs to an origin, everything else to its bucket.
        let origins = match change {
            FleetChange::Pinned { .. } => {
                let all = self.buckets.of(bucket).into_iter();
                all.map(|(_, id, _)| id).collect()
            }
            _ => self.origins(bucket),
        };
        Box::pin(async move {
            let applied = origins.iter().map(|origin| self.apply_one(*origin, change));
            let applied = first_error(join_all(applied).await);
            if !origins.is_empty() {
                self.log(change, applied.is_ok());
            }
            applied?;
            Ok(!origins.is_empty())
        })
    }

    fn doubt(&self) -> BoxFuture<'_, Result<(), ApplyError>> {
        Box::pin(self.doubt_all())
    }

    fn call_hooks(&self, change: &KeyChange) {
        for (origin, _) in self.buckets.one_each(&change.bucket) {
            self.hooks.changed(&origin, std::slice::from_ref(change));
        }
    }

    fn call_hooks_below(&self, changes: &FolderChange) {
        for (origin, _) in self.buckets.one_each(&changes.bucket) {
            self.hooks.changed_below(&origin, changes);
        }
    }

    fn hook_delay(&self, change: &KeyChange) -> Option<Duration> {
        let origins = self.buckets.one_each(&change.bucket).into_iter();
        let delays = origins.filter_map(|(origin, _)| self.hooks.max_delay(&origin, change));
        delays.max()
    }
}

fn not_applied(error: impl std::fmt::Display) -> ApplyError {
    ApplyError(error.to_string())
}

fn first_error<E: std::fmt::Display>(all: Vec<Result<(), E>>) -> Result<(), ApplyError> {
    all.into_iter()
        .collect::<Result<(), E>>()
        .map_err(not_applied)
}

#[cfg(test)]
mod tests;
