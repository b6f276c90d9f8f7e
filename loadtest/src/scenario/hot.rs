//! Hot objects at full speed: `wrk` at one peer after the other, each freshly started, in alternating rounds.
//!
//! A process keeps the luck of its start: where its memory lies, and the state of the machine. So one start is not a
//! measurement. The figures are medians over the starts, of ratios within a round, and the worst of them.

use anyhow::Result;

use crate::context::{Context, progress};
use crate::measure::turns;
use crate::report::{Report, Target};

mod case;
mod figures;

use case::Case;
use figures::Figures;

/// Clients at a time in the usual case, and in the crowded one.
const USUAL: u32 = 64;
const CROWDED: u32 = 1000;

/// A way to measure: its peers, the references among them, and its cases.
struct Plan {
    peers: &'static [&'static str],
    /// The measured peers: their figures have targets.
    own: &'static [&'static str],
    /// The peer that all figures are divided by.
    over: &'static str,
    cases: Vec<Case>,
    targets: fn(&mut Report, &Figures, &Case),
}

/// Measures hits of each size, with many connections, and with a connection for each request. nginx serves the same
/// bytes from a local file, `bare` from memory.
///
/// # Errors
/// If it could not be carried out, or a peer answers wrong bytes.
pub async fn direct(context: &Context) -> Result<Report> {
    let mut cases = [4, 35, 51, 468, 8192]
        .map(|kib| Case::new(kib, USUAL))
        .to_vec();
    cases.extend([35, 468].map(|kib| Case::new(kib, CROWDED)));
    cases.extend([35, 468].map(|kib| Case::new(kib, USUAL).without_keep_alive()));
    let plan = Plan {
        peers: &[
            "tidegate",
            "nginx",
            "bare",
            "varnish",
            "nginx-cache",
            "rclone",
        ],
        own: &["tidegate"],
        over: "nginx",
        cases,
        targets: direct_targets,
    };
    run(context, Report::new("hot"), plan).await
}

/// Measures hits behind nginx, the way to WordPress's visitors: nginx before Tidegate by the shipped recipe, before a
/// second nginx, its own cache and its own files.
///
/// # Errors
/// As of [`direct`].
pub async fn proxied(context: &Context) -> Result<Report> {
    let plan = Plan {
        peers: &[
            "nginx-tidegate",
            "nginx-tidegate-unix",
            "nginx-nginx",
            "nginx-nginx-unix",
            "nginx-bare",
            "nginx-cache",
            "nginx",
        ],
        own: &["nginx-tidegate", "nginx-tidegate-unix"],
        over: "nginx-nginx",
        cases: [35, 468].map(|kib| Case::new(kib, USUAL)).to_vec(),
        targets: proxied_targets,
    };
    run(context, Report::new("hot-proxied"), plan).await
}

async fn run(context: &Context, mut report: Report, mut plan: Plan) -> Result<Report> {
    if let Some(kib) = context.options.count {
        plan.cases.retain(|case| case.kib == kib);
        if plan.cases.is_empty() {
            plan.cases.push(Case::new(kib, USUAL));
        }
    }
    for case in &plan.cases {
        case.put(context).await?;
    }
    let mut figures = Figures::default();
    let mut peers = context.peers(plan.peers);
    let rounds = context.rounds(5);
    for round in 0..rounds {
        // All of them first: the sides of a ratio are then measured within seconds, for the machine's speed changes.
        let mut started = vec![];
        // The order changes, so that after-effects of one peer fall on all alike.
        for name in turns(&peers.clone(), round) {
            progress(format!("start {}/{rounds}: {name}", round + 1));
            let origin = context.origin();
            let settings = crate::peers::tidegate::Settings::WEB;
            let peer = context.start_if_there(name, &origin, settings, &mut report);
            match peer.await? {
                Some(peer) => started.push(peer),
                None => peers.retain(|other| *other != name),
            }
        }
        for case in &plan.cases {
            for peer in &started {
                let name = peer.name();
                let found = match case.measure(peer, context).await {
                    // A reference that gives up ends no run of hours; ours does.
                    Err(error) if !plan.own.contains(&name) => {
                        let note =
                            format!("{name} gave up in start {}, {case}: {error:#}", round + 1);
                        progress(&note);
                        report.notes.push(note);
                        continue;
                    }
                    found => found?,
                };
                progress(format!(
                    "   {name}, {case}: {:.0}/s, {:.1} µs",
                    found.rate, found.cpu_micros
                ));
                figures.add(name, (case, round), found);
            }
        }
    }
    for case in &plan.cases {
        figures.report(&mut report, case, &peers, plan.over);
        if plan.own.iter().any(|own| peers.contains(own)) {
            (plan.targets)(&mut report, &figures, case);
        }
    }
    Ok(report)
}

fn direct_targets(report: &mut Report, figures: &Figures, case: &Case) {
    let own = figures.of("tidegate", case);
    if let Some(nginx) = figures.of("nginx", case)
        && let Some(own) = own
    {
        let figure = format!("{case}: requests/s over nginx");
        report.aim(figure, own.rate_over(nginx), Target::AtLeast(1.0));
        let figure = format!("{case}: CPU a request over nginx");
        report.aim(figure, own.cpu_over(nginx), Target::AtMost(1.0));
    }
    let large = case.kib > 100;
    for (peer, least) in [
        ("varnish", if large { 1.0 } else { 1.1 }),
        ("rclone", if large { 12.0 } else { 35.0 }),
    ] {
        if let Some(other) = figures.of(peer, case)
            && let Some(own) = own
        {
            let figure = format!("{case}: requests/s over {peer}");
            report.aim(figure, own.rate_over(other), Target::AtLeast(least));
        }
    }
    if let Some(bare) = figures.of("bare", case)
        && let Some(own) = own
    {
        let figure = format!("{case}: requests/s over bare, the worst start");
        report.aim(figure, own.worst_rate_over(bare), Target::AtLeast(0.95));
    }
}

fn proxied_targets(report: &mut Report, figures: &Figures, case: &Case) {
    for (own, other) in [
        ("nginx-tidegate", "nginx-nginx"),
        ("nginx-tidegate-unix", "nginx-nginx-unix"),
    ] {
        if let Some(found) = figures.of(own, case)
            && let Some(other) = figures.of(other, case)
        {
            let figure = format!("{case}: {own}, requests/s over a second nginx");
            report.aim(figure, found.rate_over(other), Target::AtLeast(0.95));
        }
    }
}
