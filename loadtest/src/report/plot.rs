//! The content of a plot, independent of its drawing.

use serde::Serialize;

/// Lines, or points, of several peers over the same axes.
#[derive(Debug, Clone, Serialize)]
pub struct Plot {
    /// A title that is clear without a manual.
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x: String,
    /// The label of the vertical axis, with its unit.
    pub y: String,
    /// The style of the points.
    pub kind: Kind,
    /// The lines, each with a name and points.
    pub lines: Vec<Line>,
}

/// The style of a plot's points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Joined points, for a figure that changes steadily.
    Lines,
    /// Single points, for events.
    Points,
}

/// The points of one peer.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The name of the peer or way.
    pub name: String,
    /// Horizontal and vertical figures.
    pub points: Vec<(f64, f64)>,
}

impl Plot {
    /// Returns an empty plot of throughput over time, for points of
    /// [`crate::measure::Flow::over_time`].
    #[must_use]
    pub fn throughput(title: impl Into<String>) -> Self {
        Self::new(title, "seconds", "MB/s", Kind::Lines)
    }

    /// Returns an empty plot of readers' waits, for points of [`crate::measure::Flow::waits`].
    #[must_use]
    pub fn gaps(title: impl Into<String>) -> Self {
        Self::new(title, "seconds", "length of the wait, ms", Kind::Points)
    }

    /// Returns an empty plot of durations by percentile.
    #[must_use]
    pub fn latency(title: impl Into<String>) -> Self {
        Self::new(title, "percentile", "ms", Kind::Lines)
    }

    /// Returns an empty plot of ratios by fresh start.
    #[must_use]
    pub fn starts(title: impl Into<String>) -> Self {
        Self::new(title, "start", "ratio", Kind::Points)
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
