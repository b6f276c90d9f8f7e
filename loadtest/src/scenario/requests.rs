//! The requests to the bucket by kind, with bytes both ways and the price. The cases are a photo uploaded as WordPress
//! does, a day of an audiobook library, the same library cold, and a scan of a tree. Tidegate runs on the shipped
//! recipes, beside common other mounts.

use anyhow::Result;

use crate::context::{Context, progress};
use crate::pattern::Pattern;
use crate::report::{Report, Target, Weight};

mod causes;
mod files;
mod library;
mod photos;
mod places;
mod price;
mod run;
mod tree;

use files::Folder;
use places::{Kind, Recipe};
use run::Run;

/// The photos uploaded in a full run.
const PHOTOS: u64 = 20;

/// A program's action on a mount, with a row of its own in the report.
struct Step {
    name: &'static str,
    /// The action on the mount's folder; the number is the run's count.
    act: fn(&Folder, u64) -> Result<()>,
}

const fn step(name: &'static str, act: fn(&Folder, u64) -> Result<()>) -> Step {
    Step { name, act }
}

/// A sequence of steps for each mount, from an empty cache.
struct Play {
    title: &'static str,
    recipe: Recipe,
    /// The bucket's contents before the play.
    before: fn(u64) -> Vec<(String, Pattern)>,
    steps: &'static [Step],
    /// The expected contents of the bucket afterwards.
    after: fn(u64) -> Vec<(String, Pattern)>,
    targets: &'static [RequestBound],
}

/// The most requests or bytes of one kind that Tidegate may need.
struct RequestBound {
    what: &'static str,
    of: fn(&Run) -> f64,
    most: f64,
    weight: Weight,
    /// The only mount that it is a bound for, if it is not one for all.
    only: Option<Kind>,
}

impl RequestBound {
    /// Returns a bound for this mount alone.
    const fn only_for(self, kind: Kind) -> Self {
        Self {
            only: Some(kind),
            ..self
        }
    }
}

/// Returns a bound that holds on any machine: the run fails above it.
const fn most(what: &'static str, of: fn(&Run) -> f64, most: f64) -> RequestBound {
    RequestBound {
        what,
        of,
        most,
        weight: Weight::Correctness,
        only: None,
    }
}

/// Returns a bound that is not reached yet: the report only shows the miss.
const fn aim(what: &'static str, of: fn(&Run) -> f64, most: f64) -> RequestBound {
    RequestBound {
        what,
        of,
        most,
        weight: Weight::Speed,
        only: None,
    }
}

const PLAYS: [&Play; 4] = [&photos::UPLOAD, &library::DAY, &library::COLD, &tree::SCAN];

/// Plays everything on each mount, with `--count` photos and 20 times as many files of a tree.
///
/// # Errors
/// If it could not be carried out, or Tidegate fails at a step.
pub async fn run(context: &Context) -> Result<Report> {
    let mut report = Report::new("requests");
    let count = context.count(PHOTOS);
    for play in PLAYS {
        let mut runs = vec![];
        for kind in Kind::ALL {
            if !context.takes_part(kind.name()) {
                continue;
            }
            progress(format!("{}: {}", play.title, kind.name()));
            let found = run::play(context, play, kind, count, &mut report).await;
            match found {
                Ok(Some(run)) => runs.push(run),
                Ok(None) => leave_out(&mut report, kind, "it is not installed"),
                Err(error) if !kind.is_ours() => {
                    leave_out(&mut report, kind, &format!("{error:#}"));
                }
                Err(error) => return Err(error.context(kind.name())),
            }
        }
        run::tables(play, &runs, &mut report);
        judge(play, &runs, &mut report);
    }
    report.notes.push(price::SOURCE.to_owned());
    report.notes.push(causes::MEANINGS.to_owned());
    Ok(report)
}

fn leave_out(report: &mut Report, kind: Kind, why: &str) {
    let note = format!("{} left out: {why}", kind.name());
    if !report.notes.contains(&note) {
        report.notes.push(note);
    }
}

/// Compares Tidegate with the targets. Wrong objects in the bucket fail the run, and so do more requests than the bounds
/// allow: they do not depend on the machine.
fn judge(play: &Play, runs: &[Run], report: &mut Report) {
    for run in runs.iter().filter(|run| run.kind.is_ours()) {
        let place = format!("{}, {}", play.title, run.kind.name());
        report.must(
            format!("{place}: objects that are not what was written"),
            run.wrong as f64,
            Target::AtMost(0.0),
        );
        for bound in play
            .targets
            .iter()
            .filter(|one| one.only.is_none_or(|kind| kind == run.kind))
        {
            let (what, found) = (format!("{place}: {}", bound.what), (bound.of)(run));
            report.check(what, found, Target::AtMost(bound.most), bound.weight);
        }
    }
}
