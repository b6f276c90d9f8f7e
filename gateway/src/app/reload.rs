//! Another configuration for a running gateway: the file is read again, checked whole, and applied whole or not at all.
//!
//! Exchanged while requests are answered: listeners (the admin listener too), routes, profiles, accesses, limits, origins,
//! hooks, events, the level of the log, the budget, and the sizes and disks of the cache. Secrets in files and certificates
//! are read again. A request that has begun ends on the routes and the origin that it began with. Keys that need a restart
//! are named, and keep their old values until then.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::future::OptionFuture;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;

use super::events::fleet::{FleetLink, FleetMember};
use super::events::{BucketEvents, PreparedEvents, Proofs};
use super::hooks::WrittenKeys;
use super::locate::Locator;
use super::origins::{LiveOrigins, PreparedOrigins};
use super::parts::{GatewayParts, split_budget};
use super::routes::{self, RouteParts};
use super::{hooks, settings};
use crate::doctor::Origins;
use crate::secrets::SecretProblems;
use crate::tls::{PreparedTls, RunningTls};
use tidegate_admin::reload::{OverrideChange, Reload, ReloadError, ReloadReport};
use tidegate_cache::{PreparedTiers, Tiers};
use tidegate_config::{Config, Environment, LiveKeys, LoadedConfig, Overrides};
use tidegate_engine::Engine;
use tidegate_hooks::PreparedHooks;
use tidegate_http::{ClientMemory, Control, Routes};
use tidegate_origin::Metrics;

pub(super) mod admin;
mod files;
mod in_force;
mod listeners;
mod mounted_route;
mod start_secrets;

use admin::{LiveAdmin, PreparedAdmin};
use files::{StateFiles, in_time};
use listeners::PreparedListeners;
use mounted_route::MountedRoute;
use start_secrets::StartSecrets;

/// The parts of a running gateway that a reload changes.
#[derive(Debug)]
pub(super) struct Reloader {
    env: Environment,
    engine: Engine,
    client_memory: Arc<ClientMemory>,
    origin_metrics: Metrics,
    /// The routes of the public listener.
    pub(super) routes: Arc<Routes>,
    locator: Arc<Locator>,
    tiers: Arc<Tiers>,
    mounts: Vec<MountedRoute>,
    tls: RunningTls,
    /// The control of the public listeners.
    control: Arc<Control>,
    admin: LiveAdmin,
    start_secrets: StartSecrets,
    hooks: Arc<WrittenKeys>,
    events: Arc<BucketEvents>,
    fleet: Option<Arc<FleetLink>>,
    /// Held during a reload.
    present: Mutex<ActiveConfig>,
    state_files: StateFiles,
    /// The configuration in force, for callers that only read it.
    shown: watch::Sender<Arc<LoadedConfig>>,
}

/// The parts of another configuration, not in force yet.
struct PreparedParts {
    origins: PreparedOrigins,
    routes: RouteParts,
    proofs: Proofs,
    hooks: PreparedHooks,
    events: PreparedEvents,
    listeners: PreparedListeners,
    admin: PreparedAdmin,
}

/// The configuration in force.
#[derive(Debug)]
struct ActiveConfig {
    loaded: Arc<LoadedConfig>,
    live: LiveParts,
}

/// The parts that the next configuration is compared with.
#[derive(Debug)]
struct LiveParts {
    routes: RouteParts,
    origins: LiveOrigins,
    proofs: Proofs,
}

impl Reload for Reloader {
    fn reload(self: Arc<Self>) -> BoxFuture<'static, Result<ReloadReport, ReloadError>> {
        // A task of its own: a client that leaves does not leave half a configuration.
        let done = tokio::spawn(async move {
            let mut present = self.present.lock().await;
            self.apply(&mut present, None).await
        });
        Box::pin(async { done.await.unwrap_or_else(|error| Err(wrong(error))) })
    }

    fn set(
        self: Arc<Self>,
        change: OverrideChange,
    ) -> BoxFuture<'static, Result<ReloadReport, ReloadError>> {
        let done = tokio::spawn(async move { self.set_override(&change).await });
        Box::pin(async { done.await.unwrap_or_else(|error| Err(wrong(error))) })
    }

    fn overridden(&self) -> BoxFuture<'_, Vec<String>> {
        // Not what a change under way holds: it may wait for a disk.
        let loaded = self.loaded();
        Box::pin(async move { loaded.overrides.keys().map(str::to_owned).collect() })
    }
}

