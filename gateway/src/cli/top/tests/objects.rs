//! The pane Objects: the walk from the routes down, and what is cached of each object.

use ratatui::crossterm::event::KeyCode;
use serde_json::{Value, json};

use super::{drawn, line_with, look, press};
use crate::cli::top::panes::Pane;
use crate::cli::top::screen::{KeyEffect, Screen};
use crate::cli::top::snapshot::Snapshot;
use crate::cli::top::walk::FolderPage;

/// Two routes, as `/api/v1/routes` has them.
pub(super) fn routes() -> Value {
    json!({ "routes": [
        { "host": null, "path": "/films/", "origin": "media", "profile": "media", "access": null, "keys": [] },
        { "host": "www.example", "path": "/", "origin": "site", "profile": "web", "access": "members", "keys": ["a"] },
    ] })
}

/// The first page of a folder, as `/api/v1/objects` has it.
fn folder() -> Value {
    let pin = json!({ "prefix": "films/", "limit": 5_000_000, "used": 1_000_000 });
    let run = |start: u64, end: u64, memory: bool, disk: bool| json!({ "start": start, "end": end, "memory": memory, "disk": disk, "pinned": false });
    json!({
        "origin": "media", "prefix": "films/", "pin": pin, "next": "00ff", "note": null,
        "names": [
            { "name": "a & b", "path": "/films/a%20%26%20b/", "folder": true, "size": null, "cached": null, "pin": pin,
              "draft": null },
            { "name": "one.mkv", "path": "/films/one.mkv", "folder": false, "size": 1200, "pin": pin, "draft": null,
              "cached": { "etag": "\"e1\"", "state": "fresh", "freshness": "fresh for another 54 s", "age": 6.0, "version_id": "v7", "memory": 300,
                "disk": 600, "absent": 300, "pinned": 0,
                "runs": [run(0, 300, true, true), run(300, 900, false, true), run(900, 1200, false, false)] } },
            { "name": "new\u{1b}[31m", "path": null, "folder": false, "size": 7, "cached": null, "pin": null,
              "draft": "waiting" },
        ]
    })
}

fn on_objects() -> Screen {
    let mut screen = Screen::new(Snapshot::of(look()));
    press(&mut screen, KeyCode::Char('3'));
    screen
}

/// Presses a key that asks for a page; returns it.
fn asked(screen: &mut Screen, code: KeyCode) -> FolderPage {
    match press(screen, code) {
        KeyEffect::Ask(page) => page,
        wish => panic!("{wish:?}"),
    }
}

/// Returns a screen that shows the folder of the first route.
fn in_folder() -> Screen {
    let mut screen = on_objects();
    let page = asked(&mut screen, KeyCode::Enter);
    screen.take_folder(&page, &folder());
    screen
}

#[test]
fn the_walk_begins_at_the_routes_and_goes_down_and_up() {
    let mut screen = on_objects();
    let page = asked(&mut screen, KeyCode::Enter);
    assert_eq!(
        page.target(),
        "/api/v1/objects?limit=500&path=%2Ffilms%2F&host="
    );
    assert!(
        drawn(&screen, 80)
            .join("\n")
            .contains("/films/ is asked for")
    );
    screen.take_folder(&page, &folder());
    let lines = drawn(&screen, 80);
    assert!(
        line_with(&lines, "Objects of").contains("media: /films/, 3 names, more on the next page")
    );
    // The next look at the gateway changes nothing of it.
    screen.update(Ok(Snapshot::of(look())));
    assert_eq!(drawn(&screen, 80), lines);
    // A folder has the path that the gateway gave it, encoded once more for the query.
    let below = asked(&mut screen, KeyCode::Enter);
    assert_eq!(
        below.target(),
        "/api/v1/objects?limit=500&path=%2Ffilms%2Fa%2520%2526%2520b%2F&host="
    );
    // The answer of a folder that was left is not shown.
    press(&mut screen, KeyCode::Backspace);
    screen.take_folder(&below, &json!({ "error": "late" }));
    assert_eq!(drawn(&screen, 80), lines);
    press(&mut screen, KeyCode::Backspace);
    assert!(drawn(&screen, 80).join("\n").contains("the routes"));
    assert_eq!(press(&mut screen, KeyCode::Backspace), KeyEffect::Stay);
    press(&mut screen, KeyCode::Down);
    assert_eq!(
        asked(&mut screen, KeyCode::Enter).target(),
        "/api/v1/objects?limit=500&path=%2F&host=www%2Eexample"
    );
}

