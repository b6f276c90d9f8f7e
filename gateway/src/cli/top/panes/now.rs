//! The pane Now.

use serde_json::Value;

use super::super::super::stat::plain;
use super::super::figures::{bytes, number, rate, share, since, text, time};
use super::super::table::{Table, left, word};

/// Returns the table of the present, of orders to warm objects, and of what the doctor says of the last hour.
pub(super) fn now(now: &Value, doctor: &Value, warms: &Value) -> Table {
    let mut lines = figures(now);
    lines.extend(under_way(now));
    lines.extend(diagnosis(doctor));
    lines.push(("ready", ready(now)));
    lines.extend(troubles(now));
    lines.extend(warming(warms));
    lines.extend(measured(doctor));
    let row = |(name, value): (&'static str, String)| vec![word(name), word(value)];
    Table {
        title: format!(
            "Tidegate {}, up {}",
            text(&now["version"]),
            time(&now["uptime"])
        ),
        columns: vec![left("", 15), left("", 0)],
        rows: lines.into_iter().map(row).collect(),
    }
}

fn figures(now: &Value) -> Vec<(&'static str, String)> {
    let figures = &now["figures"];
    let quantiles = |of: &Value| {
        let times = ["p50", "p90", "p99"].map(|key| time(&of[key]));
        times.join(" / ")
    };
    let shares = &figures["hit_share"];
    vec![
        (
            "requests",
            format!("{} a second", number(&figures["requests_per_second"])),
        ),
        (
            "mounts",
            format!(
                "{} operations a second",
                number(&figures["mount_operations_per_second"])
            ),
        ),
        ("to readers", rate(&figures["bytes_per_second"])),
        ("from buckets", rate(&figures["fetched_bytes_per_second"])),
        (
            "bytes from",
            format!(
                "memory {}, disk {}, bucket {}",
                share(&shares["memory"]),
                share(&shares["disk"]),
                share(&shares["origin"])
            ),
        ),
        ("amplification", number(&figures["amplification"])),
        (
            "first byte",
            format!("{} (p50, p90, p99)", quantiles(&figures["first_byte"])),
        ),
        (
            "waits",
            format!("{} for bytes", quantiles(&figures["waits"])),
        ),
        (
            "stalls, errors",
            format!(
                "{}, {} in {}",
                number(&figures["stalls"]),
                number(&figures["errors"]),
                time(&now["period"])
            ),
        ),
        (
            "client ended",
            format!(
                "{} in {}: seeks, closed players",
                number(&figures["ended_by_client"]),
                time(&now["period"])
            ),
        ),
    ]
}

/// Returns what is under way, and the memory of the process.
fn under_way(now: &Value) -> [(&'static str, String); 2] {
    [
        (
            "under way",
            format!(
                "{} requests, {} connections, {} streams, {} open files",
                number(&now["requests_in_flight"]),
                number(&now["connections"]),
                number(&now["streams"]),
                number(&now["open_files"])
            ),
        ),
        ("memory", bytes(&now["memory"])),
    ]
}

/// Returns the narrow part of the way, and the share of the buckets' rate that was taken, as far as they are known; while
/// the doctor measures, its progress.
fn diagnosis(doctor: &Value) -> Vec<(&'static str, String)> {
    let verdict = &doctor["verdict"];
    if doctor["running"] == true {
        let lines = doctor["lines"].as_array().into_iter().flatten();
        let last = lines.last().map_or("it has begun".to_owned(), text);
        return vec![("doctor", format!("measures: {last}"))];
    }
    if !verdict.is_object() {
        let why = doctor["error"].as_str().map(plain);
        let why =
            why.unwrap_or_else(|| "nothing is measured: begin it on the page Doctor".to_owned());
        return vec![("narrow", format!("missing ({why})"))];
    }
    let used = &doctor["efficiency"];
    let efficiency = match used.is_object() {
        true => format!(
            "{}: {} of {}, in the busiest 10 s of the hour",
            share(&used["share"]),
            rate(&used["taken"]),
            rate(&used["possible"])
        ),
        false if verdict["buckets_rate"].is_number() => {
            "missing (buckets have sent nothing in the last hour)".to_owned()
        }
        false => "missing (it needs a measurement of each bucket, with an object)".to_owned(),
    };
    vec![
        ("narrow", text(&verdict["narrowest"])),
        ("efficiency", efficiency),
    ]
}

/// Returns the rate of each stage that the doctor measured, and the settings that it suggests.
fn measured(doctor: &Value) -> Vec<(&'static str, String)> {
    let verdict = &doctor["verdict"];
    let stage = |one: &Value| {
        (
            "stage",
            format!("{}: {}", text(&one["stage"]), rate(&one["rate"])),
        )
    };
    let applied = doctor["applied"].as_array();
    let suggestion = |one: &Value| {
        let is_applied = applied.is_some_and(|keys| keys.contains(&one["key"]));
        let end = if is_applied { " (saved)" } else { "" };
        let words = format!(
            "{} = {}, was {}: {}{end}",
            text(&one["key"]),
            text(&one["value"]),
            text(&one["present"]),
            text(&one["why"])
        );
        ("suggested", words)
    };
    let list = |key: &str| verdict[key].as_array().into_iter().flatten();
    let stages = list("stages").map(stage);
    stages.chain(list("suggestions").map(suggestion)).collect()
}

/// Returns a line for each order to warm objects that is under way, and for the last one that is over.
fn warming(warms: &Value) -> Vec<(&'static str, String)> {
    let orders = || warms.as_array().into_iter().flatten();
    let is_over = |order: &&Value| order["is_over"] == true;
    let line = |order: &Value| {
        let words = format!(
            "{}: {} of {} objects, {} failed, {} fetched{}",
            text(&order["path"]),
            number(&order["done"]),
            number(&order["objects"]),
            number(&order["failed"]),
            bytes(&order["fetched"]),
            if is_over(&order) { "; over" } else { "" }
        );
        ("warm", words)
    };
    let under_way = orders().filter(|order| !is_over(order));
    under_way.chain(orders().find(is_over)).map(line).collect()
}

/// Returns whether each part is there, as far as the last check knows.
fn ready(now: &Value) -> String {
    match now["missing"].as_array() {
        Some(missing) if missing.is_empty() => "yes".to_owned(),
        Some(missing) => {
            let missing: Vec<_> = missing.iter().map(text).collect();
            format!("no: {}", missing.join(", "))
        }
        None if now["checked"].is_null() => "missing (not checked yet)".to_owned(),
        None => format!("missing (the last check was {} ago)", time(&now["checked"])),
    }
}

/// Returns a line for each cause of failures in a time.
fn failures(now: &Value, key: &str, name: &str) -> Vec<(&'static str, String)> {
    let causes = now[key].as_array().into_iter().flatten();
    let line = |cause: &Value| {
        let words = format!(
            "{} ({} in the last {name}, the last {} ago)",
            text(&cause["cause"]),
            number(&cause["count"]),
            time(&since(&now["time"], &cause["last"]))
        );
        ("failure", words)
    };
    causes.map(line).collect()
}

/// Returns a line for each cause of failures in the last hour or day, for long work under way and for each note of the
/// gateway.
fn troubles(now: &Value) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    let hour = failures(now, "errors_of_last_hour", "hour");
    let day = failures(now, "errors_of_last_day", "day");
    // The day's are told where there were others before the hour.
    let of = |key: &str| {
        let causes = now[key].as_array().into_iter().flatten();
        causes.filter_map(|one| one["count"].as_u64()).sum::<u64>()
    };
    lines.extend(hour);
    if of("errors_of_last_day") > of("errors_of_last_hour") {
        lines.extend(day);
    }
    for work in now["work"].as_array().into_iter().flatten() {
        lines.push(("work", text(work)));
    }
    for note in now["notes"].as_array().into_iter().flatten() {
        lines.push(("note", text(note)));
    }
    lines
}
