//! Another configuration for a running gateway: the file is read again, checked whole, and applied whole or not at all.
//!
//! Listeners, the admin listener too, routes, profiles, accesses, limits, origins, hooks, the level of the log and the sizes of tiers are exchanged
//! while requests are answered; secrets in files and certificates are read again. A request that has begun ends on the routes and the
//! origin that it began with. Keys that need a restart are named, and keep their old values until then.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;

use super::events::Proofs;
use super::hooks::WrittenKeys;
use super::locate::Locator;
use super::origins::{LiveOrigins, PreparedOrigins};
use super::parts::GatewayParts;
use super::routes::{self, RouteParts};
use super::{hooks, settings};
use crate::doctor::Origins;
use crate::tls::{PreparedTls, RunningTls};
use tidegate_admin::AdminControl;
use tidegate_admin::reload::{OverrideChange, Reload, ReloadError, ReloadReport};
use tidegate_cache::Tiering;
use tidegate_config::{Config, Environment, Loaded, Overrides};
use tidegate_engine::Engine;
use tidegate_hooks::PreparedHooks;
use tidegate_http::{Control, Routes};
use tidegate_origin::Metrics;

mod admin;
mod listeners;
mod mounted_route;

use admin::PreparedAdmin;
use listeners::PreparedListeners;
use mounted_route::MountedRoute;

/// The sections that are applied while the gateway runs.
const LIVE_SECTIONS: [&str; 8] = [
    "http", "origin", "route", "profile", "access", "limits", "tls", "hook",
];

/// The single keys that are applied while the gateway runs.
const LIVE_KEYS: [&str; 3] = ["cache.memory", "log.level", "log.access"];

/// The parts of a running gateway that a reload changes.
#[derive(Debug)]
pub(super) struct Reloader {
    env: Environment,
    engine: Engine,
    origin_metrics: Metrics,
    proofs: Proofs,
    /// The routes of the public listener.
    pub(super) routes: Arc<Routes>,
    locator: Arc<Locator>,
    tiering: Arc<dyn Tiering>,
    mounts: Vec<MountedRoute>,
    tls: RunningTls,
    /// The control of the public listeners.
    control: Arc<Control>,
    admin: AdminControl,
    hooks: Arc<WrittenKeys>,
    /// Held during a reload.
    present: Mutex<InForce>,
    /// The configuration in force, for those who only read it.
    shown: watch::Sender<Arc<Loaded>>,
}

/// The parts of another configuration, not in force yet.
struct PreparedParts {
    config: Config,
    origins: PreparedOrigins,
    routes: RouteParts,
    hooks: PreparedHooks,
    listeners: PreparedListeners,
    admin: PreparedAdmin,
}

/// The configuration in force.
#[derive(Debug)]
struct InForce {
    loaded: Arc<Loaded>,
    parts: RouteParts,
    origins: LiveOrigins,
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
        Box::pin(async {
            let present = self.present.lock().await;
            present.loaded.overrides.keys().map(str::to_owned).collect()
        })
    }
}

impl Reloader {
    /// Makes it for a gateway of these parts, with its routes in force.
    pub(super) fn new(
        loaded: Loaded,
        env: &Environment,
        parts: &GatewayParts,
        (tls, control, admin): (RunningTls, &Arc<Control>, AdminControl),
    ) -> Self {
        let (routes, loaded) = (&parts.routes, Arc::new(loaded));
        let mounts = loaded.config.mount.iter();
        let mounts = mounts.map(|mount| MountedRoute::new(&loaded.config, mount));
        let mounts: Vec<_> = mounts.collect();
        Self {
            env: env.clone(),
            engine: parts.engine.clone(),
            origin_metrics: parts.origin_metrics.clone(),
            proofs: parts.proofs.clone(),
            routes: Arc::new(Routes::new(routes.routes.clone())),
            locator: parts.locator.clone(),
            tiering: parts.stores.tiering.clone(),
            mounts,
            tls,
            control: control.clone(),
            admin,
            hooks: parts.written_keys.clone(),
            shown: watch::Sender::new(loaded.clone()),
            present: Mutex::new(InForce {
                loaded,
                parts: routes.clone(),
                origins: parts.live_origins.clone(),
            }),
        }
    }

    /// Returns the configuration in force, with the keys as they are written now. Does not wait for a reload.
    pub(super) fn loaded(&self) -> Arc<Loaded> {
        self.shown.borrow().clone()
    }

    /// Returns the environment that the process was started with, in which secrets are looked up.
    pub(super) fn env(&self) -> &Environment {
        &self.env
    }

    /// Returns whether the admin listener speaks TLS.
    pub(super) fn admin_has_tls(&self) -> bool {
        self.admin.has_tls()
    }

