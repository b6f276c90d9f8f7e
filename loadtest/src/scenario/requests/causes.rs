//! Tidegate's own counts of its requests to the bucket.

use std::collections::BTreeMap;

/// An explanation for reports.
pub(super) const MEANINGS: &str = "causes are Tidegate's own count (tidegate_name_requests_total, tidegate_origin_requests_total), \
     the other mounts tell none: `name` is a HEAD or a listing of one key for a name by itself, `names` a page of a folder \
     for the missing ones among its names, `folder` a page for a program that reads it, `tree` one of several folders, \
     `confirm` a HEAD of an object that may have changed";

/// Counts of requests for names by their cause, and of all requests by their kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Causes {
    names: BTreeMap<String, u64>,
    kinds: BTreeMap<String, u64>,
}

impl Causes {
    /// Reads them from metrics in Prometheus' format.
    pub(super) fn read(metrics: &str) -> Self {
        Self {
            names: counts(metrics, "tidegate_name_requests_total", "cause"),
            kinds: counts(metrics, "tidegate_origin_requests_total", "kind"),
        }
    }

    /// Returns the counts since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let since = |now: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>| {
            let left = |(name, count): (&String, &u64)| {
                let count = count - before.get(name).copied().unwrap_or(0);
                (count > 0).then(|| (name.clone(), count))
            };
            now.iter().filter_map(left).collect()
        };
        Self {
            names: since(&self.names, &earlier.names),
            kinds: since(&self.kinds, &earlier.kinds),
        }
    }
}

impl std::fmt::Display for Causes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |counts: &BTreeMap<String, u64>| {
            let each = counts.iter().map(|(name, count)| format!("{name} {count}"));
            match counts.is_empty() {
                true => "none".to_owned(),
                false => each.collect::<Vec<_>>().join(", "),
            }
        };
        write!(
            f,
            "for names: {}; in all: {}",
            list(&self.names),
            list(&self.kinds)
        )
    }
}

/// Returns the sum of a metric for each value of a label.
fn counts(metrics: &str, metric: &str, label: &str) -> BTreeMap<String, u64> {
    let start = format!("{label}=\"");
    let mut found = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with(metric)) {
        let value = line.rsplit(' ').next();
        let value: Option<u64> = value.and_then(|value| value.parse().ok());
        let name = line
            .split_once(&start)
            .and_then(|(_, rest)| rest.split('"').next());
        if let Some((name, value)) = name.zip(value) {
            *found.entry(name.to_owned()).or_default() += value;
        }
    }
    found.retain(|_, count| *count > 0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# TYPE tidegate_name_requests_total counter\n\
        tidegate_name_requests_total{cause=\"folder\"} 3\n\
        tidegate_name_requests_total{cause=\"tree\"} 0\n\
        tidegate_origin_requests_total{kind=\"list\",origin=\"a\",result=\"ok\"} 3\n";
    const AFTER: &str = "tidegate_name_requests_total{cause=\"folder\"} 3\n\
        tidegate_name_requests_total{cause=\"name\"} 2\n\
        tidegate_origin_requests_total{kind=\"list\",origin=\"a\",result=\"ok\"} 4\n\
        tidegate_origin_requests_total{kind=\"head\",origin=\"a\",result=\"missing\"} 1\n\
        tidegate_origin_requests_total{kind=\"head\",origin=\"a\",result=\"ok\"} 2\n";

    #[test]
    fn a_step_is_told_by_cause_and_kind() {
        let step = Causes::read(AFTER).since(&Causes::read(BEFORE));
        assert_eq!(
            step.to_string(),
            "for names: name 2; in all: head 3, list 1"
        );
        let none = Causes::read(AFTER).since(&Causes::read(AFTER));
        assert_eq!(none.to_string(), "for names: none; in all: none");
    }
}
