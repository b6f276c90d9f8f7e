//! Mounts: the configuration's, and the one that `tidegate mount` makes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};

use super::events::BucketEvents;
use super::events::fleet::FleetMember;
use super::parts::{self, GatewayParts};
use super::process::fetch_runtime::FetchRuntime;
use super::traces::Traces;
use super::{hooks, writing};
use crate::cli::MountArgs;
use tidegate_config::{CommitName, Config, Environment, Events, EventsKind};
use tidegate_engine::Engine;
use tidegate_fuse::{Access, AttributeUse, MountSession, NumberTable, WriteSettings};
use tidegate_hooks::Hooks;
use tidegate_write::{Commit, Writers};

/// The mounts of a process.
#[derive(Debug)]
pub(super) struct Mounts(Vec<MountSession>);

/// Mounts all of them, or none, and opens the spool if one of them is writable.
pub(super) async fn start(
    config: &Config,
    env: &Environment,
    mounts: &[tidegate_config::Mount],
    parts: &mut GatewayParts,
) -> anyhow::Result<(Mounts, Option<Writers>)> {
    let numbers = Arc::new(OnceLock::new());
    let (opened, engine) = (numbers.clone(), parts.engine.clone());
    // Before a cut rename goes on, whose files keep their numbers.
    let open_numbers = move |spool: &Path| {
        let table = opened.get_or_init(|| Arc::new(NumberTable::open(spool)));
        table.subscribe_to(&engine);
    };
    let writers = writing::start(config, env, mounts, parts, open_numbers).await?;
    let metrics = tidegate_fuse::Metrics::default();
    metrics.register(&mut parts.registry);
    let numbers = numbers.get_or_init(Arc::default).clone();
    let spool = config.spool_path(env).filter(|_| writers.is_some());
    let mut all = Mounts(Vec::new());
    if mounts.is_empty() {
        return Ok((all, writers));
    }
    let folders = config.state_path().into_iter().chain(spool).collect();
    let mounted = first_mount(folders, &parts.engine).await?;
    for mount in mounts {
        let route = config
            .route_of(mount)
            .context("a mount's route was checked")?;
        let route = &parts.routes.routes[route];
        let mut settings = settings(mount, &route.settings.key_prefix, mounted, &numbers);
        settings.tracer.clone_from(&parts.traces.tracer);
        let (engine, source) = (parts.engine.clone(), route.source.clone());
        let access = match writers.clone().filter(|_| mount.writable) {
            None => Access::Read,
            Some(writers) => Access::Write(WriteSettings {
                writers,
                commit: match mount.commit {
                    CommitName::Close => Commit::Close,
                    CommitName::Background => Commit::Background,
                },
                probe: mount.probe.map(Into::into),
                rename_limit: usize::try_from(mount.rename_limit).unwrap_or(usize::MAX),
            }),
        };
        match tidegate_fuse::mount(settings, engine, source, access, metrics.clone()).await {
            Ok(mounted) => all.0.push(mounted),
            Err(error) => {
                all.stop(Duration::ZERO).await;
                return Err(error.into());
            }
        }
    }
    Ok((all, writers))
}

impl Mounts {
    /// Reports mounts that an operator has unmounted, or that ended with an error.
    pub(super) fn missing(&self) -> impl Fn() -> Vec<String> + Send + Sync + use<> {
        let watched = self.0.iter();
        let watched =
            watched.map(|mounted| (mounted.path().display().to_string(), mounted.is_gone()));
        let watched: Vec<_> = watched.collect();
        move || {
            let gone = watched.iter().filter(|(_, is_gone)| is_gone());
            gone.map(|(path, _)| format!("mount {path}: it is not mounted any more"))
                .collect()
        }
    }

    /// Unmounts, and waits as long as this for programs that write.
    pub(super) async fn stop(self, patience: Duration) {
        let stopped = self.0.into_iter().map(|mounted| mounted.stop(patience));
        futures_util::future::join_all(stopped).await;
    }
}

/// Returns the time of the first mount, as the first of these folders that is there has it. If the clock was set back, a
/// first mount now is not before the latest write here.
async fn first_mount(folders: Vec<PathBuf>, engine: &Engine) -> anyhow::Result<SystemTime> {
    let now = SystemTime::now().max(engine.latest_time().into());
    let find = move || {
        let folder = folders.iter().find(|folder| folder.is_dir());
        folder.map_or(now, |folder| tidegate_fuse::first_mount(folder, now))
    };
    Ok(tokio::task::spawn_blocking(find).await?)
}

