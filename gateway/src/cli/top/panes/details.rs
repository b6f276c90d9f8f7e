//! A line about one row of a pane: what its columns have no room for.

use serde_json::Value;

use super::super::figures::{bytes, number, since, text, time};

/// Returns a line about a stream.
pub(super) fn stream(stream: &Value) -> String {
    format!(
        "{} of {}: {} of {}, window {}",
        text(&stream["kind"]),
        text(&stream["origin"]),
        bytes(&stream["position"]),
        bytes(&stream["size"]),
        bytes(&stream["window"])
    )
}

/// Returns a line about a tier: of a disk its state in a sentence and since when, its writes and its wear.
pub(super) fn tier(tier: &Value, now: &Value) -> String {
    if !tier["words"].is_string() {
        return String::new();
    }
    let mut words = vec![text(&tier["words"])];
    if tier["why"].is_string() {
        words.push(text(&tier["why"]));
    }
    if tier["since"].is_number() {
        words.push(format!("for {}", time(&since(now, &tier["since"]))));
    }
    words.push(format!("{} written", bytes(&tier["written"])));
    if tier["write_amplification"].is_number() {
        let wear = number(&tier["write_amplification"]);
        words.push(format!("{wear} bytes for each that was stored"));
    }
    words.push(format!("{} pinned", bytes(&tier["pinned"])));
    words.push(format!("{} faults", number(&tier["faults"])));
    words.join("; ")
}

/// Returns a line about an origin: its requests since the start by kind and result, and its bytes.
pub(super) fn origin(origin: &Value) -> String {
    let kinds = origin["requests"].as_array().into_iter().flatten();
    let kinds = kinds.map(|kind| {
        let results = kind["results"].as_object().into_iter().flatten();
        let results: Vec<_> = results
            .map(|(result, count)| format!("{} {}", text(&Value::from(&**result)), number(count)))
            .collect();
        format!("{}: {}", text(&kind["kind"]), results.join(", "))
    });
    let moved = format!(
        "{} received, {} sent",
        bytes(&origin["received"]),
        bytes(&origin["sent"])
    );
    let words: Vec<_> = kinds.chain([moved]).collect();
    words.join("; ")
}