impl Reloader {
    /// Makes it for a gateway of these parts, with its routes in force.
    pub(super) fn new(
        loaded: LoadedConfig,
        env: &Environment,
        parts: &GatewayParts,
        (tls, control, admin): (RunningTls, &Arc<Control>, LiveAdmin),
        events: Arc<BucketEvents>,
    ) -> Self {
        let (routes, loaded) = (&parts.routes, Arc::new(loaded));
        let mounts = loaded.config.mount.iter();
        let mounts = mounts.map(|mount| MountedRoute::new(&loaded.config, mount));
        let mounts: Vec<_> = mounts.collect();
        Self {
            env: env.clone(),
            engine: parts.engine.clone(),
            client_memory: parts.client_memory.clone(),
            origin_metrics: parts.origin_metrics.clone(),
            events,
            routes: Arc::new(Routes::new(routes.routes.clone())),
            locator: parts.locator.clone(),
            tiers: parts.stores.tiers.clone(),
            mounts,
            tls,
            control: control.clone(),
            admin,
            start_secrets: StartSecrets::new(&loaded.config, env),
            hooks: parts.written_keys.clone(),
            fleet: parts.fleet.as_ref().map(FleetMember::link),
            shown: watch::Sender::new(loaded.clone()),
            state_files: StateFiles::default(),
            present: Mutex::new(ActiveConfig {
                loaded,
                live: LiveParts {
                    routes: routes.clone(),
                    origins: parts.live_origins.clone(),
                    proofs: parts.proofs.clone(),
                },
            }),
        }
    }

    /// Returns the configuration in force, with the keys as they are written now. Does not wait for a reload.
    pub(super) fn loaded(&self) -> Arc<LoadedConfig> {
        self.shown.borrow().clone()
    }

    /// Returns the environment that the process was started with, in which secrets are looked up.
    pub(super) fn env(&self) -> &Environment {
        &self.env
    }

    /// Returns whether the admin listener speaks TLS.
    pub(super) fn admin_has_tls(&self) -> bool {
        self.admin.control.has_tls()
    }

    /// Returns the configuration in force, and its origins, to be measured.
    pub(super) async fn measured(&self) -> (Arc<LoadedConfig>, Origins) {
        let present = self.present.lock().await;
        (present.loaded.clone(), present.live.origins.all())
    }

    /// Applies the configuration with one override changed. If it can be applied but not kept, what was before is applied
    /// again.
    async fn set_override(&self, change: &OverrideChange) -> Result<ReloadReport, ReloadError> {
        let mut present = self.present.lock().await;
        let state = present.loaded.config.state_path();
        let state = state.ok_or_else(|| wrong("the gateway keeps no state: set `state.path`"))?;
        let (folder, file) = (state.clone(), present.loaded.file.clone());
        let OverrideChange { key, value } = change.clone();
        let read = self.state_files.in_turn(move || {
            let kept = Overrides::read(&folder).map_err(wrong)?;
            let new = kept.changed(file.as_deref(), &key, value.as_deref());
            new.map(|new| (kept, new)).map_err(wrong)
        });
        let (kept, new) = read.await?;
        let report = self.apply(&mut present, Some(new.clone())).await;
        if let Err(error) = &report
            && change.value.is_none()
            && self.load(&present, Some(kept.clone())).await.is_err()
        {
            // Other overrides are wrong as well: they are undone one by one.
            let written = self.state_files.in_turn(move || new.write(&state));
            written.await?;
            let key = &change.key;
            return Err(wrong(format!(
                "`{key}` is undone, but the configuration cannot be applied yet: {error}"
            )));
        }
        let report = report?;
        let written = self.state_files.in_turn(move || new.write(&state));
        if let Err(error) = written.await {
            let error = format!("it cannot be kept: {error}");
            return match self.apply(&mut present, Some(kept)).await {
                Ok(_) => Err(wrong(error)),
                Err(_) => Err(wrong(format!("{error}; it is in force until a reload"))),
            };
        }
        Ok(report)
    }

