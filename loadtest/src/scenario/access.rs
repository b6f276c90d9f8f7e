//! Hits on private and limited routes: their CPU over that of the open route, by each way in; and what the first
//! verification of a credential takes.
//!
//! All routes lead to one object, in one process: the luck of a start is the same for all. The ways are measured in turn.

use anyhow::{Result, ensure};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{median, median_ratio, turns};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::{Home, Settings, Until};
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::wrk::{self, Load};

mod first;
mod signer;
mod ways;

use signer::Signer;
use ways::Way;

/// The object, as long as a photograph on a web page.
const KEY: &str = "photograph.jpg";
const LEN: u64 = 35 << 10;

/// Clients at a time.
const CONNECTIONS: u32 = 64;

/// The number of checked reads before and after each run: wrk does not check bytes.
const CHECKED_READS: usize = 8;

/// Measures hits by each way over several starts, and first verifications.
///
/// # Errors
/// If it could not be carried out, or an answer is wrong.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("access");
    let pattern = Pattern {
        seed: context.options.seed ^ LEN,
        len: LEN,
    };
    context.bucket.put(KEY, pattern.all()).await?;
    let signer = Signer::new()?;
    let rounds = context.options.rounds.unwrap_or(5);
    let mut cpu: Vec<(&'static str, Vec<f64>)> = vec![];
    let mut first: Vec<(&'static str, Vec<f64>)> = vec![];
    for round in 0..rounds {
        progress(format!("start {}/{rounds}", round + 1));
        let peer = start(context, &signer).await?;
        report.peer(peer.name(), peer.config());
        let ways = ways::all(&signer, &peer).await?;
        check_refusals(&peer, &ways).await?;
        // The order changes, so that after-effects of one way fall on all alike.
        for way in turns(&ways, round) {
            let micros = measure(context, &peer, &way, pattern).await?;
            progress(format!("   {}: {micros:.1} µs", way.name));
            add(&mut cpu, way.name, micros);
        }
        for (name, micros) in first::measure(context, &signer, &peer, pattern).await? {
            add(&mut first, name, micros);
        }
    }
    report_hits(&mut report, &cpu);
    first::report(&mut report, &first);
    Ok(report)
}

fn add(all: &mut Vec<(&'static str, Vec<f64>)>, name: &'static str, figure: f64) {
    match all.iter_mut().find(|(own, _)| *own == name) {
        Some((_, figures)) => figures.push(figure),
        None => all.push((name, vec![figure])),
    }
}

/// Starts a gateway with all routes, and its keys beside its configuration.
async fn start(context: &Context, signer: &Signer) -> Result<Peer> {
    let dir = tempfile::tempdir_in(context.dir())?.keep();
    let settings = Settings {
        profile: "ttl = \"1h\"\n",
        sections: ways::SECTIONS,
        ..Settings::WEB
    };
    std::fs::write(dir.join(ways::KEY_SET), signer.key_set())?;
    Home::new(dir, context.origin(), settings)
        .start(Until::Ready)
        .await
}

/// Makes sure that a private route refuses the same request without its credential: else nothing was measured.
async fn check_refusals(peer: &Peer, ways: &[Way]) -> Result<()> {
    let mut connection = Connection::open(peer.addr()).await?;
    for way in ways.iter().filter(|way| way.is_private()) {
        let (answer, _) = connection.get(&way.without_credential(), &[]).await?;
        let status = answer.head.status.as_u16();
        ensure!(matches!(status, 401 | 403), "{}: status {status}", way.name);
    }
    Ok(())
}

/// Returns the CPU time of a hit, in microseconds.
async fn measure(context: &Context, peer: &Peer, way: &Way, pattern: Pattern) -> Result<f64> {
    let load = Load {
        connections: CONNECTIONS,
        keep_alive: true,
        seconds: context.options.seconds.unwrap_or(3),
    };
    let header = way.header();
    read_checked(peer, way, pattern).await?;
    let before = peer.usage()?;
    let found = wrk::run_with(peer.addr(), &way.target, header, load).await?;
    let cpu = peer.usage()?.cpu.saturating_sub(before.cpu);
    read_checked(peer, way, pattern).await?;
    ensure!(found.requests > 0, "{}: no answer", way.name);
    Ok(cpu.as_secs_f64() * 1e6 / found.requests as f64)
}

async fn read_checked(peer: &Peer, way: &Way, pattern: Pattern) -> Result<()> {
    let mut connection = Connection::open(peer.addr()).await?;
    let headers: Vec<_> = way.header().into_iter().collect();
    for _ in 0..CHECKED_READS {
        let read = connection.verify_with(&way.target, &headers, pattern);
        read.await?;
    }
    Ok(())
}

fn report_hits(report: &mut Report, cpu: &[(&'static str, Vec<f64>)]) {
    let of = |name: &str| cpu.iter().find(|(own, _)| *own == name);
    let Some((_, open)) = of(ways::OPEN) else {
        return;
    };
    let mut rows = vec![];
    for (name, figures) in cpu {
        let middle = median(figures).map_or_else(|| "-".to_owned(), figure);
        let ratio = median_ratio(figures, open).unwrap_or(f64::NAN);
        rows.push(vec![(*name).to_owned(), middle, figure(ratio)]);
        report.series(name, "CPU µs a request", figures);
        if let Some(most) = ways::target(name) {
            let check = format!("{name}: CPU a request over the open route's");
            report.aim(check, ratio, Target::AtMost(most));
        }
    }
    let title = format!("hits of 35 KB: medians of {} starts", open.len());
    report.table(title, &["way in", "CPU µs/request", "over open"], rows);
}
