//! The command line: its commands, and the exit code of the process.
//!
//! Parsing and the small commands live here. The large ones, such as `serve`, `demo` and `doctor`, are passed in as
//! [`Actions`], so that this module knows nothing of the parts behind them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};

use tidegate_config::{Config, Environment, LoadError, LoadedConfig, Problems};
use tidegate_telemetry::logging;

mod args;
mod check;
mod client;
mod lines;
mod pin;
mod purge;
mod reload;
mod show;
mod sign;
mod stat;
mod top;
mod warm;

#[cfg(feature = "demo")]
pub use args::DemoArgs;
pub use args::{DoctorArgs, MountArgs, PinArgs, PurgeArgs, SignArgs, StatArgs, TopArgs, WarmArgs};

/// The configuration is wrong (`EX_CONFIG`, sysexits.h).
pub const EXIT_CONFIG: u8 = 78;

/// The time that the renewal of a file may take: a certificate and its key are two.
const RENEWAL_TIME: Duration = Duration::from_secs(1);

const EXIT_CODES: &str = "\
Exit codes:
  0   it did what was asked
  1   it could not; the message says why
  2   the command line is wrong
  78  the configuration is wrong; each line names file, line, column and key";

/// An HTTP media gateway with tiered caching in front of S3.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = EXIT_CODES, after_long_help = EXIT_CODES)]
pub struct Cli {
    /// The configuration file [default: $TIDEGATE_CONFIG, else ./tidegate.toml, else built-in]
    #[arg(long, short, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a demonstration of the gateway, with a bucket and media of its own
    ///
    /// Starts an S3 origin on loopback in a folder of its own, fills it with sample media, starts the gateway in front
    /// of it and prints commands to try. Needs nothing else. Ctrl-C ends it.
    #[cfg(feature = "demo")]
    #[command(after_long_help = EXIT_CODES)]
    Demo(DemoArgs),

    /// Serve the configured origins
    ///
    /// Runs until SIGTERM or Ctrl-C; answers in flight may then take `http.drain` to end. An origin that is down does
    /// not keep it from starting: /readyz on the admin listener says which parts are missing.
    #[command(after_long_help = EXIT_CODES)]
    Serve,

    /// Show a route's objects as files in a folder, without serving HTTP
    ///
    /// Mounts through FUSE (Linux; needs root, or fusermount3), read-only unless told otherwise, and answers until
    /// SIGTERM, Ctrl-C, or an unmount. A `[[mount]]` of this folder in the configuration has the settings; without one
    /// the defaults hold. To serve HTTP and mount on one cache, write a `[[mount]]` and run `serve`.
    #[command(after_long_help = EXIT_CODES)]
    Mount(MountArgs),

    /// Check the configuration
    ///
    /// Reads and checks everything without starting anything, reports all mistakes at once, and sums up the configured
    /// parts. Exit code 78 if there is a mistake.
    #[command(after_long_help = EXIT_CODES)]
    Check,

    /// Measure memory, cache disks and origins, and suggest settings
    ///
    /// Measures how fast memory is copied, each cache disk is written and read past the file cache, and each origin
    /// answers: the first byte, one connection, and more of them until they bring no more. Then names the bottleneck,
    /// says whether the disks help, and prints a cache section and a profile to paste. Progress goes to standard error.
    ///
    /// It never lists a bucket: name an object of 64 MiB or more with --object. Disks and the origin are kept busy
    /// meanwhile, for about 8 times --time each, and an origin may be asked for up to 1 GiB for each number of
    /// connections: do not run it if that costs too much.
    #[command(after_long_help = EXIT_CODES)]
    Doctor(DoctorArgs),

    /// Have the running gateway read its configuration again
    ///
    /// Asks it through its admin listener (`admin.listen`, `admin.token`); SIGHUP does the same. The configuration is
    /// applied whole, or not at all. Most keys change while requests are answered; keys that need a
    /// restart are named.
    #[command(after_long_help = EXIT_CODES)]
    Reload,

    /// Set a key of the running gateway, and keep it
    ///
    /// The value lies in `overrides.toml` of the state folder, over the configuration file and under the environment. It
    /// is checked with the whole configuration, and applied as by `reload`. `check` lists such keys, `unset` undoes one.
    #[command(after_long_help = EXIT_CODES)]
    Set {
        /// The key, such as `cache.memory`, `profile.web.ttl` or `route[/media/].profile`
        #[arg(value_name = "KEY")]
        key: String,

        /// The value, as text or TOML
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: String,
    },