    /// Reads the configuration, with these overrides or else those of the state folder, and applies it.
    async fn apply(
        &self,
        present: &mut ActiveConfig,
        overrides: Option<Overrides>,
    ) -> Result<ReloadReport, ReloadError> {
        let (loaded, tls) = self.load(present, overrides).await?;
        let loaded = self.check_secrets(&present.loaded.config, loaded).await?;
        let prepared = self.prepare(present, &loaded.config).await;
        let prepared = prepared.map_err(|error| wrong(format!("{error:#}")))?;
        // The last step that can fail.
        let old = &present.loaded;
        let tiers = self.prepare_tiers(&old.config, &loaded.config).await?;
        if let Err(error) = settings::logging(&loaded.config.log).apply() {
            // In a process whose log another program has set up.
            tracing::debug!(%error, "the log keeps its level");
        }
        self.tls.replace(tls);
        let live = self.exchange(prepared, &loaded.config).await;
        let keys = LiveKeys::between(&old.config, &loaded.config);
        let keys = self.apply_tiers(tiers, keys).await;
        let report = self.report(old, &loaded, keys);
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        tracing::info!(
            changed = report.changed.len(),
            needs_restart = ?report.needs_restart,
            "configuration reloaded"
        );
        *present = ActiveConfig {
            loaded: Arc::new(in_force::after(old, loaded, keys)),
            live,
        };
        self.shown.send_replace(present.loaded.clone());
        Ok(report)
    }

    /// Makes the parts of a configuration, and puts none of them in force.
    async fn prepare(
        &self,
        present: &ActiveConfig,
        config: &Config,
    ) -> anyhow::Result<PreparedParts> {
        let live = &present.live;
        let prepared = live
            .origins
            .prepare(config, &self.env, &self.origin_metrics);
        let origins = prepared.await?;
        let all = origins.origins.all();
        let proofs = live.proofs.next(config, &all);
        let routes = routes::rebuild(config, &self.env, (&all, &proofs), &live.routes)?;
        let events = self.events.prepare(config, &self.env, (&all, &proofs))?;
        let hooks = hooks::prepare(config, &self.env, &all)?;
        let listen = &config.http.listen.0;
        let listeners = listeners::prepare(&self.control, listen, self.tls.tls()).await?;
        let admin = self
            .admin
            .prepare(config, &self.env, self.tls.tls())
            .await?;
        Ok(PreparedParts {
            origins,
            routes,
            proofs,
            hooks,
            events,
            listeners,
            admin,
        })
    }

    /// Puts the parts of a configuration in force; returns those that the next one is compared with.
    async fn exchange(&self, prepared: PreparedParts, config: &Config) -> LiveParts {
        let PreparedParts {
            origins,
            mut routes,
            proofs,
            hooks,
            events,
            listeners,
            admin,
        } = prepared;
        let live = origins.apply();
        let origins = live.all();
        self.engine
            .set_origins(origins.clone().into_iter().collect());
        let fleet = self.fleet.as_ref();
        let doubts = fleet.map(|fleet| fleet.replace(config, &origins));
        routes.apply();
        self.locator.replace(config, &routes.routes, &origins);
        self.routes.replace(routes.routes.clone());
        self.engine.forget_profiles(&config.gone_profiles());
        // After the routes: an access that was taken back must not wait for a disk.
        OptionFuture::from(doubts).await;
        self.hooks.replace(hooks, config, &origins);
        let (budget, client_memory) = split_budget(config.cache.budget);
        self.engine.budget().resize(budget);
        self.client_memory.resize(client_memory);
        let http = settings::http(&config.http, config.cache.budget);
        self.control.replace_settings(http);
        listeners.apply(&self.control).await;
        self.events.apply(events).await;
        self.admin.apply(admin);
        LiveParts {
            routes,
            origins: live,
            proofs,
        }
    }