#[test]
fn a_row_stays_selected_while_its_folder_is_asked_for() {
    let mut screen = in_folder();
    press(&mut screen, KeyCode::Down);
    let lines = drawn(&screen, 80);
    assert!(lines.join("\n").contains("version \"e1\""), "{lines:#?}");
    let page = asked(&mut screen, KeyCode::Char('u'));
    screen.update(Ok(Snapshot::of(look())));
    press(&mut screen, KeyCode::Down);
    screen.take_folder(&page, &json!({ "error": "the origin is down" }));
    screen.update(Ok(Snapshot::of(look())));
    // The object is the third name now.
    let mut later = folder();
    let names = later["names"].as_array_mut().expect("names");
    names.swap(1, 2);
    screen.take_folder(&page, &later);
    assert_eq!(drawn(&screen, 80)[19..], lines[19..], "the same object");
}

#[test]
fn the_folder_that_was_left_is_selected_again() {
    let mut screen = on_objects();
    press(&mut screen, KeyCode::Down);
    let page = asked(&mut screen, KeyCode::Enter);
    screen.take_folder(&page, &folder());
    press(&mut screen, KeyCode::Down);
    press(&mut screen, KeyCode::Backspace);
    screen.update(Ok(Snapshot::of(look())));
    assert_eq!(asked(&mut screen, KeyCode::Enter), page);
}

#[test]
fn an_object_is_shown_with_its_tiers_its_freshness_and_its_pin() {
    let mut screen = in_folder();
    press(&mut screen, KeyCode::Down);
    let lines = drawn(&screen, 80);
    let line = line_with(&lines, "one.mkv");
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(
        words,
        [
            "1.2",
            "KiB",
            "25",
            "%",
            "50",
            "%",
            "###======...",
            "fresh",
            "pin",
            "one.mkv"
        ]
    );
    let all = lines.join("\n");
    assert!(
        all.contains("fresh for another 54 s; confirmed 6 s ago; version \"e1\"; id v7; pinned by"),
        "{all}"
    );
    assert!(line_with(&lines, "waiting").contains("new\\u{1b}[31m"));
    assert_eq!(
        press(&mut screen, KeyCode::Enter),
        KeyEffect::Stay,
        "an object is no folder"
    );
}

#[test]
fn a_large_folder_has_pages() {
    let mut screen = in_folder();
    let next = asked(&mut screen, KeyCode::Char('n'));
    assert!(next.target().ends_with("&path=%2Ffilms%2F&host=&page=00ff"));
    let mut last = folder();
    last["next"] = Value::Null;
    screen.take_folder(&next, &last);
    let all = drawn(&screen, 80).join("\n");
    assert!(all.contains("3 names") && !all.contains("more on"), "{all}");
    assert_eq!(press(&mut screen, KeyCode::Char('n')), KeyEffect::Stay);
    assert_eq!(asked(&mut screen, KeyCode::Char('u')), next);
    let first = asked(&mut screen, KeyCode::Char('b'));
    assert!(first.target().ends_with("&path=%2Ffilms%2F&host="));
    screen.take_folder(&first, &folder());
    assert_eq!(press(&mut screen, KeyCode::Char('b')), KeyEffect::Stay);
}

#[test]
fn a_folder_that_cannot_be_had_says_why() {
    let mut screen = on_objects();
    let page = asked(&mut screen, KeyCode::Enter);
    screen.take_folder(&page, &json!({ "error": "the origin is down" }));
    let all = drawn(&screen, 80).join("\n");
    assert!(
        all.contains("Objects: missing (the origin is down)"),
        "{all}"
    );
}

#[test]
fn a_sorted_row_opens_its_own_folder() {
    let mut screen = in_folder();
    // By NAME, backwards: the last column, and Enter is on the last row.
    press(&mut screen, KeyCode::Char('S'));
    press(&mut screen, KeyCode::Char('r'));
    press(&mut screen, KeyCode::PageDown);
    assert!(line_with(&drawn(&screen, 80), "NAME").contains("NAME^"));
    let selected = asked(&mut screen, KeyCode::Enter);
    assert!(selected.target().contains("%2526"), "{}", selected.target());
}

#[test]
fn the_text_has_the_folder_or_the_routes() {
    let mut snapshot = Snapshot::of(look());
    let text = Pane::Objects.table(&snapshot).text();
    assert!(
        text.contains("/films/") && text.contains("members"),
        "{text}"
    );
    snapshot.set_folder(folder());
    let text = Pane::Objects.table(&snapshot).text();
    assert!(
        text.contains("###======...") && text.contains("a & b/"),
        "{text}"
    );
}