    /// Undo a `set`: the configuration file's value holds again
    #[command(after_long_help = EXIT_CODES)]
    Unset {
        /// The key, as `check` lists it
        #[arg(value_name = "KEY")]
        key: String,
    },

    /// Remove an object, or everything below a path, from the cache
    ///
    /// Asks the running gateway through its admin listener (`admin.listen`, `admin.token`). When it returns, no older
    /// cached bytes are served any more, also after a restart. With --soft they are served while they are confirmed.
    #[command(after_long_help = EXIT_CODES)]
    Purge(PurgeArgs),

    /// Show what is cached of an object: its version, its freshness, and which bytes are in which tier
    ///
    /// Asks the running gateway through its admin listener (`admin.listen`); no token is needed, and the origin is not
    /// asked.
    #[command(after_long_help = EXIT_CODES)]
    Stat(StatArgs),

    /// Watch the running gateway: requests, streams, objects, tiers, origins, writes and settings
    ///
    /// Asks it through its admin listener (`admin.listen`, `admin.token`). Keys: Tab chooses a pane, s sorts, / filters, ? lists
    /// the others. With --once, with --json, or into a pipe, it prints one look and ends.
    #[command(after_long_help = EXIT_CODES)]
    Top(TopArgs),

    /// Keep objects below a path from eviction on the cache disks, up to a limit
    ///
    /// Asks the running gateway through its admin listener (`admin.listen`, `admin.token`). Objects that are cached or
    /// read there from then on stay until the pin is removed; `tidegate warm` fetches them. All pins together keep no
    /// more than half of each disk. Restarts do not change it.
    #[command(after_long_help = EXIT_CODES)]
    Pin(PinArgs),

    /// Fetch objects into the cache ahead of use
    ///
    /// Warms the objects below PATH in the bucket, or the paths of a list. Asks the running gateway through its admin
    /// listener (`admin.listen`, `admin.token`), which reads behind all requests that a reader waits for, into the
    /// tiers that the profile names; if it says `disk = "second"`, to disk at once. Cached bytes are skipped, so that
    /// it can be run again at any time.
    #[command(after_long_help = EXIT_CODES)]
    Warm(WarmArgs),

    /// Print a link to PATH that expires
    ///
    /// Makes it with the keys in `signed` of the access of PATH's route; the gateway need not run. The link is for one
    /// object. With --prefix it opens all below a folder: the first line is the link to the folder, in which relative
    /// links work, and the second one the cookie that does the same. With --presigned it is a presigned URL of AWS
    /// Signature Version 4.
    #[command(after_long_help = EXIT_CODES)]
    Sign(SignArgs),

    /// Print completions for a shell
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },

    /// Print the manual page
    #[command(hide = true)]
    Man,

    /// Print the JSON schema of the configuration, for editors
    #[command(hide = true)]
    Schema,

    /// Print all settings, as a page
    #[command(hide = true)]
    ConfigReference {
        /// As an example file instead.
        #[arg(long)]
        toml: bool,
    },
}

/// The commands that need the whole gateway.
pub trait Actions {
    /// Prepares each part of a configuration as a start does, without its effects. Returns the errors, in words that name the
    /// part.
    fn rehearse(&self, config: &Config, env: &Environment) -> Vec<anyhow::Error>;

    /// Serves until it is told to stop.
    ///
    /// # Errors
    /// If it cannot start, or not go on.
    fn serve(&self, loaded: LoadedConfig, env: &Environment) -> anyhow::Result<()>;

    /// Mounts until it is told to stop, or an operator unmounts.
    ///
    /// # Errors
    /// If it cannot mount, or not go on.
    fn mount(
        &self,
        loaded: LoadedConfig,
        env: &Environment,
        args: &MountArgs,
    ) -> anyhow::Result<()>;

    /// Runs the demonstration, until it is told to stop.
    ///
    /// # Errors
    /// If it cannot start, or not go on.
    #[cfg(feature = "demo")]
    fn demo(&self, args: &DemoArgs) -> anyhow::Result<()>;