    /// Returns the configuration in force, and its origins, to be measured.
    pub(super) async fn measured(&self) -> (Config, Origins) {
        let present = self.present.lock().await;
        (present.loaded.config.clone(), present.origins.all())
    }

    /// Applies the configuration with one override changed. If it can be applied but not kept, what was before is applied
    /// again.
    async fn set_override(&self, change: &OverrideChange) -> Result<ReloadReport, ReloadError> {
        let mut present = self.present.lock().await;
        let state = present.loaded.config.state_path();
        let state = state.ok_or_else(|| wrong("the gateway keeps no state: set `state.path`"))?;
        let folder = state.clone();
        let kept = spawn_blocking(move || Overrides::read(&folder).map_err(wrong));
        let kept = kept.await.map_err(wrong)??;
        let new = kept.with(&change.key, change.value.as_deref());
        let new = new.map_err(wrong)?;
        let report = self.apply(&mut present, Some(new.clone())).await?;
        let written = spawn_blocking(move || new.write(&state));
        if let Err(error) = written.await.map_err(wrong)? {
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
        present: &mut InForce,
        overrides: Option<Overrides>,
    ) -> Result<ReloadReport, ReloadError> {
        let (loaded, tls) = self.load(present, overrides).await?;
        let prepared = self.prepare(present, &loaded.config).await;
        let prepared = prepared.map_err(|error| wrong(format!("{error:#}")))?;
        // The last step that can fail.
        let old = &present.loaded;
        self.resize(&old.config, &loaded.config).await?;
        if let Err(error) = settings::logging(&loaded.config.log).apply() {
            // In a process whose log another program has set up.
            tracing::debug!(%error, "the log keeps its level");
        }
        self.tls.replace(tls);
        let (parts, origins) = self.exchange(prepared).await;
        let report = self.report(old, &loaded);
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        tracing::info!(
            changed = report.changed.len(),
            needs_restart = ?report.needs_restart,
            "configuration reloaded"
        );
        *present = InForce {
            loaded: Arc::new(in_force(old, loaded)),
            parts,
            origins,
        };
        self.shown.send_replace(present.loaded.clone());
        Ok(report)
    }

    /// Makes the parts of a configuration, and puts none of them in force.
    async fn prepare(&self, present: &InForce, config: &Config) -> anyhow::Result<PreparedParts> {
        let config = with_old_sizes(&present.loaded.config, config.clone());
        let live = &present.origins;
        let prepared = live.prepare(&config, &self.env, &self.origin_metrics);
        let origins = prepared.await?;
        let all = origins.origins.all();
        let routes = routes::rebuild(&config, &self.env, (&all, &self.proofs), &present.parts)?;
        let hooks = hooks::prepare(&config, &self.env, &all)?;
        let listen = &config.http.listen.0;
        let listeners = listeners::prepare(&self.control, listen, self.tls.tls()).await?;
        let admin = admin::prepare(&self.admin, &config.admin.listen, self.tls.tls()).await?;
        Ok(PreparedParts {
            config,
            origins,
            routes,
            hooks,
            listeners,
            admin,
        })
    }

    /// Puts the parts of a configuration in force; returns those that the next one is compared with.
    async fn exchange(&self, prepared: PreparedParts) -> (RouteParts, LiveOrigins) {
        let PreparedParts {
            config,
            origins,
            routes,
            hooks,
            listeners,
            admin,
        } = prepared;
        let live = origins.apply();
        let origins = live.all();
        self.engine
            .set_origins(origins.clone().into_iter().collect());
        routes.apply_profiles();
        self.locator.replace(&config, &routes.routes, &origins);
        self.routes.replace(routes.routes.clone());
        self.hooks.replace(hooks, &config, &origins);
        let http = settings::http(&config.http, config.cache.budget);
        self.control.replace_settings(http);
        listeners.apply(&self.control).await;
        admin.apply(&self.admin);
        (routes, live)
    }

    /// Reads and checks the configuration, and the certificates.
    async fn load(
        &self,
        present: &InForce,
        overrides: Option<Overrides>,
    ) -> Result<(Loaded, PreparedTls), ReloadError> {
        let file = present.loaded.file.clone();
        let file =
            file.ok_or_else(|| wrong("the gateway was started without a configuration file"))?;
        let (env, challenges) = (self.env.clone(), self.tls.tls().challenges());
        let state = present.loaded.config.state_path();
        let loaded = spawn_blocking(move || {
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
        loaded.await.map_err(wrong)?
    }

    /// Returns what a reload has changed, and what it could not.
    fn report(&self, old: &Loaded, new: &Loaded) -> ReloadReport {
        let changed = old.written.changed(&new.written);
        let (changed, mut needs_restart): (Vec<_>, Vec<_>) =
            changed.map(str::to_owned).partition(|key| is_live(key));
        let moved = self.mounts.iter().filter(|one| one.has_moved(&new.config));
        needs_restart.extend(moved.map(|one| format!("the mount {}", one.path().display())));
        ReloadReport {
            changed,
            needs_restart,
        }
    }

    /// Gives the tiers their new sizes. If one of them cannot have it, those before it get the old one back.
    async fn resize(&self, old: &Config, new: &Config) -> Result<(), ReloadError> {
        let mut steps = Vec::new();
        if old.cache.memory != new.cache.memory {
            steps.push((None, old.cache.memory.0, new.cache.memory.0));
        }
        for disk in &new.cache.disk {
            let before = old.cache.disk.iter().find(|one| one.path == disk.path);
            if let Some(before) = before.filter(|one| one.capacity != disk.capacity) {
                let path = Some(disk.path.clone());
                steps.push((path, before.capacity.0, disk.capacity.0));
            }
        }
        let tiering = self.tiering.clone();
        let resize = move || {
            let set = |path: &Option<PathBuf>, bytes| match path {
                None => tiering.resize_memory(bytes),
                Some(path) => tiering.resize_disk(path, bytes),
            };
            for (done, (path, _, new)) in steps.iter().enumerate() {
                if let Err(error) = set(path, *new) {
                    for (path, old, _) in steps[..done].iter().rev() {
                        if let Err(error) = set(path, *old) {
                            tracing::error!(%error, "a tier keeps its new size");
                        }
                    }
                    let what = path
                        .as_deref()
                        .map_or("memory".into(), Path::to_string_lossy);
                    return Err(wrong(format!("{what}: {error}")));
                }
            }
            Ok(())
        };
        spawn_blocking(resize).await.map_err(wrong)?
    }
}

/// Returns what is in force after a reload. What needs a restart is still as it was, and is named again by the next reload.
fn in_force(old: &Loaded, new: Loaded) -> Loaded {
    Loaded {
        written: old.written.with_live(&new.written, is_live),
        config: Config {
            http: new.config.http,
            origin: new.config.origin,
            cache: sized(old.config.cache.clone(), &new.config.cache),
            route: new.config.route,
            profile: new.config.profile,
            access: new.config.access,
            limits: new.config.limits,
            hook: new.config.hook,
            log: tidegate_config::Log {
                format: old.config.log.format,
                ..new.config.log
            },
            tls: new.config.tls,
            admin: tidegate_config::Admin {
                listen: new.config.admin.listen,
                ..old.config.admin.clone()
            },
            ..old.config.clone()
        },
        ..new
    }
}

/// Returns the new configuration with the budget that the gateway runs with, to which profiles are cut.
fn with_old_sizes(old: &Config, mut new: Config) -> Config {
    new.cache.budget = old.cache.budget;
    new
}

/// Returns the cache's section with the new sizes of the tiers that run.
fn sized(
    mut cache: tidegate_config::Cache,
    new: &tidegate_config::Cache,
) -> tidegate_config::Cache {
    cache.memory = new.memory;
    for disk in &mut cache.disk {
        if let Some(other) = new.disk.iter().find(|one| one.path == disk.path) {
            disk.capacity = other.capacity;
        }
    }
    cache
}

/// Returns whether a key is applied while the gateway runs.
pub(super) fn is_live(key: &str) -> bool {
    let section = key.split(['.', '[']).next().unwrap_or_default();
    let is_capacity = key.starts_with("cache.disk[") && key.ends_with("].capacity");
    // A text, or a table with address and `tls`.
    let is_admin = key == "admin.listen" || key.starts_with("admin.listen.");
    LIVE_SECTIONS.contains(&section) || LIVE_KEYS.contains(&key) || is_capacity || is_admin
}

fn wrong(error: impl ToString) -> ReloadError {
    ReloadError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_applied_while_it_runs() {
        for (key, live) in [
            ("route[0].path", true),
            ("profile.web.ttl", true),
            ("access.members.tokens.alice", true),
            ("limits.fair.requests", true),
            ("tls.certificates[0].key.file", true),
            ("cache.memory", true),
            ("cache.disk[1].capacity", true),
            ("cache.disk[1].path", false),
            ("log.level", true),
            ("log.format", false),
            ("cache.budget", false),
            ("http.listen[0]", true),
            ("admin.listen", true),
            ("admin.listen.tls", true),
            ("admin.token", false),
            ("admin.listened", false),
            ("origin[0].bucket", true),
            ("hook[0].url", true),
            ("routes", false),
        ] {
            assert_eq!(is_live(key), live, "{key}");
        }
    }
}
