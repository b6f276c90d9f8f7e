//! The screen at 80 columns, its keys, and the text of `--once`.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::panes::Pane;
use super::screen::{Screen, Wish};
use super::snapshot::Snapshot;

fn look() -> Value {
    json!({
        "now": {
            "time": 1_800_000_000.0, "version": "1.2.3", "uptime": 93_784.0, "period": 10.0,
            "figures": {
                "requests_per_second": 1234.5, "bytes_per_second": 98_765_432.0, "fetched_bytes_per_second": 1_000_000.0,
                "hit_share": { "memory": 0.75, "disk": 0.2, "origin": 0.05 }, "amplification": 1.02,
                "first_byte": { "p50": 0.00021, "p90": 0.004, "p99": 1.5 }, "stalls": 3, "errors": 7
            },
            "errors_by_cause": [{ "cause": "the origin is down", "count": 7 }],
            "requests_in_flight": 12, "connections": 40, "open_files": 2, "streams": 3, "memory": 734_003_200,
            "notes": ["the cache disk /ssd is slow"]
        },
        "streams": { "streams": [
            { "id": 1, "kind": "http", "client": "10.0.0.9", "key": "films/slow.mkv", "size": 1000, "position": 250,
              "rate": 1_500_000.0, "window": 10, "ahead": 8_000_000, "in_flight": 4, "tier": "disk", "stalls": 0,
              "waiting": false, "age": 61.0 },
            { "id": 2, "kind": "mount", "client": "cp (4711)", "key": "films/fast\u{1b}[31m.mkv", "size": 1000,
              "position": 990, "rate": 90_000_000.0, "window": 10, "ahead": 0, "in_flight": 16, "tier": "origin",
              "stalls": 12, "waiting": true, "age": 5000.0 }
        ] },
        "tiers": {
            "memory": { "capacity": 536_870_912, "used": 268_435_456, "hit_share": 0.8, "evictions_per_second": 1.0,
              "eviction_age": 300.0 },
            "budget": { "capacity": 201_326_592, "lent": 20_132_659 },
            "disks": [{ "path": "/ssd", "state": "slow", "capacity": 107_374_182_400_u64, "used": 96_636_764_160_u64,
              "hit_share": 0.4, "written_per_second": 5_000_000.0, "eviction_age": 260_000.0, "read_time": 0.0123 }]
        },
        "origins": { "origins": [
            { "name": "media", "breaker_open": true, "first_byte": null, "requests_per_second": 0.25,
              "received_per_second": 0.0, "running": 0, "queued": 3, "retries": 9, "cost": 1.25 }
        ] },
        "writes": { "spool": { "used": 5_000_000, "size": 10_000_000 }, "drafts": [
            { "origin": "media", "key": "docs/a.odt", "stage": "waiting", "trouble": "the origin is unavailable",
              "size": 4_000_000, "spooled": 4_000_000, "sent": 1_000_000, "next_try": 12.0 }
        ] }
    })
}

fn drawn(screen: &Screen, width: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, 24)).expect("a terminal");
    terminal.draw(|frame| screen.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer().clone();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..24).map(line).collect()
}

