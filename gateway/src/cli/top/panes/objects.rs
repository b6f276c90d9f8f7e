//! The pane Objects: a page of a folder with what is cached of each object, or the routes to begin at.

use serde_json::Value;

use super::super::figures::{NONE, bytes, text, time};
use super::super::table::{Table, cell, left, part, right, rows, word};

/// Characters of the bar of an object.
const BAR: usize = 12;

/// Returns the table of a folder; without one, that of the routes.
pub(super) fn objects(folder: &Value, routes: &Value) -> Table {
    match folder {
        Value::Null => route_table(routes),
        Value::String(waits) => Table::titled(format!("Objects: {waits}")),
        folder => folder_table(folder),
    }
}

/// Returns the list that the rows of the table are made of.
pub(super) fn list<'v>(folder: &'v Value, routes: &'v Value) -> &'v Value {
    match folder {
        Value::Null => &routes["routes"],
        folder => &folder["names"],
    }
}

fn route_table(routes: &Value) -> Table {
    let row = |route: &Value| {
        let words = ["path", "host", "origin", "profile", "access"];
        words.map(|key| word(text(&route[key]))).into()
    };
    Table {
        title: "Objects: the routes".to_owned(),
        columns: vec![
            left("ROUTE", 0),
            left("HOST", 18),
            left("ORIGIN", 12),
            left("PROFILE", 10),
            left("ACCESS", 10),
        ],
        rows: rows(&routes["routes"], row),
    }
}

fn folder_table(folder: &Value) -> Table {
    let row = |name: &Value| {
        let (size, cached) = (&name["size"], &name["cached"]);
        let state = [&name["draft"], &cached["state"]];
        let state = state.into_iter().find(|state| state.is_string());
        let slash = if name["folder"] == true { "/" } else { "" };
        vec![
            cell(bytes(size), size),
            part(&cached["memory"], size),
            part(&cached["disk"], size),
            word(bar(cached, size)),
            word(state.map_or(NONE.to_owned(), text)),
            word(if name["pin"].is_object() { "pin" } else { NONE }),
            word(format!("{}{slash}", text(&name["name"]))),
        ]
    };
    let rows = rows(&folder["names"], row);
    let more = match folder["next"].is_string() {
        true => ", more on the next page",
        false => "",
    };
    let note = folder["note"]
        .as_str()
        .map_or(String::new(), |_| format!("; {}", text(&folder["note"])));
    Table {
        title: format!(
            "Objects of {}: /{}, {} names{more}{note}",
            text(&folder["origin"]),
            text(&folder["prefix"]),
            rows.len()
        ),
        columns: vec![
            right("SIZE", 8),
            right("MEMORY", 6),
            right("DISK", 5),
            left("CACHED", BAR),
            left("STATE", 11),
            left("PIN", 3),
            left("NAME", 0),
        ],
        rows,
    }
}

/// Returns the chunks of an object as a bar: `#` in memory, `=` on disk, `.` in neither. One of its characters shows the
/// byte in the middle of its share.
fn bar(cached: &Value, size: &Value) -> String {
    let (Some(runs), Some(size)) = (cached["runs"].as_array(), size.as_u64()) else {
        return NONE.to_owned();
    };
    let mark = |nth: usize| {
        let at = (u128::from(size) * (2 * nth as u128 + 1) / (2 * BAR as u128)) as u64;
        let has =
            |run: &&Value| run["start"].as_u64() <= Some(at) && run["end"].as_u64() > Some(at);
        match runs.iter().find(has) {
            Some(run) if run["memory"] == true => '#',
            Some(run) if run["disk"] == true => '=',
            _ => '.',
        }
    };
    (0..BAR).map(mark).collect()
}

/// Returns a line about a name: its version and that one's id in the bucket, whether it is fresh, and its pin.
pub(super) fn detail(name: &Value) -> String {
    let cached = &name["cached"];
    let mut words = Vec::new();
    if cached.is_object() {
        words.push(text(&cached["freshness"]));
        words.push(format!("confirmed {} ago", time(&cached["age"])));
    }
    if let Some(etag) = [&cached["etag"], &name["etag"]]
        .into_iter()
        .find(|it| it.is_string())
    {
        words.push(format!("version {}", text(etag)));
    }
    if cached["version_id"].is_string() {
        words.push(format!("id {}", text(&cached["version_id"])));
    }
    let pin = &name["pin"];
    if pin.is_object() {
        words.push(format!(
            "pinned by {} ({} of {})",
            text(&pin["prefix"]),
            bytes(&pin["used"]),
            bytes(&pin["limit"])
        ));
    }
    if name["route"].is_string() {
        words.push(format!("the route {} governs it", text(&name["route"])));
    }
    words.join("; ")
}
