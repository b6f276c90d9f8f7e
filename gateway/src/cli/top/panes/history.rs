//! The pane History: the last hour in steps of 5 minutes, and the day before in steps of an hour.

use serde_json::Value;

use super::super::figures::{number, rate, share, time};
use super::super::table::{Cell, Table, cell, right};

/// The figures of a step of time.
struct Step<'v> {
    /// The time since its end, in seconds.
    age: f64,
    figures: Vec<&'v Value>,
}

/// Returns the steps, the latest first.
pub(super) fn history(history: &Value, now: &Value) -> Table {
    let now = now.as_f64().unwrap_or_default();
    let hour = steps(&history["hour"], now, 300.0).into_iter();
    let day = steps(&history["day"], now, 3600.0).into_iter();
    let hour = hour.map(|step| row("5 min", &step));
    let day = day.map(|step| row("1 h", &step));
    Table {
        title: "History".to_owned(),
        columns: vec![
            right("STEP", 6),
            right("AGO", 7),
            right("REQ/S", 7),
            right("READERS", 9),
            right("BUCKETS", 9),
            right("CACHE", 6),
            right("P99", 7),
            right("STALLS", 7),
            right("FAILED", 7),
        ],
        rows: hour.chain(day).collect(),
    }
}

/// Puts points into steps of `length` seconds; steps without a point are left out.
fn steps(points: &Value, now: f64, length: f64) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for point in points.as_array().into_iter().flatten().rev() {
        let age = (now - point["time"].as_f64().unwrap_or_default()).max(0.0);
        let age = (age / length).floor() * length;
        match steps.last_mut() {
            Some(last) if last.age == age => last.figures.push(&point["figures"]),
            _ => steps.push(Step {
                age,
                figures: vec![&point["figures"]],
            }),
        }
    }
    steps
}

impl Step<'_> {
    fn known(&self, value: impl Fn(&Value) -> Option<f64>) -> Vec<f64> {
        self.figures
            .iter()
            .filter_map(|figures| value(figures))
            .collect()
    }

    /// Returns the mean of a figure; `null` if it is not known at any time.
    fn mean(&self, value: impl Fn(&Value) -> Option<f64>) -> Value {
        let known = self.known(value);
        match known.len() {
            0 => Value::Null,
            count => Value::from(known.iter().sum::<f64>() / count as f64),
        }
    }

    fn sum(&self, key: &str) -> Value {
        let counts = self
            .figures
            .iter()
            .filter_map(|figures| figures[key].as_u64());
        Value::from(counts.sum::<u64>())
    }
}

fn row(length: &str, step: &Step<'_>) -> Vec<Cell> {
    let of = |key: &'static str| step.mean(|figures| figures[key].as_f64());
    let cached = step.mean(|figures| {
        let shares = &figures["hit_share"];
        Some(shares["memory"].as_f64()? + shares["disk"].as_f64()?)
    });
    let first = step.known(|figures| figures["first_byte"]["p99"].as_f64());
    let slowest = first
        .into_iter()
        .reduce(f64::max)
        .map_or(Value::Null, Value::from);
    let (requests, readers) = (of("requests_per_second"), of("bytes_per_second"));
    let buckets = of("fetched_bytes_per_second");
    let (stalls, errors) = (step.sum("stalls"), step.sum("errors"));
    let age = Value::from(step.age);
    vec![
        cell(length.to_owned(), &Value::Null),
        cell(time(&age), &age),
        cell(number(&requests), &requests),
        cell(rate(&readers), &readers),
        cell(rate(&buckets), &buckets),
        cell(share(&cached), &cached),
        cell(time(&slowest), &slowest),
        cell(number(&stalls), &stalls),
        cell(number(&errors), &errors),
    ]
}
