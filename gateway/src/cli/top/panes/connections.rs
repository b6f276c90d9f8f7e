//! The panes Events, Hooks and Fleet.

use serde_json::Value;

use super::super::figures::{counts, number, since, text, time};
use super::super::table::{Table, cell, left, right, rows, word};

/// Returns the last events; the title has the subscriptions.
pub(super) fn events(events: &Value, now: &Value) -> Table {
    let subscriptions = events["subscriptions"].as_array().into_iter().flatten();
    let subscriptions: Vec<_> = subscriptions
        .map(|one| {
            let proven = if one["alive"] == true {
                "proven"
            } else {
                "not proven"
            };
            let lag = time(&one["lag"]["p50"]);
            format!("{} {proven}, lag {lag}", text(&one["name"]))
        })
        .collect();
    let row = |event: &Value| {
        let age = since(now, &event["time"]);
        vec![
            cell(time(&age), &age),
            word(text(&event["source"])),
            word(text(&event["kind"])),
            word(text(&event["result"])),
            cell(time(&event["lag"]), &event["lag"]),
            word(text(&event["key"])),
        ]
    };
    Table {
        title: match subscriptions.is_empty() {
            true => "Events: no subscription".to_owned(),
            false => format!("Events: {}", subscriptions.join("; ")),
        },
        columns: vec![
            right("AGO", 6),
            left("SOURCE", 12),
            left("CHANGE", 12),
            left("RESULT", 9),
            right("LAG", 6),
            left("KEY", 0),
        ],
        rows: rows(&events["last"], row),
    }
}

/// Returns the hooks.
pub(super) fn hooks(hooks: &Value) -> Table {
    let row = |hook: &Value| {
        vec![
            word(text(&hook["name"])),
            word(
                hook["origin"]
                    .as_str()
                    .map_or("all".to_owned(), |_| text(&hook["origin"])),
            ),
            word(text(&hook["prefix"])),
            cell(number(&hook["pending"]), &hook["pending"]),
            word(counts(&hook["calls"])),
            word(counts(&hook["dropped"])),
        ]
    };
    let rows = rows(&hooks["hooks"], row);
    Table {
        title: match rows.is_empty() {
            true => "Hooks: none".to_owned(),
            false => "Hooks".to_owned(),
        },
        columns: vec![
            left("HOOK", 14),
            left("ORIGIN", 10),
            left("PREFIX", 14),
            right("WAIT", 5),
            left("CALLS", 0),
            left("GIVEN UP", 14),
        ],
        rows,
    }
}

/// Returns the other gateways of the fleet.
pub(super) fn fleet(fleet: &Value) -> Table {
    let row = |gateway: &Value| {
        vec![
            word(text(&gateway["name"])),
            word(text(&gateway["id"])),
            cell(time(&gateway["heard"]), &gateway["heard"]),
        ]
    };
    let state = match (&fleet["configured"], &fleet["connected"]) {
        (Value::Bool(false), _) => "this gateway works alone".to_owned(),
        (_, Value::Bool(true)) => format!("connected, lag {}", time(&fleet["lag"]["p50"])),
        _ => "not connected".to_owned(),
    };
    Table {
        title: format!("Fleet: {state}"),
        columns: vec![left("GATEWAY", 0), left("ID", 16), right("HEARD", 6)],
        rows: rows(&fleet["gateways"], row),
    }
}

/// Returns a line about the subscriptions: the way of their events, their lags, and what may have been missed.
pub(super) fn events_detail(events: &Value) -> String {
    let subscriptions = events["subscriptions"].as_array().into_iter().flatten();
    let lines: Vec<_> = subscriptions
        .map(|one| {
            format!(
                "{}: {} of {}, lag {} (p99 {}), events: {}, gaps: {}",
                text(&one["name"]),
                text(&one["kind"]),
                text(&one["origin"]),
                time(&one["lag"]["p50"]),
                time(&one["lag"]["p99"]),
                counts(&one["events"]),
                counts(&one["gaps"])
            )
        })
        .collect();
    lines.join("\n")
}

/// Returns a line about the messages of the fleet.
pub(super) fn fleet_detail(fleet: &Value) -> String {
    if fleet["configured"] != true {
        return String::new();
    }
    format!(
        "sent: {}; received: {}; doubts: {}",
        counts(&fleet["sent"]),
        counts(&fleet["received"]),
        counts(&fleet["doubts"])
    )
}
