//! The gateway, put together: origins and stores, the engine over them, the frontends over the engine.
//!
//! Steps that a wrong configuration can fail come first, and the stores last, because open stores have to be closed in
//! order.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::events::BucketEvents;
use super::events::fleet::FleetMember;
use super::mounts::{self, Mounts};
use super::operator::console::{self, KeptHistory};
use super::operator::{pins, tiers};
use super::parts::{EventParts, GatewayParts, assemble};
use super::process::fetch_runtime::FetchRuntime;
use super::process::long_work::LongWork;
use super::process::machine::machine_name;
use super::reload::Reloader;
use super::reload::admin::LiveAdmin;
use super::traces::Traces;
use super::{hooks, locate, settings, writing};
use crate::secrets::SecretProblems;
use crate::tls::{self, RunningTls};
use tidegate_admin::auth::AdminToken;
use tidegate_admin::reload::Reload as _;
use tidegate_admin::{Admin, AdminControl, AdminListeners, EngineControl};
use tidegate_cache::Stores;
use tidegate_config::{Config, Environment, LoadedConfig};
use tidegate_engine::Engine;
use tidegate_hooks::Hooks;
use tidegate_http::{Changes, ClientMemory, Control, Frontend, Routes};
use tidegate_plan::Listen;
use tidegate_socket::{InheritedSockets, Listener};
use tidegate_telemetry::exposition::{self, Exposition};
use tidegate_write::{WritePath, Writers};

/// The gateway's listeners.
#[derive(Debug)]
pub struct Sockets {
    /// The public ones.
    pub http: Vec<Listener>,
    /// The operator's.
    pub admin: Listener,
}

impl Sockets {
    /// Binds the addresses of the configuration.
    ///
    /// # Errors
    /// Names the address that cannot be bound.
    pub async fn bind(config: &Config) -> anyhow::Result<Self> {
        Self::bind_beside(config, InheritedSockets::default()).await
    }

    /// Takes the configured addresses from a supervisor's sockets, and binds the others.
    ///
    /// # Errors
    /// Names the address that cannot be bound, or a supervisor's that the configuration does not name: its clients
    /// would wait for ever.
    pub async fn bind_beside(
        config: &Config,
        mut inherited: InheritedSockets,
    ) -> anyhow::Result<Self> {
        let mut bind = async |address: &Listen, mode| {
            let listener = match inherited.take(address).transpose() {
                Some(taken) => taken,
                None => Listener::bind(address, mode).await,
            };
            listener.with_context(|| format!("cannot listen on {address}"))
        };
        // First, so that a program that finds a public address open finds this one as well.
        let admin = bind(&config.admin.listen.address, settings::ADMIN_SOCKET_MODE).await?;
        let mut http = Vec::new();
        for one in &config.http.listen.0 {
            http.push(bind(&one.address, settings::PUBLIC_SOCKET_MODE).await?);
        }
        if let Some(address) = inherited.first_unused() {
            bail!(
                "a socket was handed over that listens on {address}, which neither `http.listen` nor `admin.listen` names"
            );
        }
        Ok(Self { http, admin })
    }
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    engine: Engine,
    mounts: Mounts,
    hooks: Arc<Hooks>,
    /// Stops the admin listener, after all else.
    stop: CancellationToken,
    public: JoinHandle<()>,
    private: JoinHandle<()>,
    control: Arc<Control>,
    reloader: Arc<Reloader>,
    events: Arc<BucketEvents>,
    fleet: Option<FleetMember>,
    traces: Traces,
    history: KeptHistory,
    work: Arc<LongWork>,
    /// Runs requests to origins and disks until the gateway is dropped.
    _background: FetchRuntime,
}

/// Checks that all secrets of a configuration can be read. The error is text alone: a supervisor is to start again over a file
/// that may come, and not over a configuration that is wrong.
fn check_secrets(loaded: &LoadedConfig, env: &Environment) -> anyhow::Result<()> {
    let checked = SecretProblems::find(loaded, env, |_| true).into_result();
    checked.map_err(|error| anyhow::Error::msg(error.to_string()))
}