fn settings(
    mount: &tidegate_config::Mount,
    prefix: &str,
    mounted: SystemTime,
    numbers: &Arc<NumberTable>,
) -> tidegate_fuse::Settings {
    use rustix::process::{getgid, getuid};
    tidegate_fuse::Settings {
        path: mount.path.clone(),
        prefix: prefix.to_owned(),
        uid: mount.uid.unwrap_or_else(|| getuid().as_raw()),
        gid: mount.gid.unwrap_or_else(|| getgid().as_raw()),
        umask: mount.umask.0,
        allow_other: mount.allow_other,
        attributes: match mount.keeps_attributes() {
            true => AttributeUse::Kept,
            false => AttributeUse::None,
        },
        size: mount.size.map(|size| size.0),
        threads: usize::try_from(mount.threads).unwrap_or(usize::MAX),
        deadline: mount.deadline.into(),
        mounted,
        numbers: numbers.clone(),
        tracer: None,
    }
}

/// Returns the mount that a command line means: the configuration's of that folder, or a default one if the configuration
/// has none at all.
pub(super) fn selected(
    config: &Config,
    args: &MountArgs,
) -> anyhow::Result<tidegate_config::Mount> {
    let same = |mount: &&tidegate_config::Mount| same_folder(&mount.path, &args.path);
    let configured = config.mount.iter().find(same);
    if configured.is_none() && !config.mount.is_empty() {
        // Its settings would be the defaults, without a word: not writable, and for one user.
        let all = config
            .mount
            .iter()
            .map(|mount| mount.path.display().to_string());
        let all = all.collect::<Vec<_>>().join(", ");
        let path = args.path.display();
        bail!(
            "no [[mount]] of the configuration has the path {path}; those that there are have {all}"
        );
    }
    let mut mount = configured.cloned().unwrap_or_default();
    mount.path.clone_from(&args.path);
    if let Some(route) = &args.route {
        mount.route.clone_from(route);
        mount.host = None;
    }
    mount.writable |= args.writable;
    if args.host.is_some() {
        mount.host.clone_from(&args.host);
    }
    let host = mount.host.as_deref().unwrap_or_default();
    config
        .route_of(&mount)
        .with_context(|| format!("there is no route {host}{}", mount.route))?;
    Ok(mount)
}

fn same_folder(one: &Path, other: &Path) -> bool {
    // A mount whose process has died cannot be resolved.
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let resolved = |path: &Path| path.canonicalize().ok();
    absolute(one) == absolute(other) || resolved(one).is_some_and(|it| resolved(other) == Some(it))
}

/// Returns the configuration with the subscriptions that need no listener. They take no part in a durable consumer, whose
/// messages would be missing at a gateway of this machine.
fn with_events_of_mount(config: &Config) -> Config {
    let (taken, left): (Vec<_>, Vec<_>) = config
        .events
        .iter()
        .cloned()
        .partition(|events| events.kind == EventsKind::Nats);
    for events in left {
        let subscription = events.name;
        tracing::warn!(
            subscription,
            "a webhook needs the listener of tidegate serve: ttl stands"
        );
    }
    let plain = |events| Events {
        stream: None,
        consumer: None,
        ..events
    };
    Config {
        events: taken.into_iter().map(plain).collect(),
        ..config.clone()
    }
}

/// A mount without listeners.
#[derive(Debug)]
pub(super) struct SingleMount {
    engine: Engine,
    mounted: Mounts,
    writers: Option<Writers>,
    hooks: Arc<Hooks>,
    fleet: Option<FleetMember>,
    events: Arc<BucketEvents>,
    drain: Duration,
    traces: Traces,
    _background: FetchRuntime,
}

impl SingleMount {
    pub(super) async fn start(
        config: &Config,
        env: &Environment,
        mount: tidegate_config::Mount,
    ) -> anyhow::Result<Self> {
        let mut parts = parts::assemble(config, env).await?;
        let drain = config.http.drain.into();
        let prepared = parts.events(&with_events_of_mount(config), env);
        let (events, prepared) = parts.close_on_error(drain, prepared).await?;
        let started = start(config, env, &[mount], &mut parts).await;
        let (mounted, writers) = parts.close_on_error(drain, started).await?;
        events.apply(prepared).await;
        Ok(Self {
            engine: parts.engine,
            mounted,
            writers,
            hooks: parts.hooks,
            fleet: parts.fleet,
            events,
            drain,
            traces: parts.traces,
            _background: parts.background,
        })
    }

    /// Waits until the mount has ended.
    pub(super) async fn wait_ended(&mut self) {
        for mounted in &mut self.mounted.0 {
            mounted.ended().await;
        }
    }

    /// Unmounts, and writes out pending data.
    pub(super) async fn stop(self) {
        self.mounted.stop(self.drain).await;
        self.events.stop().await;
        writing::settle(self.writers.as_ref(), self.drain).await;
        // The others of the fleet then know that its hooks are called.
        self.hooks.stop(hooks::STOP_TIMEOUT).await;
        if let Some(fleet) = self.fleet {
            fleet.stop().await;
        }
        self.engine.close(self.drain).await;
        self.traces.stop().await;
    }
}

#[cfg(test)]
mod tests;
