//! Figures in few characters.

use serde_json::Value;

use super::super::stat::plain;

/// Stands for a figure that is not known.
pub(super) const NONE: &str = "-";

/// Returns a size in powers of 1,024, as the configuration has them: `1.2 MiB`.
pub(super) fn bytes(value: &Value) -> String {
    let Some(mut number) = value.as_f64() else {
        return NONE.to_owned();
    };
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB"] {
        if number < 999.5 {
            break;
        }
        number /= 1024.0;
        unit = next;
    }
    let digits = usize::from(unit != "B" && number < 9.95);
    format!("{number:.digits$} {unit}")
}

/// Returns a rate in powers of 1,000, as networks and disks have them: `1.23 MB/s`.
pub(super) fn rate(value: &Value) -> String {
    let Some(mut number) = value.as_f64() else {
        return NONE.to_owned();
    };
    let mut prefix = "";
    for next in ["k", "M", "G", "T", "P"] {
        if number < 999.5 {
            break;
        }
        number /= 1000.0;
        prefix = next;
    }
    let digits = match number {
        _ if prefix.is_empty() => 0,
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$} {prefix}B/s")
}

/// Returns a share of 1 in per cent.
pub(super) fn share(value: &Value) -> String {
    let percent = value
        .as_f64()
        .map(|share| format!("{:.0} %", share * 100.0));
    percent.unwrap_or_else(|| NONE.to_owned())
}

/// Returns a part of a whole in per cent.
pub(super) fn part_of(part: &Value, whole: &Value) -> String {
    share(&ratio(part, whole))
}

/// Returns a part of a whole as a share of 1; `null` if it is not known.
pub(super) fn ratio(part: &Value, whole: &Value) -> Value {
    match (part.as_f64(), whole.as_f64()) {
        (Some(part), Some(whole)) if whole > 0.0 => Value::from(part / whole),
        _ => Value::Null,
    }
}

/// Returns counts by their names: `ok 5, failed 1`.
pub(super) fn counts(of: &Value) -> String {
    let counts = of.as_object().into_iter().flatten();
    let counts: Vec<_> = counts
        .map(|(name, count)| format!("{} {}", plain(name), number(count)))
        .collect();
    match counts.is_empty() {
        true => NONE.to_owned(),
        false => counts.join(", "),
    }
}

/// Returns a number with up to two digits behind the point.
pub(super) fn number(value: &Value) -> String {
    match value.as_f64() {
        None => NONE.to_owned(),
        Some(number) if value.is_u64() || number >= 100.0 => format!("{number:.0}"),
        Some(number) => format!("{number:.2}"),
    }
}

/// Returns a time in seconds in the unit that fits.
pub(super) fn time(value: &Value) -> String {
    let Some(seconds) = value.as_f64() else {
        return NONE.to_owned();
    };
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// Returns the time from one time of day to another, in seconds; `null` if one of them is not known.
pub(super) fn since(now: &Value, before: &Value) -> Value {
    match (now.as_f64(), before.as_f64()) {
        (Some(now), Some(before)) => Value::from((now - before).max(0.0)),
        _ => Value::Null,
    }
}

/// Returns text without control characters; [`NONE`] if there is none.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| NONE.to_owned(), plain)
}