impl Gateway {
    /// Puts everything together and starts it.
    ///
    /// # Errors
    /// If a part cannot be opened or does not fit the configuration. An origin that is down is no error: `/readyz`
    /// reports it.
    pub async fn start(
        loaded: LoadedConfig,
        env: &Environment,
        mut sockets: Sockets,
    ) -> anyhow::Result<Self> {
        let config = &loaded.config.clone();
        check_secrets(&loaded, env)?;
        let token = AdminToken::new(settings::admin_token(config, env)?);
        let tls = tls::encrypt(config, env, &mut sockets.http, &mut sockets.admin)?;
        let mut parts = assemble(config, env).await?;
        let deadline = config.http.drain.into();
        // The last step that can fail, but for the listeners.
        let ((events, prepared), mounts, writers) =
            over_engine(config, env, &mut parts, deadline).await?;
        announce(&sockets)?;
        let (control, changes) = public_control(config, sockets.http)?;
        let stop = CancellationToken::new();
        let tls = RunningTls::start(tls, &mut parts.registry, stop.clone());
        let (live, listeners) = live_admin(config, sockets.admin, token.clone());
        let listening = (tls, &control, live);
        let reloader = Reloader::new(loaded, env, &parts, listening, events.clone());
        let reloader = Arc::new(reloader);
        let (engine, locator, traces) = (parts.engine, parts.locator, parts.traces);
        let served = ((engine.clone(), parts.write_path), reloader.routes.clone());
        let work = LongWork::new(&engine, writers.clone(), &mut parts.registry);
        let own = (&*control, work.http.clone());
        let frontend = frontend(served, own, parts.client_memory, &mut parts.registry);
        let frontend = frontend.with_tracer(traces.tracer.clone());
        let (tiers, pins) = tiers_and_pins(parts.stores, (&engine, parts.fleet.as_ref()), &locator);
        let admin = Admin {
            control: engine_control(&engine, &locator, &mounts, work.clone()),
            routes: locator.clone(),
            reload: reloader.clone(),
            tiers: Arc::new(tiers),
            pins: Arc::new(pins),
            events: events.webhooks(),
            locate: locator,
            engine: engine.clone(),
            writers,
            metrics: metrics(&engine, parts.registry),
            hosts: hosts(&config.admin.hosts),
            token,
            draining: work.draining.clone(),
        };
        let log = (&parts.event_log, parts.fleet.as_ref());
        let (endpoints, history) = console::endpoints(admin, config, &reloader, log, stop.clone());
        events.apply(prepared).await;
        let private = tidegate_admin::serve_controlled(listeners, endpoints, stop.clone());
        Ok(Self {
            engine,
            mounts,
            hooks: parts.hooks,
            public: tokio::spawn(frontend.serve_controlled(changes, work.draining.clone())),
            private: tokio::spawn(private),
            stop,
            control,
            reloader,
            events,
            fleet: parts.fleet,
            traces,
            history,
            work,
            _background: parts.background,
        })
    }

    /// Returns a function that tells of long work under way, one line for each, also while the gateway stops.
    pub(super) fn work(&self) -> impl Fn() -> Vec<String> + Send + use<> {
        let work = self.work.clone();
        move || work.lines()
    }

    /// Reads the configuration again and applies it; the result is logged.
    pub async fn reload(&self) {
        if let Err(error) = self.reloader.clone().reload().await {
            tracing::error!(%error, "the configuration was not reloaded");
        }
    }

    /// Drains, writes out pending data, calls hooks a last time, and stops; within three times `http.drain` and 21 s: 5 s
    /// each for subscriptions, fleet, hooks and the admin listener, and 1 s for traces.
    pub async fn stop(self) {
        self.work.draining.cancel();
        let deadline = self.control.drain();
        let (public, ()) = tokio::join!(self.public, self.mounts.stop(deadline));
        if let Err(error) = public {
            tracing::error!(%error, "the public listener ended badly");
        }
        self.events.stop().await;
        writing::settle(self.work.writers.as_ref(), deadline).await;
        // The others of the fleet then know that its hooks are called.
        self.hooks.stop(hooks::STOP_TIMEOUT).await;
        if let Some(fleet) = self.fleet {
            fleet.stop().await;
        }
        self.engine.close(deadline).await;
        self.traces.stop().await;
        self.stop.cancel();
        let (private, ()) = tokio::join!(self.private, self.history.written());
        if let Err(error) = private {
            tracing::error!(%error, "the admin listener ended badly");
        }
    }
}

