//! What a plot shows, apart from how it is drawn.

use serde::Serialize;

/// Lines, or points, of several peers over the same axes.
#[derive(Debug, Clone, Serialize)]
pub struct Plot {
    /// What it shows, in a sentence that needs no manual.
    pub title: String,
    /// The axis from left to right, with its unit.
    pub x: String,
    /// The axis upwards, with its unit.
    pub y: String,
    /// How the points of a line belong together.
    pub kind: Kind,
    /// Each a name and its points.
    pub lines: Vec<Line>,
}

/// How points are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Joined: a figure that changes steadily.
    Lines,
    /// Each for itself: events.
    Points,
}

/// The points of one peer.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Whose they are.
    pub name: String,
    /// Right and up.
    pub points: Vec<(f64, f64)>,
}

impl Plot {
    /// Throughput over time: points of [`crate::measure::Flow::over_time`].
    #[must_use]
    pub fn throughput(title: impl Into<String>) -> Self {
        Self::new(title, "seconds", "MB/s", Kind::Lines)
    }

    /// Waits of readers: points of [`crate::measure::Flow::waits`].
    #[must_use]
    pub fn gaps(title: impl Into<String>) -> Self {
        Self::new(title, "seconds", "length of the wait, ms", Kind::Points)
    }

    /// The distribution of durations: which share of them took at most how long.
    #[must_use]
    pub fn latency(title: impl Into<String>) -> Self {
        Self::new(title, "percentile", "ms", Kind::Lines)
    }

    fn new(title: impl Into<String>, x: &str, y: &str, kind: Kind) -> Self {
        Self {
            title: title.into(),
            x: x.to_owned(),
            y: y.to_owned(),
            kind,
            lines: vec![],
        }
    }

    /// Adds a line.
    pub fn line(&mut self, name: impl Into<String>, points: Vec<(f64, f64)>) {
        let name = name.into();
        self.lines.push(Line { name, points });
    }
}
