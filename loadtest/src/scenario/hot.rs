//! A hot object at full speed: `wrk -t2 -c64` at one peer after the other, in alternating rounds.
//! nginx serves the same bytes from a local file.

use anyhow::{Result, ensure};

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{median, median_ratio};
use crate::pattern::Pattern;
use crate::peers::Peer;
use crate::peers::tidegate::Settings;
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::wrk;

const KEY: &str = "hot.bin";
/// The number of checked reads before and after each run: wrk does not check bytes.
const CHECKED_READS: usize = 8;

/// The figures of one peer, in the order of the rounds.
#[derive(Debug)]
struct Measured {
    peer: Peer,
    rates: Vec<f64>,
    cpu_micros: Vec<f64>,
}

/// Measures objects of `len` bytes.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context, name: &str, len: u64) -> Result<Report> {
    let mut report = Report::new(name);
    let pattern = Pattern {
        seed: context.options.seed ^ len,
        len,
    };
    let mut all = start_peers(context, pattern, &mut report).await?;
    let rounds = context.options.rounds.unwrap_or(7);
    let seconds = context.options.seconds.unwrap_or(5);
    for round in 1..=rounds {
        // The order changes, so that after-effects of one peer fall on all alike.
        all.rotate_left(1);
        for measured in &mut all {
            one_round(measured, pattern, seconds).await?;
            let rate = measured.rates.last().copied().unwrap_or_default();
            progress(format!(
                "round {round}/{rounds}: {} {rate:.0}/s",
                measured.peer.name()
            ));
        }
    }
    write(&mut report, &all, len);
    Ok(report)
}

async fn start_peers(
    context: &Context,
    pattern: Pattern,
    report: &mut Report,
) -> Result<Vec<Measured>> {
    context.bucket.put(KEY, pattern.all()).await?;
    std::fs::write(context.files()?.join(KEY), pattern.all())?;
    let mut peers = vec![];
    for name in context.peers(&["tidegate", "nginx", "rclone", "rclone-full"]) {
        let settings = Settings::default();
        peers.extend(
            context
                .start_if_there(name, &context.origin(), settings, report)
                .await?,
        );
    }
    Ok(peers
        .into_iter()
        .map(|peer| Measured {
            peer,
            rates: vec![],
            cpu_micros: vec![],
        })
        .collect())
}

async fn one_round(measured: &mut Measured, pattern: Pattern, seconds: u64) -> Result<()> {
    let peer = &measured.peer;
    checked_pass(peer, pattern).await?;
    let before = peer.usage()?;
    let found = wrk::run(peer.addr(), &peer.path(KEY), seconds).await?;
    let cpu = peer.usage()?.cpu.saturating_sub(before.cpu);
    checked_pass(peer, pattern).await?;
    ensure!(found.requests > 0, "{} answered nothing", peer.name());
    measured.rates.push(found.rate);
    measured
        .cpu_micros
        .push(cpu.as_secs_f64() * 1e6 / found.requests as f64);
    Ok(())
}

async fn checked_pass(peer: &Peer, pattern: Pattern) -> Result<()> {
    let mut connection = Connection::open(peer.addr()).await?;
    for _ in 0..CHECKED_READS {
        connection.verify(&peer.path(KEY), pattern).await?;
    }
    Ok(())
}

fn write(report: &mut Report, all: &[Measured], len: u64) {
    let named = |name: &str| all.iter().find(|measured| measured.peer.name() == name);
    let nginx = named("nginx");
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
    let rows = all.iter().map(|one| {
        let over = |of: fn(&Measured) -> &Vec<f64>| {
            number(nginx.and_then(|nginx| median_ratio(of(one), of(nginx))))
        };
        vec![
            one.peer.name().to_owned(),
            number(median(&one.rates)),
            over(|one| &one.rates),
            number(median(&one.cpu_micros)),
            over(|one| &one.cpu_micros),
        ]
    });
    let title = format!(
        "{len} bytes, hot, wrk -t2 -c64, medians of {} rounds",
        all[0].rates.len()
    );
    let columns = [
        "peer",
        "requests/s",
        "over nginx",
        "CPU µs/request",
        "over nginx",
    ];
    report.table(title, &columns, rows.collect());
    for one in all {
        report.series(one.peer.name(), "requests/s", &one.rates);
        report.series(one.peer.name(), "server CPU µs/request", &one.cpu_micros);
    }
    let large = len > 100_000;
    let Some(tidegate) = named("tidegate") else {
        return;
    };
    for (peer, target) in [
        ("nginx", if large { 0.95 } else { 0.97 }),
        ("rclone", if large { 12.0 } else { 35.0 }),
    ] {
        if let Some(peer) = named(peer) {
            let ratio = median_ratio(&tidegate.rates, &peer.rates).unwrap_or(f64::NAN);
            let figure = format!("requests/s, tidegate over {}", peer.peer.name());
            report.aim(figure, ratio, Target::AtLeast(target));
        }
    }
    if let Some(nginx) = nginx {
        let ratio = median_ratio(&tidegate.cpu_micros, &nginx.cpu_micros).unwrap_or(f64::NAN);
        let most = if large { 0.9 } else { 1.0 };
        let figure = "CPU per request, tidegate over nginx";
        report.aim(figure, ratio, Target::AtMost(most));
    }
}
