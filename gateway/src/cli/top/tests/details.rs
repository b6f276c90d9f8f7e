//! The lines of a pane below its rows, the row that stays selected, and the order of columns in per cent.

use ratatui::crossterm::event::KeyCode;
use serde_json::{Value, json};

use super::{drawn, look, press};
use crate::cli::top::panes::Pane;
use crate::cli::top::screen::{PANE_KEYS, Screen};
use crate::cli::top::snapshot::Snapshot;

/// Returns the screen of a pane.
fn on(pane: Pane, look: Value) -> Screen {
    let mut screen = Screen::new(Snapshot::of(look));
    let keys = Pane::ALL.into_iter().zip(PANE_KEYS.chars());
    let mut keys = keys.filter(|(one, _)| *one == pane);
    let (_, key) = keys.next().expect("a key");
    press(&mut screen, KeyCode::Char(key));
    screen
}

/// Returns the lines below the rows, as one.
fn detail(screen: &Screen) -> String {
    let lines = drawn(screen, 160);
    let lines: Vec<_> = lines[19..23].iter().map(|line| line.trim()).collect();
    lines.join(" ").trim().to_owned()
}

#[test]
fn a_draft_says_what_it_began_with_and_what_can_be_chosen() {
    let mut look = look();
    let draft = &mut look["writes"]["drafts"][0];
    draft["modified"] = json!(1_799_999_940.0);
    draft["base"] = json!("\"e1\"");
    let waits = "of media; written 60 s ago; began as version \"e1\"";
    assert_eq!(detail(&on(Pane::Writes, look.clone())), waits);
    let draft = &mut look["writes"]["drafts"][0];
    draft["stage"] = json!("refused");
    draft["choices"] = json!(["ours", "theirs"]);
    draft["base"] = Value::Null;
    for (asked, theirs, words) in [
        (
            true,
            json!({ "exists": true, "etag": "\"e2\"", "size": 2048, "modified": 1_799_999_700.0 }),
            "theirs: version \"e2\", 2.0 KiB, changed 5 min ago",
        ),
        (true, json!({ "exists": false }), "theirs: removed"),
        (true, Value::Null, "theirs: the bucket does not say"),
        (false, Value::Null, "theirs: the bucket is not asked yet"),
    ] {
        let draft = &mut look["writes"]["drafts"][0];
        (draft["asked"], draft["theirs"]) = (json!(asked), theirs);
        let expected =
            format!("of media; written 60 s ago; began empty; {words}; choices: ours, theirs");
        assert_eq!(detail(&on(Pane::Writes, look.clone())), expected);
    }
}

#[test]
fn events_and_the_fleet_say_what_may_have_been_missed() {
    let mut look = look();
    look["events"]["subscriptions"] = json!([{
        "name": "bucket", "origin": "media", "kind": "webhook", "alive": true, "lag": { "p50": 0.012, "p99": 0.5 },
        "events": { "applied": 7 }, "gaps": { "sequence": 2 },
    }]);
    look["fleet"]["sent"] = json!({ "change": 3 });
    look["fleet"]["received"] = json!({ "applied": 4, "known": 1 });
    look["fleet"]["doubts"] = json!({ "joined": 1 });
    assert_eq!(
        detail(&on(Pane::Events, look.clone())),
        "bucket: webhook of media, lag 12 ms (p99 500 ms), events: applied 7, gaps: sequence 2"
    );
    assert_eq!(
        detail(&on(Pane::Fleet, look.clone())),
        "sent: change 3; received: applied 4, known 1; doubts: joined 1"
    );
    look["fleet"] = json!({ "configured": false, "gateways": [] });
    assert_eq!(detail(&on(Pane::Fleet, look)), "");
}

#[test]
fn a_tier_says_what_it_evicts_and_a_disk_what_it_holds() {
    let screen = &mut on(Pane::Tiers, look());
    assert_eq!(detail(screen), "1.00 evictions a second");
    press(screen, KeyCode::Down);
    assert_eq!(detail(screen), "", "the budget evicts nothing");
    press(screen, KeyCode::Down);
    let words = "It is slow.; for 60 min; 1.0 GiB written; 1.25 bytes for each that was stored; 0 B pinned; \
                 4.0 KiB queued; 10 GiB free; 1234 chunks; 2.50 evictions a second; 2 faults";
    assert_eq!(detail(screen), words);
}

