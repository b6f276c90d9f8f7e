//! A play on one mount, and its results.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::causes::Causes;
use super::places::{Kind, Place, bucket_name};
use super::{Play, price};
use crate::bucket::Bucket;
use crate::context::Context;
use crate::late::{LateCounts, sends_all};
use crate::pattern::Pattern;
use crate::report::Report;
use crate::report::terminal::figure;
use crate::tally::RequestCounts;

/// The time without requests after which a mount counts as done: ours, which tells when all is sent, and others, which begin
/// to upload after a while.
const OURS: Duration = Duration::from_secs(1);
const OTHERS: Duration = Duration::from_secs(7);

/// The cost of a play on a mount.
pub(super) struct Run {
    pub(super) kind: Kind,
    pub(super) count: u64,
    pub(super) asked: RequestCounts,
    /// Of these, the requests that Tidegate sent because something was late.
    pub(super) late: LateCounts,
    /// Objects that are missing, unexpected, or different from the written ones.
    pub(super) wrong: usize,
    seconds: f64,
    steps: Vec<RunStep>,
    failed: Option<String>,
}

/// The cost of one step.
struct RunStep {
    name: &'static str,
    seconds: f64,
    asked: RequestCounts,
    late: LateCounts,
    /// `None`: the mount is not Tidegate's.
    causes: Option<Causes>,
}

/// Plays on one mount; returns `None` if the mount is not installed.
pub(super) async fn play(
    context: &Context,
    play: &Play,
    kind: Kind,
    count: u64,
    report: &mut Report,
) -> Result<Option<Run>> {
    let name = bucket_name(play.title, kind);
    let bucket = Bucket::create(context.origin().addr, &name).await?;
    bucket.put_all((play.before)(count)).await?;
    let Some(place) = Place::start(context, kind, play.recipe, bucket).await? else {
        return Ok(None);
    };
    report.peer(
        &format!("{}, {:?}", kind.name(), play.recipe),
        &place.config,
    );
    let quiet = if kind.is_ours() { OURS } else { OTHERS };
    let start = place.tally.settled().await;
    let first = LateCounts::of(place.admin).await?;
    let (mut steps, mut failed, mut before, mut late) = (vec![], None, start, first);
    let mut causes = place.causes().await?;
    for step in play.steps {
        let (folder, act, begun) = (place.folder.clone(), step.act, Instant::now());
        let done = tokio::task::spawn_blocking(move || act(&folder, count)).await?;
        let took = begun.elapsed().as_secs_f64();
        let now = asked_by(&place, step.name, kind.is_ours()).await?;
        let late_now = LateCounts::of(place.admin).await?;
        let caused = place.causes().await?;
        let both = caused.as_ref().zip(causes.as_ref());
        steps.push(RunStep {
            name: step.name,
            seconds: took,
            asked: now.since(before),
            late: late_now.since(late),
            causes: both.map(|(now, before)| now.since(before)),
        });
        (before, causes, late) = (now, caused, late_now);
        if let Err(error) = done {
            let error = error.context(step.name);
            if kind.is_ours() {
                return Err(error);
            }
            failed = Some(format!("{error:#}"));
            break;
        }
    }
    let asked = place.tally.quiet_for(quiet).await.since(start);
    let wrong = wrong(&place.bucket, &(play.after)(count)).await?;
    if let Some(complaint) = place.complaint() {
        report.notes.push(format!("{}: {complaint}", kind.name()));
    }
    Ok(Some(Run {
        kind,
        count,
        asked,
        late: late.since(first),
        wrong,
        seconds: steps.iter().map(|step| step.seconds).sum(),
        steps,
        failed,
    }))
}

/// Returns the requests so far; `is_ours`: once all that was written is in the bucket.
async fn asked_by(place: &Place, step: &str, is_ours: bool) -> Result<RequestCounts> {
    if !is_ours {
        return Ok(place.tally.asked());
    }
    sends_all(place.admin).await.context(step.to_owned())?;
    Ok(place.tally.quiet_for(OURS).await)
}

/// Returns the number of wrong objects.
async fn wrong(bucket: &Bucket, expected: &[(String, Pattern)]) -> Result<usize> {
    // Markers of folders are not written files.
    let found = bucket.list("").await?.into_iter();
    let found: HashMap<_, _> = found.filter(|(key, _)| !key.ends_with('/')).collect();
    let mut wrong = 0;
    for (key, pattern) in expected {
        let is_right = match found.get(key) {
            Some(size) if *size == pattern.len => pattern.matches(0, &bucket.get(key).await?),
            _ => false,
        };
        wrong += usize::from(!is_right);
    }
    let keys: std::collections::HashSet<_> = expected.iter().map(|(key, _)| key).collect();
    Ok(wrong + found.keys().filter(|key| !keys.contains(key)).count())
}

impl Run {
    /// Returns the requests of one step.
    pub(super) fn of(&self, name: &str) -> RequestCounts {
        self.step(name).map(|step| step.asked).unwrap_or_default()
    }

    /// Returns what one step has sent because something was late.
    pub(super) fn late_of(&self, name: &str) -> LateCounts {
        self.step(name).map(|step| step.late).unwrap_or_default()
    }

    /// Returns the seconds that one step took.
    pub(super) fn seconds_of(&self, name: &str) -> f64 {
        self.step(name).map_or(0.0, |step| step.seconds)
    }

    fn step(&self, name: &str) -> Option<&RunStep> {
        self.steps.iter().find(|step| step.name == name)
    }
}

const COLUMNS: [&str; 13] = [
    "mount",
    "s",
    "PUT",
    "multipart",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LIST",
    "bucket",
    "MB sent",
    "MB fetched",
    "$ for 1,000",
];

fn row(name: &str, seconds: f64, asked: &RequestCounts) -> Vec<String> {
    let counts = [
        asked.put,
        asked.multipart,
        asked.copy,
        asked.delete,
        asked.get,
        asked.head,
        asked.list,
        asked.bucket,
    ];
    let mut row = vec![name.to_owned(), figure(seconds)];
    row.extend(counts.map(|count| count.to_string()));
    row.extend([asked.sent, asked.bytes].map(|bytes| figure(bytes as f64 / 1e6)));
    row.push(format!("{:.4}", price::of_a_thousand(asked)));
    row
}

/// Adds a row for each mount, and one for each step of ours.
pub(super) fn tables(play: &Play, runs: &[Run], report: &mut Report) {
    let rows = runs
        .iter()
        .map(|run| row(run.kind.name(), run.seconds, &run.asked));
    report.table(play.title, &COLUMNS, rows.collect());
    if let Some(ours) = runs.iter().find(|run| run.kind == Kind::Background) {
        let steps = ours
            .steps
            .iter()
            .map(|step| row(step.name, step.seconds, &step.asked));
        let mut columns = COLUMNS;
        columns[0] = "step";
        report.table(
            format!("{}: background, by step", play.title),
            &columns,
            steps.collect(),
        );
    }
    for run in runs {
        let place = format!("{}, {}", play.title, run.kind.name());
        if let Some(failed) = &run.failed {
            report.notes.push(format!("{place}: failed at {failed}"));
        } else if run.wrong > 0 {
            let wrong = run.wrong;
            report
                .notes
                .push(format!("{place}: {wrong} objects are not what was written"));
        }
        for step in &run.steps {
            if let Some(causes) = &step.causes {
                let note = format!("{place}, {}: {causes}", step.name);
                report.notes.push(note);
            }
        }
    }
}
