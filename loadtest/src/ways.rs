//! The ways to do one task, and the figures of each, round by round.

use std::collections::BTreeMap;

use crate::context::progress;
use crate::measure::{median, median_ratio};
use crate::report::Report;
use crate::report::terminal::figure;

/// Figures of one unit.
#[derive(Debug, Clone)]
pub struct Ways {
    unit: &'static str,
    found: BTreeMap<String, Vec<f64>>,
}

impl Ways {
    /// Returns an empty set; `unit` is the unit of the figures.
    #[must_use]
    pub const fn new(unit: &'static str) -> Self {
        Self {
            unit,
            found: BTreeMap::new(),
        }
    }

    /// Adds and prints a round's figure.
    pub fn add(&mut self, way: &str, found: f64) {
        progress(format!("   {way}: {} {}", figure(found), self.unit));
        self.found.entry(way.to_owned()).or_default().push(found);
    }

    /// Returns the figures of a way; none if it took no part.
    #[must_use]
    pub fn of(&self, way: &str) -> &[f64] {
        self.found.get(way).map_or(&[], Vec::as_slice)
    }

    /// Returns the median of a way; `None` if it took no part.
    #[must_use]
    pub fn median(&self, way: &str) -> Option<f64> {
        median(self.of(way))
    }

    /// Returns the median of the ratios within the rounds; `None` if one of them took no part.
    #[must_use]
    pub fn ratio(&self, one: &str, other: &str) -> Option<f64> {
        median_ratio(self.of(one), self.of(other))
    }

    /// Returns the ways that took part.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.found.keys().map(String::as_str)
    }

    /// Adds the medians as a table, and all figures as series.
    pub fn write(&self, report: &mut Report, title: &str) {
        let rows = self.found.iter().map(|(way, found)| {
            let median = median(found).unwrap_or(f64::NAN);
            let least = found.iter().copied().fold(f64::INFINITY, f64::min);
            let most = found.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            [way.clone()]
                .into_iter()
                .chain([median, least, most].map(figure))
                .collect()
        });
        report.table(title, &["way", self.unit, "least", "most"], rows.collect());
        for (way, found) in &self.found {
            report.series(way, &format!("{title}, {}", self.unit), found);
        }
    }
}
