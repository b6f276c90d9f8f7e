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

/// Returns a line about a tier: its evictions, and of a disk its state in a sentence and since when, its content, its
/// writes and its wear.
pub(super) fn tier(tier: &Value, now: &Value) -> String {
    let evicted = &tier["evictions_per_second"];
    let evicted = evicted
        .is_number()
        .then(|| format!("{} evictions a second", number(evicted)));
    if !tier["words"].is_string() {
        return evicted.unwrap_or_default();
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
    for key in ["pinned", "queued", "free"] {
        words.push(format!("{} {key}", bytes(&tier[key])));
    }
    words.push(format!("{} chunks", number(&tier["chunks"])));
    words.extend(evicted);
    words.push(format!("{} faults", number(&tier["faults"])));
    words.join("; ")
}

/// Returns a line about a draft: its bucket and last write, the version that it began with, and of a refused one the version
/// in the bucket and the choices.
pub(super) fn write(draft: &Value, now: &Value) -> String {
    let mut words = vec![
        format!("of {}", text(&draft["origin"])),
        format!("written {} ago", time(&since(now, &draft["modified"]))),
        match draft["base"].is_string() {
            true => format!("began as version {}", text(&draft["base"])),
            false => "began empty".to_owned(),
        },
    ];
    if draft["stage"] == "refused" {
        let theirs = &draft["theirs"];
        words.push(match &theirs["exists"] {
            Value::Bool(true) => format!(
                "theirs: version {}, {}, changed {} ago",
                text(&theirs["etag"]),
                bytes(&theirs["size"]),
                time(&since(now, &theirs["modified"]))
            ),
            Value::Bool(false) => "theirs: removed".to_owned(),
            _ if draft["asked"] == false => "theirs: the bucket is not asked yet".to_owned(),
            _ => "theirs: the bucket does not say".to_owned(),
        });
        let choices = draft["choices"].as_array().into_iter().flatten();
        let choices: Vec<_> = choices.map(text).collect();
        words.push(format!("choices: {}", choices.join(", ")));
    }
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