    /// Measures the parts, and prints the report.
    ///
    /// # Errors
    /// If it cannot begin. Parts that cannot be measured are named in the report.
    fn doctor(
        &self,
        loaded: LoadedConfig,
        env: &Environment,
        args: &DoctorArgs,
    ) -> anyhow::Result<()>;
}

/// Reads the process's command line, runs the command, and returns the exit code.
#[must_use]
pub fn main(actions: &impl Actions) -> ExitCode {
    // Ends the process itself on `--help`, `--version` and mistakes.
    let cli = Cli::parse();
    ExitCode::from(run(&cli, &Environment::of_process(), actions))
}

/// Writes text to standard output. A reader that stops early (`tidegate … | head`) is no error.
///
/// # Errors
/// If it cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    show::print(text)
}

/// Runs the command; returns the exit code.
#[must_use]
pub fn run(cli: &Cli, env: &Environment, actions: &impl Actions) -> u8 {
    let done = dispatch(cli, env, actions);
    let code = done.map_or_else(|error| report(&error), |()| 0);
    logging::flush();
    code
}

/// Reports the error that ended a command; returns the exit code.
fn report(error: &anyhow::Error) -> u8 {
    let of_config = error.is::<LoadError>() || error.is::<Problems>();
    if of_config {
        // One line each, in a form that editors can jump to.
        logging::print(&error.to_string());
        return EXIT_CONFIG;
    }
    logging::print(&format!("tidegate: {error:#}"));
    1
}

/// Reads the configuration for a command that only asks the gateway. Wrong overrides are a warning: `unset` is to undo them.
fn load_to_ask(file: Option<&Path>, env: &Environment) -> Result<LoadedConfig, LoadError> {
    let (loaded, warning) = tidegate_config::load_to_ask(file, env)?;
    if let Some(warning) = warning {
        logging::print(&format!("warning: {warning}"));
    }
    Ok(loaded)
}

fn dispatch(cli: &Cli, env: &Environment, actions: &impl Actions) -> anyhow::Result<()> {
    let load = || tidegate_config::load(cli.config.as_deref(), env);
    let load_to_ask = || load_to_ask(cli.config.as_deref(), env);
    match &cli.command {
        #[cfg(feature = "demo")]
        Command::Demo(args) => actions.demo(args),
        Command::Serve => {
            let loaded = load()?;
            let rehearsed = || check::warnings(&loaded, env, actions);
            // The start ends over what is missing. A file that is wrong may be in the middle of its renewal.
            if rehearsed().is_err() {
                std::thread::sleep(RENEWAL_TIME);
                rehearsed()?;
            }
            actions.serve(loaded, env)
        }
        Command::Mount(args) => {
            let loaded = load()?;
            loaded.config.require_origin()?;
            actions.mount(loaded, env, args)
        }
        Command::Doctor(args) => actions.doctor(load()?, env, args),
        Command::Check => show::print(&check::summary(&load()?, env, actions)?),
        Command::Reload => show::print(&reload::reload(&load_to_ask()?.config, env)?),
        Command::Set { key, value } => {
            show::print(&reload::set(&load_to_ask()?.config, env, key, Some(value))?)
        }
        Command::Unset { key } => {
            show::print(&reload::set(&load_to_ask()?.config, env, key, None)?)
        }
        Command::Purge(args) => show::print(&purge::purge(&load_to_ask()?.config, env, args)?),
        Command::Pin(args) => show::print(&pin::pin(&load_to_ask()?.config, env, args)?),
        Command::Stat(args) => show::print(&stat::stat(&load_to_ask()?.config, args)?),
        Command::Top(args) => show::print(&top::top(&load_to_ask()?.config, env, args)?),
        Command::Warm(args) => show::print(&warm::warm(&load_to_ask()?.config, env, args)?),
        Command::Sign(args) => show::print(&sign::sign(&load()?.config, env, args)?),
        Command::Completions { shell } => show::completions(*shell, Cli::command()),
        Command::Man => show::manual(Cli::command()),
        Command::Schema => show::print(&tidegate_config::reference::schema()),
        Command::ConfigReference { toml: true } => show::print(&tidegate_config::reference::toml()),
        Command::ConfigReference { toml: false } => {
            show::print(&tidegate_config::reference::page())
        }
    }
}

#[cfg(test)]
mod tests;
