use super::*;

use crate::api::objects::Run;

fn cached(memory: u64, disk: u64, absent: u64, pinned: u64) -> CacheState {
    CacheState {
        etag: "\"a\"".to_owned(),
        version_id: None,
        content_type: None,
        state: "fresh".to_owned(),
        freshness: "fresh for another 1h".to_owned(),
        age: 1.0,
        memory,
        disk,
        absent,
        pinned,
        runs: Vec::new(),
        runs_left_off: 0,
    }
}

#[test]
fn a_tier_that_has_nothing_is_not_named() {
    for (state, size, said) in [
        (cached(0, 0, 0, 0), 0, "it is empty"),
        (cached(0, 0, 500, 0), 500, "not cached"),
        (cached(0, 0, 400, 0), 500, "not cached"),
        (cached(500, 0, 0, 0), 500, "whole: 500 B in memory"),
        (
            cached(0, 500, 0, 500),
            500,
            "whole: 500 B on SSD, 500 B pinned",
        ),
        (
            cached(100, 200, 200, 0),
            500,
            "100 B in memory, 200 B on SSD, 200 B not cached",
        ),
    ] {
        assert_eq!(words(&state, size), said);
    }
}

#[test]
fn a_bar_that_does_not_reach_to_the_end_says_so() {
    let run = |start, end, pinned| Run {
        start,
        end,
        memory: false,
        disk: true,
        pinned,
    };
    let bar = |runs_left_off| {
        let state = CacheState {
            runs: vec![run(0, 100, true), run(100, 300, false)],
            runs_left_off,
            ..cached(0, 300, 200, 100)
        };
        let name = Name {
            size: Some(500),
            cached: Some(state),
            ..Name::default()
        };
        super::cached(&name).into_string()
    };
    let said = "the bar shows the first 300 B, and nothing of the rest";
    assert!(bar(7).contains(said), "{}", bar(7));
    assert!(!bar(0).contains("the bar shows"), "{}", bar(0));
    let mark = "class=\"pinned\" x=\"0.00\"";
    assert!(bar(0).contains(mark), "{}", bar(0));
    assert_eq!(bar(0).matches("class=\"pinned\"").count(), 1);
}

#[test]
fn a_version_is_that_of_the_cache_and_another_one_is_told() {
    let name = |of_cache: bool, of_bucket: Option<&str>| Name {
        name: "a".to_owned(),
        size: Some(500),
        etag: of_bucket.map(str::to_owned),
        cached: of_cache.then(|| cached(500, 0, 0, 0)),
        ..Name::default()
    };
    let shown = |of_cache, of_bucket| version(&name(of_cache, of_bucket)).into_string();
    let (old, new) = ("<code>&quot;a&quot;</code>", "<code>&quot;b&quot;</code>");
    for (text, tag, is_other) in [
        (shown(true, None), old, false),
        (shown(true, Some("\"a\"")), old, false),
        (shown(true, Some("\"b\"")), old, true),
        (shown(false, Some("\"b\"")), new, false),
    ] {
        assert!(text.contains(tag), "{text}");
        assert_eq!(text.contains("fresh for another 1h"), tag == old, "{text}");
        assert_eq!(text.contains("another version"), is_other, "{text}");
    }
    assert_eq!(shown(false, None), "");
}
