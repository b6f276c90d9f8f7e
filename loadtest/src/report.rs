//! The results of a run, compared with their targets.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Serialize;

pub mod html;
pub mod plot;
pub mod terminal;

pub use plot::Plot;

/// The results of one scenario.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The scenario.
    pub scenario: String,
    /// A description in one line.
    pub about: String,
    /// Tables for people.
    pub tables: Vec<Table>,
    /// Every figure of every round, for programs.
    pub series: Vec<Series>,
    /// Plots, for results that are easier to see than to read.
    pub plots: Vec<Plot>,
    /// The targets, and the figures to compare with them.
    pub checks: Vec<Check>,
    /// The peers and their configurations.
    pub peers: Vec<PeerConfig>,
    /// Remarks for the reader of the figures.
    pub notes: Vec<String>,
}

/// A table of a report.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// Its columns.
    pub columns: Vec<String>,
    /// Its rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

/// One measure of one peer, over all rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// The peer.
    pub peer: String,
    /// The measure, with its unit.
    pub measure: String,
    /// The values in the order of the rounds.
    pub values: Vec<f64>,
}

/// A peer's configuration.
#[derive(Debug, Clone, Serialize)]
pub struct PeerConfig {
    /// The peer.
    pub name: String,
    /// The configuration as its own users would write it.
    pub config: String,
}

/// A figure and its target.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// The figure's name.
    pub figure: String,
    /// The measured value.
    pub found: f64,
    /// The target.
    pub target: Target,
    /// The weight of a miss.
    pub weight: Weight,
}

/// A bound, inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The figure may not be higher.
    AtMost(f64),
    /// The figure may not be lower.
    AtLeast(f64),
}

/// The consequence of a missed target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The run fails: the result is wrong on any machine.
    Correctness,
    /// The report only shows the miss: speed also depends on other load on the machine.
    Speed,
}

impl Check {
    /// Tells whether the target is reached.
    #[must_use]
    pub fn reached(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.found <= most,
            Target::AtLeast(least) => self.found >= least,
        }
    }
}

impl Report {
    /// Returns an empty report.
    #[must_use]
    pub fn new(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            ..Self::default()
        }
    }

    /// Adds a figure that must be right on any machine.
    pub fn must(&mut self, figure: impl Into<String>, found: f64, target: Target) {
        self.check(figure.into(), found, target, Weight::Correctness);
    }

    /// Adds a figure of speed.
    pub fn aim(&mut self, figure: impl Into<String>, found: f64, target: Target) {
        self.check(figure.into(), found, target, Weight::Speed);
    }

    /// Adds a figure of this weight.
    pub fn check(&mut self, figure: String, found: f64, target: Target, weight: Weight) {
        self.checks.push(Check {
            figure,
            found,
            target,
            weight,
        });
    }

    /// Adds a table.
    pub fn table(&mut self, title: impl Into<String>, columns: &[&str], rows: Vec<Vec<String>>) {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        self.tables.push(Table {
            title: title.into(),
            columns,
            rows,
        });
    }

    /// Adds the figures of all rounds.
    pub fn series(&mut self, peer: &str, measure: &str, values: &[f64]) {
        let (peer, measure) = (peer.to_owned(), measure.to_owned());
        self.series.push(Series {
            peer,
            measure,
            values: values.to_vec(),
        });
    }

    /// Adds a plot.
    pub fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    /// Adds a peer and its configuration, unless the same pair is already there.
    pub fn peer(&mut self, name: &str, config: &str) {
        let known = |one: &PeerConfig| one.name == name && one.config == config;
        if self.peers.iter().any(known) {
            return;
        }
        self.peers.push(PeerConfig {
            name: name.to_owned(),
            config: config.to_owned(),
        });
    }

    /// Notes that a peer has no part, because its program is missing.
    pub fn left_out(&mut self, name: &str) {
        let note = format!("{name} left out: it is not installed");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Tells whether all targets of correctness are reached; those of speed do not count.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.checks
            .iter()
            .all(|check| check.reached() || check.weight == Weight::Speed)
    }

    /// Writes the report as `SCENARIO.json` into a directory, which it creates if need be.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_json(&self, dir: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let file = dir.join(format!("{}.json", self.scenario));
        std::fs::write(&file, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
        Ok(file)
    }
}

/// Writes all reports as one page, `report.html`, into a directory, which it creates if need be.
///
/// # Errors
/// If it cannot be written.
pub fn write_html(reports: &[Report], dir: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let file = dir.join("report.html");
    std::fs::write(&file, html::render(reports))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_of_speed_is_no_error_and_one_of_correctness_is() {
        let mut report = Report::new("x");
        report.must("wrong bodies", 0.0, Target::AtMost(0.0));
        report.aim("ratio", 0.5, Target::AtLeast(0.8));
        assert!(report.is_right());
        assert!(!report.checks[1].reached());
        report.must("wrong bodies", 1.0, Target::AtMost(0.0));
        assert!(!report.is_right());
    }

    #[test]
    fn no_figure_at_all_is_a_miss() {
        let mut report = Report::new("x");
        report.must("ratio of nothing", f64::NAN, Target::AtMost(1.0));
        assert!(!report.is_right());
    }
}
