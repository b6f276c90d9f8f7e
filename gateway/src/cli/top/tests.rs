//! The screen at 80 columns, its keys, and the text of `--once`.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::panes::Pane;
use super::screen::{KeyEffect, PANE_KEYS, Screen};
use super::snapshot::Snapshot;

mod details;
mod objects;
mod settings;

fn look() -> Value {
    json!({
        "now": {
            "time": 1_800_000_000.0, "version": "1.2.3", "uptime": 93_784.0, "period": 10.0,
            "figures": {
                "requests_per_second": 1234.5, "bytes_per_second": 98_765_432.0, "fetched_bytes_per_second": 1_000_000.0,
                "hit_share": { "memory": 0.75, "disk": 0.2, "origin": 0.05 }, "amplification": 1.02,
                "first_byte": { "p50": 0.00021, "p90": 0.004, "p99": 1.5 }, "stalls": 3, "errors": 7, "ended_by_client": 21,
                "mount_operations_per_second": 17.0, "waits": { "p50": 0.02, "p90": 0.05, "p99": 2.5 }
            },
            "errors_of_last_hour": [{ "cause": "the origin is down", "count": 7, "last": 1_799_999_988.0 }],
            "errors_of_last_day": [{ "cause": "the origin is down", "count": 9, "last": 1_799_999_988.0 }],
            "missing": ["origin media"], "checked": 2.0, "requests_in_flight": 12, "connections": 40, "open_files": 2, "streams": 3, "memory": 734_003_200,
            "work": ["sending the spool: 3 of 40"],
            "notes": ["the cache disk /ssd is slow"]
        },
        "streams": { "streams": [
            { "id": 1, "kind": "http", "origin": "media", "client": "10.0.0.9", "key": "films/slow.mkv", "size": 1000, "position": 250,
              "rate": 1_500_000.0, "window": 10, "ahead": 8_000_000, "in_flight": 4, "tier": "disk", "stalls": 0,
              "waiting": false, "age": 61.0 },
            { "id": 2, "kind": "mount", "origin": "media", "client": "cp (4711)", "key": "films/fast\u{1b}[31m.mkv", "size": 1000,
              "position": 990, "rate": 90_000_000.0, "window": 10, "ahead": 0, "in_flight": 16, "tier": "origin",
              "stalls": 12, "waiting": true, "age": 5000.0 }
        ] },
        "tiers": {
            "memory": { "capacity": 536_870_912, "used": 268_435_456, "hit_share": 0.8, "evictions_per_second": 1.0,
              "eviction_age": 300.0 },
            "budget": { "capacity": 201_326_592, "lent": 20_132_659 },
            "disks": [{ "path": "/ssd", "state": "slow", "words": "It is slow.", "why": null, "since": 1_799_996_400.0,
              "written": 1_073_741_824, "write_amplification": 1.25, "pinned": 0, "queued": 4096, "free": 10_737_418_240_u64,
              "chunks": 1234, "evictions_per_second": 2.5, "faults": 2, "capacity": 107_374_182_400_u64, "used": 96_636_764_160_u64,
              "hit_share": 0.4, "written_per_second": 5_000_000.0, "eviction_age": 260_000.0, "read_time": 0.0123 }]
        },
        "origins": { "origins": [
            { "name": "media", "breaker_open": true, "first_byte": null, "requests_per_second": 0.25,
              "received_per_second": 0.0, "running": 0, "queued": 3, "retries": 9, "cost": 1.25,
              "requests": [{ "kind": "get", "results": { "ok": 7, "timeout": 1 } }], "received": 4096, "sent": 0 }
        ] },
        "writes": { "spool": { "used": 5_000_000, "size": 10_000_000 }, "drafts": [
            { "origin": "media", "key": "docs/a.odt", "stage": "waiting", "trouble": "the origin is unavailable",
              "size": 4_000_000, "spooled": 4_000_000, "sent": 1_000_000, "next_try": 12.0 }
        ] },
        "events": {
            "subscriptions": [{ "name": "bucket", "alive": true, "lag": { "p50": 0.012 } }],
            "last": [{ "time": 1_799_999_940.0, "source": "bucket", "kind": "created", "key": "films/new.mkv",
              "result": "applied", "lag": 0.3 }]
        },
        "hooks": { "hooks": [{ "name": "thumbs", "origin": null, "prefix": "pictures/", "pending": 4,
          "calls": { "failed": 1, "ok": 17 }, "dropped": {} }] },
        "fleet": { "configured": true, "connected": true, "lag": { "p50": 0.002 }, "gateways": [
            { "id": "00000000000000aa", "name": "nas.example", "heard": 0.5 },
            { "id": "00000000000000bb", "name": null, "heard": 3.0 }
        ] },
        "history": history(),
        "routes": objects::routes(),
        "settings": settings::settings(),
        "doctor": {
            "verdict": { "narrowest": "bucket of media", "buckets_rate": 56_000_000.0 },
            "efficiency": { "share": 0.55, "taken": 30_800_000.0, "possible": 56_000_000.0 }
        }
    })
}

