//! Another configuration for a running gateway: the file is read again, checked whole, and applied whole or not at all.
//!
//! Routes, profiles, accesses, limits and the sizes of tiers are exchanged while requests are answered; secrets in files
//! and certificates are read again. A request that has begun ends on the routes that it began with. Keys that need a
//! restart are named, and keep their old values until then; a route that needs a changed origin is refused with the whole
//! file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_core::future::BoxFuture;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::locate::Locator;
use super::parts::GatewayParts;
use super::routes::{self, RouteParts};
use crate::doctor::Origins;
use crate::tls;
use tidegate_admin::reload::{Reload, ReloadError, ReloadReport};
use tidegate_cache::Tiering;
use tidegate_config::{Config, Environment, Loaded};
use tidegate_http::Routes;
use tidegate_tls::{Prepared, Tls};

/// The sections that are applied while the gateway runs.
const LIVE_SECTIONS: [&str; 5] = ["route", "profile", "access", "limits", "tls"];

/// The parts of a running gateway that a reload changes.
#[derive(Debug)]
pub(super) struct Reloader {
    env: Environment,
    origins: Origins,
    /// The routes of the public listener.
    pub(super) routes: Arc<Routes>,
    locator: Arc<Locator>,
    tiering: Arc<dyn Tiering>,
    mounts: Vec<MountedRoute>,
    /// `None`: no listener has TLS.
    tls: Option<Arc<Tls>>,
    /// Held during a reload.
    present: Mutex<InForce>,
}

/// A mount, and where its route led when it was made: it stays there.
#[derive(Debug)]
struct MountedRoute {
    mount: tidegate_config::Mount,
    place: Option<(String, String)>,
}

impl MountedRoute {
    fn new(config: &Config, mount: &tidegate_config::Mount) -> Self {
        Self {
            mount: mount.clone(),
            place: Self::place(config, mount),
        }
    }

    /// Returns the origin and the prefix to which the mount's route leads.
    fn place(config: &Config, mount: &tidegate_config::Mount) -> Option<(String, String)> {
        let route = config.route_of(mount)?;
        let route = config.routes().into_iter().nth(route)?;
        Some((route.origin, route.key_prefix))
    }

    /// Returns whether its route leads elsewhere now.
    fn has_moved(&self, config: &Config) -> bool {
        Self::place(config, &self.mount) != self.place
    }
}

/// The configuration in force.
#[derive(Debug)]
struct InForce {
    loaded: Loaded,
    parts: RouteParts,
}

impl Reload for Reloader {
    fn reload(self: Arc<Self>) -> BoxFuture<'static, Result<ReloadReport, ReloadError>> {
        // A task of its own: a client that leaves does not leave half a configuration.
        let done = tokio::spawn(async move { self.apply().await });
        Box::pin(async { done.await.unwrap_or_else(|error| Err(wrong(error))) })
    }
}

impl Reloader {
    /// Makes it for a gateway of these parts, with its routes in force.
    pub(super) fn new(
        loaded: Loaded,
        env: &Environment,
        parts: &GatewayParts,
        tls: Option<Arc<Tls>>,
    ) -> Self {
        let routes = &parts.routes;
        let mounts = loaded.config.mount.iter();
        let mounts = mounts.map(|mount| MountedRoute::new(&loaded.config, mount));
        let mounts: Vec<_> = mounts.collect();
        Self {
            env: env.clone(),
            origins: parts.origins.clone(),
            routes: Arc::new(Routes::new(routes.routes.clone())),
            locator: parts.locator.clone(),
            tiering: parts.stores.tiering.clone(),
            mounts,
            tls,
            present: Mutex::new(InForce {
                loaded,
                parts: routes.clone(),
            }),
        }
    }