    /// Reads and checks the configuration, and the certificates.
    async fn load(
        &self,
        present: &ActiveConfig,
        overrides: Option<Overrides>,
    ) -> Result<(LoadedConfig, PreparedTls), ReloadError> {
        let file = present.loaded.file.clone();
        let file =
            file.ok_or_else(|| wrong("the gateway was started without a configuration file"))?;
        let (env, challenges) = (self.env.clone(), self.tls.tls().challenges());
        let state = present.loaded.config.state_path();
        let loaded = in_time(move || {
            let loaded = tidegate_config::load_with(Some(&file), overrides.as_ref(), &env);
            let loaded = loaded.map_err(wrong)?;
            loaded.config.require_origin().map_err(wrong)?;
            settings::logging(&loaded.config.log)
                .check()
                .map_err(wrong)?;
            if overrides.is_some() && loaded.config.state_path() != state {
                return Err(wrong(
                    "an override cannot move the state folder, which it lies in",
                ));
            }
            let tls = PreparedTls::read(&loaded.config, &env, &challenges);
            let tls = tls.map_err(|error| wrong(format!("{error:#}")))?;
            Ok((loaded, tls))
        });
        loaded.await
    }

    /// Checks the secrets that a reload applies, and returns the configuration that has them.
    async fn check_secrets(
        &self,
        old: &Config,
        new: LoadedConfig,
    ) -> Result<LoadedConfig, ReloadError> {
        let (env, live) = (self.env.clone(), LiveKeys::between(old, &new.config));
        let checked = in_time(move || {
            let found = SecretProblems::find(&new, &env, |key| live.has(key));
            found.into_result().map_err(wrong)?;
            Ok::<_, ReloadError>(new)
        });
        checked.await
    }

    /// Returns what a reload has changed, and what it could not.
    fn report(&self, old: &LoadedConfig, new: &LoadedConfig, live: LiveKeys) -> ReloadReport {
        let changed = old.written.changed(&new.written);
        let (changed, mut needs_restart): (Vec<_>, Vec<_>) =
            changed.map(str::to_owned).partition(|key| live.has(key));
        let moved = self.mounts.iter().filter(|one| one.has_moved(&new.config));
        needs_restart.extend(moved.map(|one| format!("the mount {}", one.path().display())));
        let secrets = self.start_secrets.changed(&old.config, &self.env);
        needs_restart.extend(secrets);
        ReloadReport {
            changed,
            needs_restart,
        }
    }

    /// Opens the disks that are new, and checks the sizes of the tiers that have others.
    async fn prepare_tiers(
        &self,
        old: &Config,
        new: &Config,
    ) -> Result<PreparedTiers, ReloadError> {
        let memory = new.cache.memory;
        let memory = (old.cache.memory != memory).then_some(memory.0);
        let disks = match LiveKeys::between(old, new).disks {
            true => settings::disks(&new.cache),
            false => settings::disks(&old.cache),
        };
        let prepared = self.tiers.prepare(memory, disks).await;
        prepared.map_err(|error| wrong(format!("a tier of the cache: {error}")))
    }

    /// Puts the tiers in force; returns `keys` without those of the tiers that stay as they were. Memory that becomes
    /// smaller is evicted, and disks that go are closed, meanwhile.
    async fn apply_tiers(&self, prepared: PreparedTiers, keys: LiveKeys) -> LiveKeys {
        let (tiers, runtime) = (self.tiers.clone(), Handle::current());
        let apply = move || runtime.block_on(tiers.apply(prepared));
        let memory = false;
        match spawn_blocking(apply).await {
            Ok(Ok(())) => keys,
            Ok(Err(error)) => {
                tracing::error!(%error, "the memory tier keeps its size");
                LiveKeys { memory, ..keys }
            }
            Err(error) => {
                tracing::error!(%error, "the tiers of the cache were not changed");
                let disks = false;
                LiveKeys {
                    memory,
                    disks,
                    ..keys
                }
            }
        }
    }
}

fn wrong(error: impl ToString) -> ReloadError {
    ReloadError(error.to_string())
}
