//! Numbers as people read them.

use std::time::{Duration, UNIX_EPOCH};

/// Returns a size: `1.5 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit < UNITS.len() - 1 {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 10.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Returns a rate: `12 MB/s`.
pub(crate) fn rate(rate: f64) -> String {
    const UNITS: [&str; 5] = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];
    let (mut value, mut unit) = (rate.max(0.0), 0);
    while value >= 1000.0 && unit < UNITS.len() - 1 {
        value /= 1000.0;
        unit += 1;
    }
    match value < 10.0 && unit > 0 {
        true => format!("{value:.1} {}", UNITS[unit]),
        false => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Returns a number without needless digits: `1 234`, `0.25`.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => grouped(value.round() as u64),
        size if size >= 10.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Returns a whole number in groups of three.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a number of things: `1 object`, `2 objects`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {thing}{s}", grouped(number))
}

/// Returns the time since something: `12 s ago`.
pub(crate) fn ago(seconds: f64) -> String {
    match seconds {
        few if few < 1.0 => "just now".to_owned(),
        seconds => format!("{} ago", duration(seconds.round())),
    }
}

/// Returns a share in per cent.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        percent if percent > 99.0 && percent < 100.0 => format!("{percent:.1} %"),
        percent if percent > 0.0 && percent < 1.0 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// Returns a length of time: `350 µs`, `12 ms`, `3.2 s`, `5 min`, `2 h`, `3 d`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.001 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 0.01 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds if seconds < 172_800.0 => format!("{:.0} h", seconds / 3600.0),
        seconds => format!("{:.0} d", seconds / 86_400.0),
    }
}

/// Returns a time of day, in UTC: `26 Nov 2026, 08:12:04`.
pub(crate) fn time(unix: f64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs_f64(unix.clamp(0.0, 250_000_000_000.0));
    let text = httpdate::fmt_http_date(time);
    // `Thu, 26 Nov 2026 08:12:04 GMT`.
    match (text.get(5..16), text.get(17..25)) {
        (Some(day), Some(clock)) => format!("{day}, {clock}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
