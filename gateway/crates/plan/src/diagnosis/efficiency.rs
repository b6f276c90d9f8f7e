//! The bytes that the buckets sent, against those that they can give.

use std::collections::BTreeMap;

use super::{MeasuredOrigin, Rate};

/// The bytes that the buckets sent in a time, against those that they can give in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Efficiency {
    /// The rate at which they sent.
    pub taken: Rate,
    /// The rate that they can give.
    pub possible: Rate,
}

impl Efficiency {
    /// Compares the rate at which the buckets sent with the rate that was measured. A measurement beside readers gets only
    /// what they leave, and buckets vary; but what a bucket has sent, it can give. So the larger of the two is possible, and
    /// the share is never above 1. `None` if no byte was sent.
    #[must_use]
    pub fn new(taken: Rate, measured: Rate) -> Option<Self> {
        let possible = Rate(measured.0.max(taken.0));
        (taken.0 > 0.0).then_some(Self { taken, possible })
    }

    /// Returns the share that was taken, from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.taken.0 / self.possible.0
    }
}

/// Returns the rate that the buckets of these origins can give together; `None` unless each of them was measured.
///
/// Each origin comes with its endpoint. Those of one endpoint share it and the way to it, and were measured one after the
/// other: together they give what the fastest of them gave alone.
#[must_use]
pub fn buckets<'a>(
    origins: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    measured: &[MeasuredOrigin],
) -> Option<Rate> {
    let mut endpoints = BTreeMap::<_, f64>::new();
    for (name, endpoint) in origins {
        let found = measured.iter().find(|origin| origin.name == name)?;
        let rate = found.best().0;
        if rate <= 0.0 {
            return None;
        }
        let best = endpoints.entry(endpoint).or_default();
        *best = best.max(rate);
    }
    (!endpoints.is_empty()).then(|| Rate(endpoints.into_values().sum()))
}
