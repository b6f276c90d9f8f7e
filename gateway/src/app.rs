//! The composition root: the only place that names every part.
//!
//! It makes a running [`Gateway`] of a configuration: origins and stores first, the engine over them, the frontends
//! over the engine. Stopping goes the other way round: no new connections, answers in flight to their end, then the
//! engine, and the stores last, with all their pending writes.

#[cfg(feature = "demo")]
mod demonstration;
mod events;
mod gateway;
mod hooks;
mod locate;
#[cfg(all(feature = "fuse", target_os = "linux"))]
mod mounts;
#[cfg(not(all(feature = "fuse", target_os = "linux")))]
#[path = "app/mounts/none.rs"]
mod mounts;
mod operator;
mod origins;
mod parts;
mod process;
mod rehearsal;
mod reload;
mod routes;
mod settings;
mod traces;
mod writing;

use std::future::Future;

use anyhow::{Context as _, bail, ensure};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::origins::LiveOrigins;
#[cfg(target_os = "linux")]
use self::process::allocator;
use self::process::supervisor;
#[cfg(feature = "demo")]
use crate::cli::DemoArgs;
use crate::cli::{self, Actions, DoctorArgs, MountArgs};
#[cfg(feature = "demo")]
use crate::demo;
use crate::doctor;
use tidegate_config::{Config, Environment, LoadedConfig};
use tidegate_socket::InheritedSockets;

#[cfg(feature = "demo")]
pub use demonstration::start as start_demo;
pub use gateway::{Gateway, Sockets};

/// The commands that need the whole gateway.
#[derive(Debug, Clone, Copy)]
pub struct App;

impl Actions for App {
    fn rehearse(&self, config: &Config, env: &Environment) -> Vec<anyhow::Error> {
        rehearsal::rehearse(config, env)
    }

    fn serve(&self, loaded: LoadedConfig, env: &Environment) -> anyhow::Result<()> {
        log(&loaded.config.log)?;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        raise_descriptor_limit();
        let inherited = InheritedSockets::from_env().context("a socket that was handed over")?;
        run(serve(loaded, env, inherited))
    }

    fn mount(
        &self,
        loaded: LoadedConfig,
        env: &Environment,
        args: &MountArgs,
    ) -> anyhow::Result<()> {
        log(&loaded.config.log)?;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        raise_descriptor_limit();
        run(mount(&loaded.config, env, args))
    }

    #[cfg(feature = "demo")]
    fn demo(&self, args: &DemoArgs) -> anyhow::Result<()> {
        log(&tidegate_config::Log {
            level: "warn".to_owned(),
            ..tidegate_config::Log::default()
        })?;
        let options = demo::DemoOptions {
            dir: args.dir.clone(),
            port: args.port,
            admin_port: args.admin_port,
            large: args.large.0,
        };
        run(demo::run(options, start_demo))
    }

    fn doctor(
        &self,
        loaded: LoadedConfig,
        env: &Environment,
        args: &DoctorArgs,
    ) -> anyhow::Result<()> {
        log(&tidegate_config::Log {
            level: "error".to_owned(),
            ..tidegate_config::Log::default()
        })?;
        let time = args.time.into();
        ensure!(
            time >= doctor::MIN_TIME,
            "`--time` is too short: at least 100ms"
        );
        let options = doctor::DoctorOptions {
            objects: args.object.clone(),
            host: args.host.clone(),
            disks: args.disk.clone(),
            time,
            scratch: args.scratch,
            client: None,
        };
        run(examine(&loaded.config, env, &options))
    }
}

/// Measures, and prints the report.
async fn examine(
    config: &Config,
    env: &Environment,
    options: &doctor::DoctorOptions,
) -> anyhow::Result<()> {
    let metrics = tidegate_origin::Metrics::default();
    let origins = LiveOrigins::connect(config, env, &metrics).await?.all();
    let mut progress = doctor::Progress::new(std::io::stderr());
    let report = doctor::run(config, options, &origins, &mut progress).await?;
    cli::print(&format!("\n{report}"))?;
    ensure!(
        !report.lacks_named,
        "a disk or an object that you named could not be measured"
    );
    Ok(())
}

/// Runs a command to its end, and waits for no thread that outlives it: a second signal must not wait for a disk that
/// hangs.
fn run(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    allocator::set_up();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    #[cfg(target_os = "linux")]
    runtime.on_thread_start(allocator::keep_small);
    let runtime = runtime.enable_all().build();
    let runtime = runtime.context("cannot start the runtime")?;
    let done = runtime.block_on(command);
    supervisor::flush();
    runtime.shutdown_background();
    done
}

fn log(log: &tidegate_config::Log) -> anyhow::Result<()> {
    Ok(settings::logging(log).init()?)
}

/// Raises the soft limit of descriptors: each connection needs one, and the usual 1,024 is meant for `select`.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}

async fn serve(
    loaded: LoadedConfig,
    env: &Environment,
    inherited: InheritedSockets,
) -> anyhow::Result<()> {
    let mut signals = StopSignals::new()?;
    // From now on, so that a reload that comes too early does not end the process.
    let mut hangup = signal(SignalKind::hangup())?;
    let start = async {
        let sockets = Sockets::bind_beside(&loaded.config, inherited).await?;
        Gateway::start(loaded, env, sockets).await
    };
    let gateway = tokio::select! {
        gateway = start => gateway?,
        () = signals.recv() => return Ok(()),
    };
    supervisor::tell_ready();
    supervisor::tell_of_work(gateway.work());
    loop {
        tokio::select! {
            () = signals.recv() => break,
            // A further one that comes meanwhile is had next.
            _ = hangup.recv() => tokio::select! {
                () = supervisor::tell_reload(gateway.reload()) => {}
                // A reload may wait for a disk without end.
                () = signals.recv() => break,
            },
        }
    }
    tracing::info!("draining");
    supervisor::tell_stopping();
    stop_in_order(gateway.stop(), &mut signals).await
}

/// Runs one mount, and nothing else. It ends in order by a hang-up too: its terminal may close. Later hang-ups are ignored,
/// because one end of a session may send two.
async fn mount(config: &Config, env: &Environment, args: &MountArgs) -> anyhow::Result<()> {
    let (mut signals, mut hang_up) = (StopSignals::new()?, signal(SignalKind::hangup())?);
    let mount = mounts::selected(config, args)?;
    let start = mounts::SingleMount::start(config, env, mount);
    let mut single = tokio::select! {
        single = start => single?,
        () = signals.recv() => return Ok(()),
        _ = hang_up.recv() => return Ok(()),
    };
    supervisor::tell_ready();
    // What it told at the start is over.
    supervisor::tell_of_work(Vec::new);
    tokio::select! {
        () = signals.recv() => tracing::info!("unmounting"),
        _ = hang_up.recv() => tracing::info!("unmounting"),
        () = single.wait_ended() => tracing::info!("the folder was unmounted"),
    }
    supervisor::tell_stopping();
    stop_in_order(single.stop(), &mut signals).await
}

/// Stops in order, unless a second signal comes.
async fn stop_in_order(
    stop: impl Future<Output = ()>,
    signals: &mut StopSignals,
) -> anyhow::Result<()> {
    tokio::select! {
        () = stop => tracing::info!("stopped in order"),
        // After a second signal it ends at once: only pending writes are lost.
        () = signals.recv() => bail!("told twice to stop, so it did not end in order"),
    }
    Ok(())
}

/// The signals that ask for the end.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