fn press(screen: &mut Screen, code: KeyCode) -> Wish {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Returns the columns of the first line that contains `word`.
fn line_with(lines: &[String], word: &str) -> String {
    let found = lines.iter().find(|line| line.contains(word));
    found
        .unwrap_or_else(|| panic!("no {word} in\n{}", lines.join("\n")))
        .clone()
}

#[test]
fn each_pane_fits_into_80_columns() {
    let mut screen = Screen::new(Snapshot::of(look()));
    let expected: [&[&str]; 5] = [
        &[
            "Tidegate 1.2.3, up 26 h",
            "1234 a second",
            "98.8 MB/s",
            "memory 75 %, disk 20 %, bucket 5 %",
            "210 µs / 4 ms / 2 s",
            "the cache disk /ssd is slow",
        ],
        &[
            "2 streams",
            "RATE",
            "90.0 MB/s",
            "waits",
            "films/slow.mkv",
            "10.0.0.9",
        ],
        &[
            "TIER", "/ssd", "slow", "107 GB", "90 %", "3 d", "12 ms", "budget", "10 %",
        ],
        &["ORIGIN", "media", "down", "0.25", "1.25"],
        &[
            "spool 5.00 MB of 10.0 MB (50 %)",
            "waiting",
            "25 %",
            "12 s",
            "docs/a.odt",
            "unavailable",
        ],
    ];
    for (index, words) in expected.iter().enumerate() {
        press(
            &mut screen,
            KeyCode::Char(char::from(b'1' + u8::try_from(index).expect("few"))),
        );
        let lines = drawn(&screen, 80);
        let all = lines.join("\n");
        for word in *words {
            assert!(all.contains(word), "no {word} in\n{all}");
        }
        assert!(lines[0].contains(Pane::ALL[index].title()), "{}", lines[0]);
        assert!(lines[23].contains("? help"), "{}", lines[23]);
    }
}

#[test]
fn streams_are_sorted_by_the_column_that_is_chosen() {
    let mut screen = Screen::new(Snapshot::of(look()));
    press(&mut screen, KeyCode::Char('2'));
    let order = |screen: &Screen| {
        let lines = drawn(screen, 100);
        let at = |word: &str| {
            lines
                .iter()
                .position(|line| line.contains(word))
                .expect(word)
        };
        (
            at("10.0.0.9") < at("cp (4711)"),
            line_with(&lines, "OBJECT"),
        )
    };
    let (slow_first, titles) = order(&screen);
    assert!(
        !slow_first && titles.contains("RATEv"),
        "the fastest first: {titles}"
    );
    press(&mut screen, KeyCode::Char('r'));
    let (slow_first, titles) = order(&screen);
    assert!(slow_first && titles.contains("RATE^"), "{titles}");
    press(&mut screen, KeyCode::Char('r'));
    // AT, AHEAD.
    press(&mut screen, KeyCode::Char('s'));
    press(&mut screen, KeyCode::Char('s'));
    let (slow_first, titles) = order(&screen);
    assert!(slow_first && titles.contains("AHEADv"), "{titles}");
    for _ in 0..3 {
        press(&mut screen, KeyCode::Char('S'));
    }
    let (slow_first, titles) = order(&screen);
    assert!(
        slow_first && !titles.contains('v'),
        "as the gateway lists them: {titles}"
    );
    press(&mut screen, KeyCode::Char('S'));
    assert!(order(&screen).1.contains("OBJECTv"), "round the other way");
}

#[test]
fn a_key_cannot_control_the_terminal() {
    let mut screen = Screen::new(Snapshot::of(look()));
    press(&mut screen, KeyCode::Char('2'));
    let all = drawn(&screen, 120).join("\n");
    assert!(
        all.contains("films/fast\\u{1b}[31m.mkv") && !all.contains('\u{1b}'),
        "{all}"
    );
    let text = Pane::Streams.table(&Snapshot::of(look())).text();
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn help_comes_and_goes_and_the_user_can_leave() {
    let mut screen = Screen::new(Snapshot::of(look()));
    assert_eq!(press(&mut screen, KeyCode::Char('?')), Wish::Stay);
    assert!(
        drawn(&screen, 80)
            .join("\n")
            .contains("move through the rows")
    );
    assert_eq!(
        press(&mut screen, KeyCode::Esc),
        Wish::Stay,
        "the help goes first"
    );
    assert!(
        !drawn(&screen, 80)
            .join("\n")
            .contains("move through the rows")
    );
    assert_eq!(press(&mut screen, KeyCode::Char('q')), Wish::Leave);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.press(ctrl_c), Wish::Leave);
}

#[test]
fn a_failed_look_is_told_and_the_last_one_stays() {
    let mut screen = Screen::new(Snapshot::of(look()));
    screen.update(Err(anyhow::anyhow!(
        "cannot watch the gateway through 127.0.0.1:8081"
    )));
    let lines = drawn(&screen, 80);
    assert!(
        lines[23].contains("cannot watch the gateway"),
        "{}",
        lines[23]
    );
    assert!(lines.join("\n").contains("Tidegate 1.2.3"));

    press(&mut screen, KeyCode::Char('p'));
    screen.update(Ok(Snapshot::of(json!({}))));
    assert!(
        drawn(&screen, 80).join("\n").contains("Tidegate 1.2.3"),
        "paused"
    );
    press(&mut screen, KeyCode::Char('p'));
    screen.update(Ok(Snapshot::of(json!({}))));
    let lines = drawn(&screen, 80);
    assert!(
        lines.join("\n").contains("Tidegate -"),
        "a part that is missing is no end"
    );
    assert!(lines[23].contains("? help"), "{}", lines[23]);
}

#[test]
fn rows_beyond_the_screen_are_reached() {
    let mut look = look();
    let stream = look["streams"]["streams"][0].clone();
    let many = (0..50).map(|number| {
        let mut stream = stream.clone();
        stream["key"] = json!(format!("films/{number:02}"));
        stream
    });
    look["streams"]["streams"] = many.collect();
    let mut screen = Screen::new(Snapshot::of(look));
    press(&mut screen, KeyCode::Char('2'));
    assert!(drawn(&screen, 80).join("\n").contains("films/00"));
    for _ in 0..10 {
        press(&mut screen, KeyCode::PageDown);
    }
    let all = drawn(&screen, 80).join("\n");
    assert!(
        all.contains("films/49") && !all.contains("films/00"),
        "{all}"
    );
}

#[test]
fn the_text_has_every_figure_in_columns() {
    let table = Pane::Tiers.table(&Snapshot::of(look()));
    let text = table.text();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "Tiers");
    let at = |line: &str, word: &str| line.find(word).expect(word) + word.len();
    assert_eq!(at(lines[1], "USED"), at(lines[2], "268 MB"), "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines.iter().all(|line| !line.ends_with(' ')));
}
