//! The command line of the load test.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};
use tikv_jemallocator::Jemalloc;
use tokio::signal::unix::{SignalKind, signal};

use loadtest::bare;
use loadtest::bare::disk::SendMethod;
use loadtest::context::Options;
use loadtest::report::terminal::render;
use loadtest::report::{self, Report};
use loadtest::scenario::{self, Scenario};

/// The gateway's allocator: the bare handlers differ from it in nothing that is not theirs.
#[global_allocator]
static GLOBAL: Jemalloc = Jemalloc;

/// Measures tidegate beside its peers, in one run, on this machine.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List the scenarios.
    List,
    /// Run scenarios, print their results, and fail if anything was wrong.
    Run(Run),
    /// Install the peers through package managers.
    Setup,
    /// Serve files out of memory: the peer `bare`.
    #[command(hide = true)]
    Bare(BareArgs),
    /// Serve files out of memory with a runtime for each processor: the peer `bare-per-core`.
    #[command(hide = true)]
    BarePerCore(BareArgs),
    /// Serve files from their disk: the floor of disk hits.
    #[command(hide = true)]
    BareDisk {
        #[command(flatten)]
        args: BareArgs,
        #[arg(value_enum)]
        method: SendMethod,
    },
}

#[derive(Debug, Args)]
struct BareArgs {
    /// The address to listen on.
    addr: SocketAddr,
    /// The folder of the files.
    root: PathBuf,
}

#[derive(Debug, Args)]
struct Run {
    /// Names from `list`, or `all`.
    #[arg(required = true)]
    scenarios: Vec<String>,
    /// The peers to measure, instead of the scenario's own.
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// The directory for each scenario's figures as JSON, and for a page with all of them,
    /// `report.html`.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Alternating rounds, for scenarios that have some.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// The amount of work; `list` shows each scenario's unit and the amount of a full run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// The seconds that each measurement of requests per second takes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// The seed of all random choices: runs with the same seed make the same choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Task::List => {
            list();
            Ok(ExitCode::SUCCESS)
        }
        Task::Run(run) => run_all(run).await,
        Task::Setup => setup(),
        Task::Bare(BareArgs { addr, root }) => {
            bare::serve(addr, &root).await?;
            Ok(ExitCode::SUCCESS)
        }
        Task::BarePerCore(BareArgs { addr, root }) => {
            bare::serve_per_core(addr, &root)?;
            Ok(ExitCode::SUCCESS)
        }
        Task::BareDisk { args, method } => {
            bare::disk::serve(args.addr, &args.root, method)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn list() {
    for Scenario {
        name, about, count, ..
    } in scenario::ALL
    {
        println!("{name:<14} {about}");
        if !count.is_empty() {
            println!("{:<14} --count: {count}", "");
        }
    }
}

async fn run_all(run: Run) -> Result<ExitCode> {
    let chosen = choose(&run.scenarios)?;
    let options = Options {
        peers: run.peers,
        rounds: run.rounds,
        count: run.count,
        seconds: run.seconds,
        seed: run.seed,
    };
    let mut reports = vec![];
    for scenario in chosen {
        eprintln!("== {}: {}", scenario.name, scenario.about);
        // Mounts, devices and processes of a scenario end with it, also on a signal.
        let report = tokio::select! {
            report = scenario.run(options.clone()) => report.context(scenario.name)?,
            signal = told_to_end() => bail!("{}: {}", scenario.name, signal?),
        };
        print!("{}", render(&report));
        if let Some(dir) = &run.report {
            eprintln!("   written to {}", report.write_json(dir)?.display());
        }
        reports.push(report);
        // After each scenario, so that an interrupted run keeps its results.
        if let Some(dir) = &run.report {
            let page = report::write_html(&reports, dir)?;
            eprintln!("   and to {}", page.display());
        }
    }
    Ok(if reports.iter().all(Report::is_right) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits for SIGINT or SIGTERM.
async fn told_to_end() -> Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            Ok("interrupted")
        }
        _ = terminate.recv() => Ok("told to end"),
    }
}

fn choose(names: &[String]) -> Result<Vec<&'static Scenario>> {
    if names.iter().any(|name| name == "all") {
        return Ok(scenario::ALL.iter().collect());
    }
    let find = |name: &String| match scenario::find(name) {
        Some(scenario) => Ok(scenario),
        None => bail!("no scenario `{name}`; `loadtest list` says which there are"),
    };
    names.iter().map(find).collect()
}

/// Runs the script `setup` beside this crate.
fn setup() -> Result<ExitCode> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("setup");
    let status = Command::new("bash")
        .arg(&script)
        .status()
        .context("cannot start bash")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
