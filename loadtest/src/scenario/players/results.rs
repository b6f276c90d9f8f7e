//! The figures of all playbacks.

use std::collections::BTreeMap;

use anyhow::Result;

use super::{DIRECT, OURS};
use crate::context::progress;
use crate::measure::{median, median_ratio};
use crate::players::media::Medium;
use crate::players::{PLACES, Playback};
use crate::report::terminal::figure;
use crate::report::{Report, Target};
use crate::tally::RequestCounts;

/// The most that a playback may wait longer than one from a signed URL.
const OVER_DIRECT: f64 = 1.1;
const COLUMNS: [&str; 11] = [
    "medium",
    "from",
    "ready",
    "middle",
    "near the end",
    "back",
    "stalls",
    "GET",
    "other requests",
    "MB",
    "fetched over played",
];

/// Player, medium, and source.
type Key = (&'static str, &'static str, &'static str);

/// The figures, round by round.
#[derive(Default)]
pub(super) struct Results {
    found: BTreeMap<Key, Vec<(Playback, RequestCounts)>>,
    failed: u64,
    /// Files of which a wrong byte was read after they were played.
    pub(super) wrong: u64,
}

impl Results {
    /// Adds and prints a playback; one that failed is counted.
    pub(super) fn add(&mut self, key: Key, played: Result<Playback>, asked: RequestCounts) {
        let (player, medium, source) = key;
        match played {
            Ok(played) => {
                let seeks: Vec<_> = played.seeks.iter().copied().map(figure).collect();
                progress(format!(
                    "   {player}, {medium}, {source}: {} ms, seeks {} ms, {} stalls, {:.1} MB",
                    figure(played.ready),
                    seeks.join(", "),
                    played.stalls,
                    asked.bytes as f64 / 1e6
                ));
                self.found.entry(key).or_default().push((played, asked));
            }
            Err(error) => {
                progress(format!("   {player}, {medium}, {source} FAILED: {error:#}"));
                self.failed += 1;
            }
        }
    }

    /// Writes tables and targets.
    pub(super) fn write(&self, report: &mut Report, media: &[Medium]) {
        let none = Target::AtMost(0.0);
        report.must("playbacks that failed", self.failed as f64, none);
        report.must("files with a wrong byte", self.wrong as f64, none);
        report.must(
            "playbacks",
            self.found.values().map(Vec::len).sum::<usize>() as f64,
            Target::AtLeast(1.0),
        );
        let mut players: Vec<_> = self.found.keys().map(|key| key.0).collect();
        players.dedup();
        for player in players {
            let rows = self.found.iter().filter(|(key, _)| key.0 == player);
            let rows = rows.filter_map(|(key, found)| {
                let medium = media.iter().find(|medium| medium.name == key.1)?;
                Some(row(key, found, medium))
            });
            let title = format!("{player}: nothing cached, medians in ms");
            report.table(title, &COLUMNS, rows.collect());
        }
        self.judge(report, media);
        for ((player, medium, source), found) in &self.found {
            let measure = format!("{player}, {medium}, ready, ms");
            report.series(source, &measure, &of(found, |played| played.ready));
        }
    }

    /// Compares Chromium's figures with those from signed URLs.
    fn judge(&self, report: &mut Report, media: &[Medium]) {
        for medium in media {
            let find = |source| self.found.get(&("chromium", medium.name, source));
            let (Some(ours), Some(direct)) = (find(OURS), find(DIRECT)) else {
                continue;
            };
            let over = |figure: fn(&Playback) -> f64| {
                median_ratio(&of(ours, figure), &of(direct, figure)).unwrap_or(f64::NAN)
            };
            let ready = over(|played| played.ready);
            let seeks = over(|played| played.seeks.iter().sum());
            for (what, ratio) in [("canplay", ready), ("seeked", seeks)] {
                let figure = format!("Chromium, {}: {what} over a signed URL", medium.name);
                report.aim(figure, ratio, Target::AtMost(OVER_DIRECT));
            }
        }
    }
}

fn of(found: &[(Playback, RequestCounts)], figure: impl Fn(&Playback) -> f64) -> Vec<f64> {
    found.iter().map(|(played, _)| figure(played)).collect()
}

fn row(key: &Key, found: &[(Playback, RequestCounts)], medium: &Medium) -> Vec<String> {
    let middle = |figures: Vec<f64>| figure(median(&figures).unwrap_or(f64::NAN));
    let asked = |count: &dyn Fn(&RequestCounts) -> f64| {
        middle(found.iter().map(|(_, asked)| count(asked)).collect())
    };
    let mut row = vec![key.1.to_owned(), key.2.to_owned()];
    row.push(middle(of(found, |played| played.ready)));
    for place in 0..PLACES.len() {
        row.push(middle(of(found, |played| played.seeks[place])));
    }
    row.push(middle(of(found, |played| played.stalls as f64)));
    row.push(asked(&|asked| asked.get as f64));
    row.push(asked(&|asked| (asked.requests() - asked.get) as f64));
    row.push(asked(&|asked| asked.bytes as f64 / 1e6));
    let rate = medium.bytes as f64 / medium.seconds;
    let over = found
        .iter()
        .map(|(played, asked)| asked.bytes as f64 / (played.seconds * rate));
    row.push(middle(over.collect()));
    row
}