/// Starts what has open files over the engine: the mounts and the spool. Prepares the subscriptions to events.
async fn over_engine(
    config: &Config,
    env: &Environment,
    parts: &mut GatewayParts,
    deadline: Duration,
) -> anyhow::Result<(EventParts, Mounts, Option<Writers>)> {
    let prepared = parts.events(config, env);
    let events = parts.close_on_error(deadline, prepared).await?;
    let started = mounts::start(config, env, &config.mount, parts).await;
    let (mounts, writers) = parts.close_on_error(deadline, started).await?;
    Ok((events, mounts, writers))
}

/// Returns the public frontend, and registers the metrics of its clients' memory.
fn frontend(
    (served, routes): ((Engine, Arc<WritePath>), Arc<Routes>),
    (control, metrics): (&Control, Arc<tidegate_http::Metrics>),
    client_memory: Arc<ClientMemory>,
    registry: &mut Registry,
) -> Frontend {
    client_memory.register(registry);
    Frontend::new(served, routes, control.settings(), metrics, client_memory)
}

/// Returns the operator's hold on the engine.
fn engine_control(
    engine: &Engine,
    locator: &Arc<locate::Locator>,
    mounts: &Mounts,
    work: Arc<LongWork>,
) -> Arc<EngineControl> {
    Arc::new(EngineControl {
        engine: engine.clone(),
        locate: locator.clone(),
        writers: work.writers.clone(),
        missing: Box::new(mounts.missing()),
        work: Box::new(move || work.lines()),
    })
}

/// Returns the operator's view of the stores.
fn tiers_and_pins(
    stores: Stores,
    (engine, fleet): (&Engine, Option<&FleetMember>),
    locator: &Arc<locate::Locator>,
) -> (tiers::OperatorTiers, pins::OperatorPins<locate::Locator>) {
    let tiers = tiers::OperatorTiers::new(stores.tiers.clone(), engine.clone());
    let pins = pins::OperatorPins {
        meta: stores.pins,
        tiers: stores.tiers,
        locate: locator.clone(),
        fleet: fleet.map(FleetMember::link),
    };
    (tiers, pins)
}

/// Returns the admin listener as a reload changes it.
fn live_admin(
    config: &Config,
    listener: Listener,
    token: AdminToken,
) -> (LiveAdmin, AdminListeners) {
    let address = config.admin.listen.address.clone();
    let (control, listeners) = AdminControl::new(address, listener);
    (LiveAdmin { control, token }, listeners)
}

/// Returns the control of the public frontend with these listeners, which are in the order of the configuration.
fn public_control(
    config: &Config,
    listeners: Vec<Listener>,
) -> anyhow::Result<(Arc<Control>, Changes)> {
    let mut configured = config.http.listen.0.iter();
    let address = |listener: Listener| {
        let address = match configured.next() {
            Some(one) => one.address.clone(),
            None => listener.address()?,
        };
        anyhow::Ok((address, listener))
    };
    let listeners: anyhow::Result<_> = listeners.into_iter().map(address).collect();
    let settings = settings::http(&config.http, config.cache.budget);
    Ok(Control::new(settings, listeners?))
}

/// Logs the addresses of the listeners.
fn announce(sockets: &Sockets) -> anyhow::Result<()> {
    for listener in &sockets.http {
        tracing::info!(tls = listener.has_tls(), address = %listener.address()?, "serving");
    }
    let admin = &sockets.admin;
    tracing::info!(tls = admin.has_tls(), address = %admin.address()?, "admin listener");
    Ok(())
}

/// Returns the hosts that the admin listener answers to.
fn hosts(listed: &[String]) -> tidegate_admin::hosts::Hosts {
    tidegate_admin::hosts::Hosts::new(machine_name().as_deref(), listed)
}

/// Returns the rendering of all metrics: those of the components, which are in `registry`, and of the process.
fn metrics(engine: &Engine, registry: Registry) -> Arc<dyn Fn() -> String + Send + Sync> {
    let (fetched, delivered) = (engine.clone(), engine.clone());
    let of_process =
        exposition::registry(move || fetched.traffic().0, move || delivered.traffic().1);
    let exposition = Exposition::default().with(of_process).with(registry);
    Arc::new(move || exposition.render())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_proxys_group_reaches_the_public_socket_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let mut config = Config::default();
        config.http.listen.0 = vec![Listen::Unix(path("http.sock")).into()];
        config.admin.listen = Listen::Unix(path("admin.sock")).into();
        let _sockets = Sockets::bind(&config).await.expect("free");
        let mode = |name| path(name).metadata().expect("bound").permissions().mode() & 0o777;
        assert_eq!((mode("http.sock"), mode("admin.sock")), (0o660, 0o600));
    }
}
