//! The pane Settings.

use ratatui::crossterm::event::KeyCode;
use serde_json::{Value, json};

use super::{drawn, line_with, look, press};
use crate::cli::top::panes::Pane;
use crate::cli::top::screen::Screen;
use crate::cli::top::snapshot::Snapshot;

/// Three keys, as `/api/v1/settings` has them.
pub(super) fn settings() -> Value {
    json!({ "settings": [
        { "key": "cache.memory", "name": "cache.memory", "help": "Bytes of objects in memory", "kind": "size",
          "choices": [], "default": "256MiB", "value": "512MiB", "secret": false, "source": "file",
          "place": "tidegate.toml:7", "needs": "reload" },
        { "key": "admin.token", "name": "admin.token", "help": "The token\n\nof changes", "kind": "text", "choices": [],
          "default": null, "value": null, "secret": true, "source": "environment", "place": "TIDEGATE_ADMIN__TOKEN",
          "needs": "restart" },
        { "key": "http.drain", "name": "http.drain", "help": "The wait for answers at the end", "kind": "duration",
          "choices": [], "default": "30s", "value": "30s", "secret": false, "source": "default", "place": null,
          "needs": "reload" },
    ] })
}

fn on_settings() -> Screen {
    let mut screen = Screen::new(Snapshot::of(look()));
    press(&mut screen, KeyCode::Char('-'));
    screen
}

#[test]
fn the_selected_key_is_explained_and_keys_are_sorted() {
    let mut screen = on_settings();
    press(&mut screen, KeyCode::Down);
    let all = drawn(&screen, 100).join("\n");
    assert!(
        all.contains("The token of changes; set by TIDEGATE_ADMIN__TOKEN"),
        "{all}"
    );
    // By KEY: the chosen key stays selected, in the first row.
    press(&mut screen, KeyCode::Char('s'));
    let lines = drawn(&screen, 100);
    assert!(line_with(&lines, "SOURCE").contains("KEYv"));
    let at = |key: &str| lines.iter().position(|line| line.contains(key)).expect(key);
    assert!(at("admin.token") < at("cache.memory") && at("cache.memory") < at("http.drain"));
    assert!(lines.join("\n").contains("The token of changes"));
    press(&mut screen, KeyCode::Down);
    let all = drawn(&screen, 100).join("\n");
    assert!(all.contains("Bytes of objects in memory"), "{all}");
}

#[test]
fn only_keys_with_a_text_are_shown() {
    let mut screen = on_settings();
    press(&mut screen, KeyCode::Char('/'));
    for letter in "Drainq".chars() {
        press(&mut screen, KeyCode::Char(letter));
    }
    assert!(line_with(&drawn(&screen, 80), "rows with").contains("Drainq"));
    press(&mut screen, KeyCode::Backspace);
    press(&mut screen, KeyCode::Enter);
    let all = drawn(&screen, 80).join("\n");
    assert!(
        all.contains("http.drain") && !all.contains("cache.memory"),
        "{all}"
    );
    assert!(all.contains("The wait for answers at the end"), "{all}");
    press(&mut screen, KeyCode::Esc);
    assert!(drawn(&screen, 80).join("\n").contains("cache.memory"));
}

#[test]
fn the_text_has_each_key_with_its_value_and_source() {
    let text = Pane::Settings.table(&Snapshot::of(look())).text();
    let line = text.lines().find(|line| line.contains("cache.memory"));
    let words: Vec<_> = line.expect("its line").split_whitespace().collect();
    assert_eq!(words, ["cache.memory", "512MiB", "file", "reload"]);
}