/// Returns a history with two points in the last 5 minutes, one before them, and one of the day.
fn history() -> Value {
    let point = |time: f64, rate: f64, p99: Value| {
        json!({ "time": time, "figures": {
            "requests_per_second": rate, "bytes_per_second": rate * 1e6, "fetched_bytes_per_second": 0.0,
            "hit_share": { "memory": 0.5, "disk": 0.25, "origin": 0.25 }, "first_byte": { "p99": p99 },
            "stalls": 1, "errors": 2
        } })
    };
    json!({
        "hour": [
            point(1_799_999_600.0, 7.0, Value::Null),
            point(1_799_999_980.0, 10.0, json!(0.25)),
            point(1_799_999_990.0, 20.0, json!(0.5)),
        ],
        "day": [point(1_799_992_000.0, 3.0, json!(1.5))],
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

fn press(screen: &mut Screen, code: KeyCode) -> KeyEffect {
    screen.press(KeyEvent::new(code, KeyModifiers::NONE))
}

/// Returns the columns of the first line that contains `word`.
fn line_with(lines: &[String], word: &str) -> String {
    let found = lines.iter().find(|line| line.contains(word));
    found
        .unwrap_or_else(|| panic!("no {word} in\n{}", lines.join("\n")))
        .clone()
}

/// Words of each pane.
const SHOWN: [&[&str]; 11] = [
    &[
        "Tidegate 1.2.3, up 26 h",
        "1234 a second",
        "98.8 MB/s",
        "memory 75 %, disk 20 %, bucket 5 %",
        "210 µs / 4 ms / 2 s",
        "21 in 10 s",
        "sending the spool: 3 of 40",
        "the cache disk /ssd is slow",
        "bucket of media",
        "55 %: 30.8 MB/s of 56.0 MB/s",
        "no: origin media",
        "the origin is down (7 in the last hour, the last 12",
        "the origin is down (9 in the last day, the last 12",
        "17.00 operations a second",
        "20 ms / 50 ms / ",
    ],
    &[
        "2 streams",
        "RATE",
        "90.0 MB/s",
        "waits",
        "films/slow.mkv",
        "10.0.0.9",
        "mount of media: 990 B of 1.0 KiB, window 10 B",
    ],
    &["ROUTE", "the routes", "/films/", "www.example", "members"],
    &[
        "TIER", "/ssd", "slow", "100 GiB", "90 %", "3 d", "12 ms", "budget", "10 %",
    ],
    &[
        "ORIGIN",
        "media",
        "down",
        "0.25",
        "1.25",
        "get: ok 7, timeout 1; 4.0 KiB received, 0 B sent",
    ],
    &[
        "spool 4.8 MiB of 9.5 MiB (50 %)",
        "waiting",
        "25 %",
        "12 s",
        "docs/a.odt",
        "unavailable",
    ],
    &[
        "bucket proven, lag 12 ms",
        "60 s",
        "created",
        "applied",
        "films/new.mkv",
    ],
    &["HOOK", "thumbs", "all", "pictures/", "failed 1, ok 17"],
    &[
        "connected, lag 2 ms",
        "nas.example",
        "00000000000000bb",
        "500 ms",
    ],
    &[
        "READERS",
        "5 min",
        "15.0 MB/s",
        "75 %",
        "500 ms",
        "1 h",
        "2 s",
    ],
    &[
        "Settings: 3 keys",
        "cache.memory",
        "512MiB",
        "(secret)",
        "environment",
        "restart",
        "Bytes of objects in memory; default 256MiB; set by tidegate.toml:7",
    ],
];

#[test]
fn each_pane_fits_into_80_columns() {
    let mut screen = Screen::new(Snapshot::of(look()));
    for ((index, words), key) in SHOWN.iter().enumerate().zip(PANE_KEYS.chars()) {
        press(&mut screen, KeyCode::Char(key));
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
    assert_eq!(press(&mut screen, KeyCode::Char('?')), KeyEffect::Stay);
    assert!(
        drawn(&screen, 80)
            .join("\n")
            .contains("move through the rows")
    );
    assert_eq!(
        press(&mut screen, KeyCode::Esc),
        KeyEffect::Stay,
        "the help goes first"
    );
    assert!(
        !drawn(&screen, 80)
            .join("\n")
            .contains("move through the rows")
    );
    assert_eq!(press(&mut screen, KeyCode::Char('q')), KeyEffect::Leave);
    let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(screen.press(ctrl_c), KeyEffect::Leave);
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
fn a_part_that_is_missing_is_said_to_be_missing() {
    let mut parts = look();
    parts["writes"] =
        json!({ "error": "the gateway answers 404 Not Found: the API has no such path" });
    parts["streams"] = Value::Null;
    parts["now"]["missing"] = Value::Null;
    parts["now"]["checked"] = json!(40.0);
    parts["doctor"] = json!({ "verdict": null });
    let snapshot = Snapshot::of(parts);
    for (pane, words) in [
        (
            Pane::Writes,
            "Writes: missing (the gateway answers 404 Not Found: the API has no such path)",
        ),
        (Pane::Streams, "Streams: missing (no answer)"),
        (Pane::Now, "missing (the last check was 40 s ago)"),
        (Pane::Now, "missing (nothing is measured"),
    ] {
        let text = pane.table(&snapshot).text();
        assert!(text.contains(words), "no {words} in {text}");
    }
}

#[test]
fn the_history_is_in_steps() {
    let table = Pane::History.table(&Snapshot::of(look()));
    let shown: Vec<Vec<_>> = table
        .rows
        .iter()
        .map(|row| row.iter().map(|cell| cell.shown.as_str()).collect())
        .collect();
    let first = [
        "5 min",
        "0 µs",
        "15.00",
        "15.0 MB/s",
        "0 B/s",
        "75 %",
        "500 ms",
        "2",
        "4",
    ];
    assert_eq!(shown[0], first);
    assert_eq!((shown[1][1], shown[1][6]), ("5 min", "-"), "not known then");
    assert_eq!((shown[2][0], shown[2][1]), ("1 h", "2 h"));
    assert_eq!(shown.len(), 3);
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
    assert_eq!(at(lines[1], "USED"), at(lines[2], "256 MiB"), "{text}");
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines.iter().all(|line| !line.ends_with(' ')));
}
