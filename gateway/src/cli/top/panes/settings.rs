//! The pane Settings: every key, its value, its source, and what a change of it needs.

use serde_json::Value;

use super::super::figures::text;
use super::super::table::{Table, left, rows, word};

/// Returns the table of the keys.
pub(super) fn settings(settings: &Value) -> Table {
    let row = |setting: &Value| {
        vec![
            word(text(&setting["key"])),
            word(value(setting)),
            word(text(&setting["source"])),
            word(text(&setting["needs"])),
        ]
    };
    let rows = rows(&settings["settings"], row);
    Table {
        title: format!("Settings: {} keys", rows.len()),
        columns: vec![
            left("KEY", 0),
            left("VALUE", 26),
            left("SOURCE", 11),
            left("CHANGE", 7),
        ],
        rows,
    }
}

fn value(setting: &Value) -> String {
    match setting["secret"] == true && setting["source"] != "default" {
        true => "(secret)".to_owned(),
        false => text(&setting["value"]),
    }
}

/// Returns a line about a key: what it is for, its default and the place that sets it.
pub(super) fn detail(setting: &Value) -> String {
    // It may have paragraphs.
    let help = setting["help"].as_str().unwrap_or_default();
    let help: Vec<_> = help.split_whitespace().collect();
    let mut words = vec![text(&Value::from(help.join(" ")))];
    if setting["default"].is_string() {
        words.push(format!("default {}", text(&setting["default"])));
    }
    if setting["place"].is_string() {
        words.push(format!("set by {}", text(&setting["place"])));
    }
    words.join("; ")
}
