//! An origin whose connections pause now and then: with read-ahead, a reader notices nothing.

use std::time::Duration;

use anyhow::Result;

use crate::client::Connection;
use crate::context::{Context, progress};
use crate::measure::{Flow, median_ratio};
use crate::pattern::Pattern;
use crate::pausing_proxy::{self, PausingProxy};
use crate::peers::tidegate::Settings;
use crate::peers::{Origin, Peer};
use crate::reading::{Reading, in_parallel};
use crate::report::terminal::figure;
use crate::report::{Plot, Report, Target};

const KEY: &str = "stalls.mkv";
/// Bytes per second of the paced reader: a copied film in its best quality.
const PACE: f64 = 90e6;
const CEILING: u64 = 16;
/// The start, which is not judged.
const SETTLED: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_millis(20);

/// Reads an object of `--count` MB, paced and not.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("stalls");
    let pattern = Pattern {
        seed: context.options.seed ^ 0x57a1,
        len: context.count(1800) * 1_000_000,
    };
    progress(format!("an object of {} MB", pattern.len / 1_000_000));
    context.bucket.put(KEY, pattern.all()).await?;
    let pausing = PausingProxy::start(context.origin().addr, context.options.seed).await?;
    report.peer("origin", pausing_proxy::CONFIG);
    let origin = context.origin_behind(pausing.addr());
    paced(context, &origin, pattern, &mut report).await?;
    unpaced(context, &origin, pattern, &mut report).await?;
    Ok(report)
}

async fn paced(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<()> {
    let mut rows = vec![];
    let mut gaps =
        Plot::gaps("Waits of a reader at 90 MB/s: each point is one in which it had nothing");
    let mut rates = Plot::throughput("What a reader at 90 MB/s gets");
    for name in context.peers(&["tidegate", "rclone-8", "rclone-16", "nginx-slice-8m"]) {
        let settings = Settings::STREAM;
        let Some(peer) = context
            .start_if_there(name, origin, settings, report)
            .await?
        else {
            continue;
        };
        let flow = read(&peer, pattern, Some(PACE)).await?;
        progress(format!("paced, {name}: {:.0} MB/s", flow.rate()));
        let (long, short) = (flow.gaps(LONG, SETTLED), flow.gaps(SHORT, SETTLED));
        let share = flow.stalled_share(SETTLED);
        let figures = [flow.rate(), long as f64, short as f64, share * 100.0];
        let cells = figures.map(figure);
        rows.push([name.to_owned()].into_iter().chain(cells).collect());
        gaps.line(name, flow.waits());
        rates.line(name, flow.over_time());
        if name == "tidegate" {
            let figure = "paced at 90 MB/s: waits over 100 ms after the first 3 s";
            report.aim(figure, long as f64, Target::AtMost(0.0));
        }
    }
    let columns = [
        "peer",
        "MB/s",
        "waits over 100 ms",
        "over 20 ms",
        "stalled, % of the time",
    ];
    report.table("a reader at 90 MB/s, after its first 3 s", &columns, rows);
    report.plot(gaps);
    report.plot(rates);
    Ok(())
}

async fn unpaced(
    context: &Context,
    origin: &Origin,
    pattern: Pattern,
    report: &mut Report,
) -> Result<()> {
    let direct = Peer::direct(origin);
    let mut plot = Plot::throughput("What a reader without a pace gets");
    let (mut ceilings, mut rates) = (vec![], vec![]);
    let rounds = context.rounds(3);
    for round in 1..=rounds {
        let flows = in_parallel(direct.addr(), &direct.path(KEY), pattern, CEILING).await?;
        // The sum of the connections' own rates: one unlucky connection that ends last does not
        // lower those of the others.
        ceilings.push(flows.iter().map(Flow::rate).sum::<f64>());
        let peer = context.start("tidegate", origin, Settings::STREAM).await?;
        let flow = read(&peer, pattern, None).await?;
        let (rate, ceiling) = (flow.rate(), ceilings[ceilings.len() - 1]);
        progress(format!(
            "unpaced {round}/{rounds}: {rate:.0} of {ceiling:.0} MB/s"
        ));
        rates.push(rate);
        if round == rounds {
            plot.line("16 bare connections", Flow::together(&flows).over_time());
            plot.line("tidegate", flow.over_time());
        }
    }
    let ratio = median_ratio(&rates, &ceilings).unwrap_or(f64::NAN);
    let figure = "unpaced: MB/s over 16 bare connections likewise pausing";
    report.aim(figure, ratio, Target::AtLeast(0.97));
    report.series("16 bare connections", "MB/s", &ceilings);
    report.series("tidegate", "MB/s", &rates);
    report.plot(plot);
    Ok(())
}

async fn read(peer: &Peer, pattern: Pattern, pace: Option<f64>) -> Result<Flow> {
    let mut connection = Connection::open(peer.addr()).await?;
    let path = peer.path(KEY);
    let mut reading = Reading::whole(&path, pattern);
    reading.pace = pace;
    reading.run(&mut connection).await
}