    async fn apply(&self) -> Result<ReloadReport, ReloadError> {
        let mut present = self.present.lock().await;
        let file = present.loaded.file.clone();
        let file =
            file.ok_or_else(|| wrong("the gateway was started without a configuration file"))?;
        let (loaded, certificates) = self.read(file).await?;
        let old = &present.loaded;
        self.require_origins(&old.config, &loaded.config)?;
        let config = with_old_sizes(&old.config, loaded.config.clone());
        let parts = routes::rebuild(&config, &self.env, &self.origins, &present.parts);
        let parts = parts.map_err(|error| wrong(format!("{error:#}")))?;
        // The last step that can fail.
        self.resize(&old.config, &loaded.config).await?;
        if let (Some(tls), Some(certificates)) = (&self.tls, certificates) {
            tls.replace(certificates);
        }
        parts.apply_profiles();
        self.locator.replace(&config, &parts.routes, &self.origins);
        self.routes.replace(parts.routes.clone());
        let report = self.report(old, &loaded);
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        tracing::info!(
            changed = report.changed.len(),
            needs_restart = ?report.needs_restart,
            "configuration reloaded"
        );
        // What needs a restart is still as it was, and is named again by the next reload.
        *present = InForce {
            loaded: Loaded {
                written: old.written.with_live(&loaded.written, is_live),
                config: Config {
                    cache: sized(old.config.cache.clone(), &loaded.config.cache),
                    route: loaded.config.route,
                    profile: loaded.config.profile,
                    access: loaded.config.access,
                    limits: loaded.config.limits,
                    tls: loaded.config.tls,
                    ..old.config.clone()
                },
                ..loaded
            },
            parts,
        };
        Ok(report)
    }

    /// Reads the configuration, and the certificates if a listener has TLS.
    async fn read(&self, file: PathBuf) -> Result<(Loaded, Option<Prepared>), ReloadError> {
        let (env, has_tls) = (self.env.clone(), self.tls.is_some());
        let read = spawn_blocking(move || {
            let loaded = tidegate_config::load(Some(&file), &env).map_err(wrong)?;
            loaded.config.require_origin().map_err(wrong)?;
            let certificates = match has_tls {
                true => tls::prepare(&loaded.config, &env),
                false => Ok(None),
            };
            let certificates = certificates.map_err(|error| wrong(format!("{error:#}")))?;
            Ok((loaded, certificates))
        });
        read.await.map_err(wrong)?
    }

    /// Returns what a reload has changed, and what it could not.
    fn report(&self, old: &Loaded, new: &Loaded) -> ReloadReport {
        let changed = old.written.changed(&new.written);
        let (changed, mut needs_restart): (Vec<_>, Vec<_>) =
            changed.map(str::to_owned).partition(|key| is_live(key));
        let moved = self.mounts.iter().filter(|one| one.has_moved(&new.config));
        needs_restart.extend(moved.map(|one| format!("the mount {}", one.mount.path.display())));
        ReloadReport {
            changed,
            needs_restart,
        }
    }

    /// Checks that the routes lead to origins that run as they are configured.
    fn require_origins(&self, old: &Config, new: &Config) -> Result<(), ReloadError> {
        for route in new.routes() {
            let by_name = |config: &Config| {
                let found = config.origin.iter().find(|one| one.name == route.origin);
                found.cloned()
            };
            if by_name(old) != by_name(new) {
                return Err(wrong(format!(
                    "the route `{}` leads to the origin `{}`, which is new or changed: that needs a restart",
                    route.path, route.origin
                )));
            }
        }
        Ok(())
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
fn is_live(key: &str) -> bool {
    let section = key.split(['.', '[']).next().unwrap_or_default();
    let is_capacity = key.starts_with("cache.disk[") && key.ends_with("].capacity");
    LIVE_SECTIONS.contains(&section) || key == "cache.memory" || is_capacity
}

fn wrong(error: impl ToString) -> ReloadError {
    ReloadError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::parse;

    #[test]
    fn a_mount_whose_route_has_moved_is_told_until_it_is_back() {
        let config = |prefix: &str| {
            let text = format!(
                "[[origin]]\nname = \"o\"\nbucket = \"b\"\n[[route]]\npath = \"/\"\norigin = \"o\"\n\
                 key_prefix = \"{prefix}\"\n[[mount]]\npath = \"/mnt/a\"\nroute = \"/\"\n"
            );
            let loaded = parse("t.toml", &text, &Environment::default());
            loaded.expect("it is right").config
        };
        let start = config("a/");
        let mounted = MountedRoute::new(&start, &start.mount[0]);
        let moved = ["a/", "b/", "b/", "a/"].map(|prefix| mounted.has_moved(&config(prefix)));
        assert_eq!(moved, [false, true, true, false]);
    }

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
            ("cache.budget", false),
            ("http.listen[0]", false),
            ("origin[0].bucket", false),
            ("routes", false),
        ] {
            assert_eq!(is_live(key), live, "{key}");
        }
    }
}