#[test]
fn the_progress_of_the_doctor_is_shown_and_then_its_result() {
    let mut look = look();
    look["doctor"] = json!({ "running": true, "lines": ["disk /ssd", "bucket of media: 8 connections"], "verdict": null,
        "error": null, "efficiency": null, "applied": [] });
    let text = Pane::Now.table(&Snapshot::of(look.clone())).text();
    assert!(
        text.contains("measures: bucket of media: 8 connections"),
        "{text}"
    );
    assert!(!text.contains("nothing is measured"), "{text}");
    look["doctor"] = json!({ "running": false, "lines": ["bucket of media"], "error": null, "efficiency": null,
        "applied": ["cache.memory"], "verdict": {
            "narrowest": "bucket of media", "buckets_rate": 56_000_000.0,
            "stages": [{ "stage": "bucket of media", "rate": 56_000_000.0 }, { "stage": "memory", "rate": 9e9 }],
            "suggestions": [
                { "key": "cache.budget", "value": "64MiB", "present": "4MiB", "why": "It holds the way back." },
                { "key": "cache.memory", "value": "1GiB", "present": "64MiB", "why": "It is small." },
            ] } });
    let text = Pane::Now.table(&Snapshot::of(look)).text();
    for words in [
        "bucket of media: 56.0 MB/s",
        "memory: 9.00 GB/s",
        "cache.budget = 64MiB, was 4MiB: It holds the way back.\n",
        "cache.memory = 1GiB, was 64MiB: It is small. (saved)",
    ] {
        assert!(text.contains(words), "no {words} in {text}");
    }
}

#[test]
fn orders_to_warm_are_shown_until_the_next_one_is_over() {
    let mut look = look();
    let order = |path: &str, is_over: bool| json!({ "path": path, "began": 1.0, "objects": 40, "done": 3, "failed": 1, "fetched": 2048, "is_over": is_over });
    let orders = [order("/a/", false), order("/b/", true), order("/c/", true)];
    look["warms"] = json!({ "warms": orders });
    let text = Pane::Now.table(&Snapshot::of(look)).text();
    let words = "/a/: 3 of 40 objects, 1 failed, 2.0 KiB fetched\n";
    assert!(text.contains(words), "{text}");
    assert!(text.contains("/b/: 3 of 40 objects, 1 failed, 2.0 KiB fetched; over\n"));
    assert!(!text.contains("/c/"), "the last one alone: {text}");
}

/// Returns streams of these numbers, rates and sizes; each has read 1,000 bytes.
fn streams(of: &[(u64, f64, u64)]) -> Value {
    let mut look = look();
    let stream = look["streams"]["streams"][0].clone();
    let one = |(id, rate, size): &(u64, f64, u64)| {
        let mut stream = stream.clone();
        (stream["id"], stream["rate"]) = (json!(id), json!(rate));
        (stream["position"], stream["size"]) = (json!(1000), json!(size));
        stream["origin"] = json!(format!("bucket-{id}"));
        stream
    };
    look["streams"]["streams"] = of.iter().map(one).collect();
    look
}

#[test]
fn a_chosen_row_stays_selected_where_the_order_changes() {
    let selected = |screen: &Screen| {
        let words = detail(screen);
        let bucket = words.split(['-', ':']).nth(1);
        bucket.unwrap_or_else(|| panic!("{words:?}")).to_owned()
    };
    let first = streams(&[(1, 30.0, 2000), (2, 20.0, 2000), (3, 10.0, 2000)]);
    let other = streams(&[(3, 50.0, 2000), (1, 30.0, 2000), (2, 5.0, 2000)]);
    let screen = &mut on(Pane::Streams, first.clone());
    assert_eq!(selected(screen), "1");
    screen.update(Ok(Snapshot::of(other.clone())));
    assert_eq!(selected(screen), "3", "the first one, as none was chosen");
    screen.update(Ok(Snapshot::of(first)));
    press(screen, KeyCode::Down);
    assert_eq!(selected(screen), "2");
    screen.update(Ok(Snapshot::of(other)));
    assert_eq!(selected(screen), "2", "it is the third now");
    // It ends, and so does another one: the last row is selected.
    screen.update(Ok(Snapshot::of(streams(&[
        (1, 30.0, 2000),
        (3, 1.0, 2000),
    ]))));
    assert_eq!(selected(screen), "3");
}

#[test]
fn drafts_of_one_key_are_told_apart() {
    let mut look = look();
    let draft = look["writes"]["drafts"][0].clone();
    let of_bucket = |bucket: &str| {
        let mut draft = draft.clone();
        // Neither bucket is that of a configured origin.
        draft["origin"] = Value::Null;
        draft["id"] = json!(format!("{bucket}/docs/a.odt"));
        draft["base"] = json!(bucket);
        draft
    };
    look["writes"]["drafts"] = json!([of_bucket("one"), of_bucket("two")]);
    let screen = &mut on(Pane::Writes, look.clone());
    press(screen, KeyCode::Down);
    assert!(
        detail(screen).ends_with("version two"),
        "{}",
        detail(screen)
    );
    screen.update(Ok(Snapshot::of(look)));
    assert!(
        detail(screen).ends_with("version two"),
        "{}",
        detail(screen)
    );
}

#[test]
fn columns_in_per_cent_are_sorted_by_it() {
    let look = streams(&[(1, 1.0, 100_000), (2, 1.0, 1000), (3, 1.0, 2000)]);
    let screen = &mut on(Pane::Streams, look);
    // From RATE to AT.
    press(screen, KeyCode::Char('s'));
    let lines = drawn(screen, 100);
    let shown = ["100 %", "50 %", "1 %"].map(|share| {
        let mut lines = lines.iter();
        lines.position(|line| line.contains(&format!(" {share} ")))
    });
    assert!(shown.is_sorted() && shown[0].is_some(), "{lines:#?}");
}
