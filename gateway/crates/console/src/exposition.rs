//! The gateway's own metrics, read from their OpenMetrics text.
//!
//! The console shows the figures that Prometheus collects, so both tell the same story.

use std::collections::HashMap;

/// The prefix of every name.
const PREFIX: &str = "tidegate_";

/// The labels of a series, in the order of the text.
pub(crate) type Labels = Vec<(String, String)>;

/// The values of all series at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(HashMap<String, Vec<(Labels, f64)>>);

impl Samples {
    /// Reads the text. Lines that it cannot read are left out.
    pub(crate) fn parse(text: &str) -> Self {
        let mut all: HashMap<String, Vec<(Labels, f64)>> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if let Some((name, labels, value)) = series(line) {
                let name = name.strip_prefix(PREFIX).unwrap_or(name);
                match all.get_mut(name) {
                    Some(series) => series.push((labels, value)),
                    None => drop(all.insert(name.to_owned(), vec![(labels, value)])),
                }
            }
        }
        Self(all)
    }

    /// Returns the series of a name that have these labels.
    pub(crate) fn series<'a>(
        &'a self,
        name: &str,
        having: &'a [(&str, &str)],
    ) -> impl Iterator<Item = (&'a Labels, f64)> {
        let all = self.0.get(name).into_iter().flatten();
        let fits = move |labels: &Labels| {
            having
                .iter()
                .all(|(key, value)| label(labels, key) == *value)
        };
        all.filter(move |(labels, _)| fits(labels))
            .map(|(labels, value)| (labels, *value))
    }

    /// Returns the sum of the series of a name that have these labels; 0 if there is none.
    pub(crate) fn sum(&self, name: &str, having: &[(&str, &str)]) -> f64 {
        self.series(name, having).map(|(_, value)| value).sum()
    }

    /// Returns the growth of each counter of a name that has these labels since `before`. A counter that was begun anew has
    /// grown by all that it has; one that is gone has not grown.
    pub(crate) fn grown<'a>(
        &'a self,
        before: &'a Self,
        name: &str,
        having: &'a [(&str, &str)],
    ) -> impl Iterator<Item = (&'a Labels, f64)> {
        let earlier = before.0.get(name).map_or(&[][..], Vec::as_slice);
        self.series(name, having).map(move |(labels, value)| {
            let known = earlier.iter().find(|(other, _)| other == labels);
            let known = known.map_or(0.0, |(_, value)| *value);
            let growth = if value < known { value } else { value - known };
            (labels, growth)
        })
    }

    /// Returns the growth of all of these counters together.
    pub(crate) fn growth(&self, before: &Self, name: &str, having: &[(&str, &str)]) -> f64 {
        self.grown(before, name, having)
            .map(|(_, growth)| growth)
            .sum()
    }

    /// Returns the sum in whole numbers.
    pub(crate) fn count(&self, name: &str, having: &[(&str, &str)]) -> u64 {
        self.sum(name, having).max(0.0) as u64
    }

    /// Returns the value of the first series of a name that has these labels.
    #[cfg(test)]
    pub(crate) fn value(&self, name: &str, having: &[(&str, &str)]) -> Option<f64> {
        self.series(name, having).next().map(|(_, value)| value)
    }

    /// Returns a quantile of a histogram over the observations since `before`, with linear interpolation in its bucket;
    /// `None` if there was no observation.
    pub(crate) fn quantile(
        &self,
        name: &str,
        having: &[(&str, &str)],
        quantile: f64,
        before: Option<&Self>,
    ) -> Option<f64> {
        let buckets = self.buckets(name, having);
        let earlier = before.map(|before| before.buckets(name, having));
        let earlier = earlier.unwrap_or_default();
        let of_earlier = |bound: f64| {
            let found = earlier.iter().find(|(other, _)| *other == bound);
            found.map_or(0.0, |(_, count)| *count)
        };
        let buckets: Vec<_> = buckets
            .into_iter()
            .map(|(bound, count)| (bound, (count - of_earlier(bound)).max(0.0)))
            .collect();
        let (_, all) = buckets.last().copied().filter(|(_, all)| *all > 0.0)?;
        let rank = quantile * all;
        let mut below = (0.0, 0.0);
        for (bound, count) in buckets {
            if count >= rank {
                if bound.is_infinite() {
                    return Some(below.0);
                }
                let share = (rank - below.1) / (count - below.1).max(f64::MIN_POSITIVE);
                return Some(below.0 + (bound - below.0) * share.clamp(0.0, 1.0));
            }
            below = (bound, count);
        }
        None
    }

    /// Returns the upper bounds of a histogram's buckets and their cumulative counts, in order.
    fn buckets(&self, name: &str, having: &[(&str, &str)]) -> Vec<(f64, f64)> {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (labels, count) in self.series(&format!("{name}_bucket"), having) {
            let bound = match label(labels, "le") {
                "+Inf" => f64::INFINITY,
                bound => bound.parse().unwrap_or(f64::INFINITY),
            };
            match buckets.iter_mut().find(|(other, _)| *other == bound) {
                Some((_, sum)) => *sum += count,
                None => buckets.push((bound, count)),
            }
        }
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        buckets
    }
}

/// Returns the value of a label; empty if the series has no such label.
pub(crate) fn label<'a>(labels: &'a Labels, key: &str) -> &'a str {
    let found = labels.iter().find(|(name, _)| name == key);
    found.map_or("", |(_, value)| value)
}

/// Reads one line: a name, labels and a value.
fn series(line: &str) -> Option<(&str, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (key, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((key.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.trim_start().split(' ').next()?.parse().ok()?;
    Some((name, labels, value))
}

/// Reads a label's value up to its closing quote; returns it and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP tidegate_a A.\ntidegate_a_total{x=\"1\",y=\"a,\\\"b\\\"}\"} 3\n\
        tidegate_a_total{x=\"2\",y=\"\"} 4\ntidegate_up 1\n\
        tidegate_h_bucket{le=\"0.1\"} 10\ntidegate_h_bucket{le=\"0.2\"} 90\ntidegate_h_bucket{le=\"+Inf\"} 100\n\
        broken{x=\"\n# EOF\n";

    #[test]
    fn series_are_read_with_their_labels() {
        let samples = Samples::parse(TEXT);
        assert_eq!(samples.sum("a_total", &[]), 7.0);
        assert_eq!(samples.sum("a_total", &[("x", "2")]), 4.0);
        assert_eq!(samples.value("a_total", &[("y", "a,\"b\"}")]), Some(3.0));
        assert_eq!(samples.value("up", &[]), Some(1.0));
        assert_eq!(samples.value("broken", &[]), None);
    }

    #[test]
    fn quantiles_are_those_of_what_was_observed_since() {
        let samples = Samples::parse(TEXT);
        let quantile = |q| samples.quantile("h", &[], q, None).expect("observed");
        assert!((quantile(0.5) - 0.15).abs() < 1e-9);
        assert_eq!(quantile(0.99), 0.2, "no bound above: the last one");
        assert_eq!(samples.quantile("h", &[], 0.5, Some(&samples)), None);
        let before = Samples::parse(
            "tidegate_h_bucket{le=\"0.1\"} 10\ntidegate_h_bucket{le=\"0.2\"} 10\ntidegate_h_bucket{le=\"+Inf\"} 10\n",
        );
        let since = samples.quantile("h", &[], 0.5, Some(&before));
        assert!((since.expect("observed") - 0.15625).abs() < 1e-9);
    }
}
