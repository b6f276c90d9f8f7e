use super::*;
use http::HeaderValue;
use proptest::prelude::*;

const DAY: u64 = 784_111_777; // Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110, 5.6.7

fn headers(rows: &[(HeaderName, &str)]) -> HeaderMap {
    rows.iter()
        .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).expect("text")))
        .collect::<Vec<_>>()
        .into_iter()
        .fold(HeaderMap::new(), |mut map, (name, value)| {
            map.append(name, value);
            map
        })
}

fn decided(rows: &[(HeaderName, &str)]) -> Decision {
    decided_on(Timestamp((DAY + 1) * 1000), rows)
}

fn decided_on(confirmed: Timestamp, rows: &[(HeaderName, &str)]) -> Decision {
    let map = headers(rows);
    let etag = ETag::parse("\"a,b\"").expect("a tag");
    let current = Validators {
        etag: &etag,
        last_modified: Some(Timestamp(DAY * 1000)),
        confirmed,
    };
    decide(&map, requested_ranges(&map).as_ref(), current, 100)
}

#[test]
fn one_header_at_a_time() {
    let rows = [
        (IF_MATCH, "*", Decision::Whole),
        (IF_MATCH, "\"a,b\"", Decision::Whole),
        (IF_MATCH, "\"x\", \"a,b\"", Decision::Whole),
        (IF_MATCH, "W/\"a,b\"", Decision::Failed),
        (IF_MATCH, "\"a\", \"b\"", Decision::Failed),
        (IF_MATCH, "garbage", Decision::Failed),
        (IF_NONE_MATCH, "*", Decision::NotModified),
        (IF_NONE_MATCH, "\"x\",W/\"a,b\"", Decision::NotModified),
        (IF_NONE_MATCH, "\"a,b\"", Decision::NotModified),
        (IF_NONE_MATCH, "\"a\", \"b\"", Decision::Whole),
        (IF_NONE_MATCH, "garbage, \"a,b\"", Decision::Whole),
        (
            IF_UNMODIFIED_SINCE,
            "Sun, 06 Nov 1994 08:49:37 GMT",
            Decision::Whole,
        ),
        (
            IF_UNMODIFIED_SINCE,
            "Sun, 06 Nov 1994 08:49:36 GMT",
            Decision::Failed,
        ),
        (IF_UNMODIFIED_SINCE, "yesterday", Decision::Whole),
        (
            IF_MODIFIED_SINCE,
            "Sun, 06 Nov 1994 08:49:37 GMT",
            Decision::NotModified,
        ),
        (
            IF_MODIFIED_SINCE,
            "Sunday, 06-Nov-94 08:49:37 GMT",
            Decision::NotModified,
        ),
        (
            IF_MODIFIED_SINCE,
            "Sun Nov  6 08:49:37 1994",
            Decision::NotModified,
        ),
        (
            IF_MODIFIED_SINCE,
            "Sun, 06 Nov 1994 08:49:36 GMT",
            Decision::Whole,
        ),
        (IF_MODIFIED_SINCE, "784111777", Decision::Whole),
    ];
    for (name, value, expected) in rows {
        assert_eq!(
            decided(&[(name.clone(), value)]),
            expected,
            "{name}: {value}"
        );
    }
}

#[test]
fn a_list_names_a_tag_as_it_was_written() {
    let lines = [
        (IF_NONE_MATCH, "\"x\""),
        (IF_NONE_MATCH, "W/\"a,b\", \"c\""),
    ];
    let matching = |tag| matching_tag(&headers(&lines), &ETag::parse(tag).expect("a tag"));
    assert_eq!(matching("\"a,b\""), ETag::parse("W/\"a,b\""));
    assert_eq!(matching("W/\"c\""), ETag::parse("\"c\""));
    assert_eq!(matching("\"b\""), None);
    let any = headers(&[(IF_NONE_MATCH, "*")]);
    assert_eq!(
        super::matching_tag(&any, &ETag::parse("\"c\"").expect("a tag")),
        None
    );
}

#[test]
fn if_range_by_tag_and_date() {
    let part = Decision::Single(ByteRange { start: 0, end: 10 });
    let rows = [
        ("\"a,b\"", part.clone()),
        ("W/\"a,b\"", Decision::Whole),
        ("\"x\"", Decision::Whole),
        ("\"a,b\", \"x\"", Decision::Whole),
        ("\"a,b\" x", Decision::Whole),
        ("Sun, 06 Nov 1994 08:49:37 GMT", part.clone()),
        ("Sun, 06 Nov 1994 08:49:38 GMT", Decision::Whole),
        ("rubbish", Decision::Whole),
        ("", Decision::Whole),
    ];
    for (value, expected) in rows {
        let asked = [(RANGE, "bytes=0-9"), (IF_RANGE, value)];
        assert_eq!(decided(&asked), expected, "{value}");
    }
    // Two versions may have been written in the second of one date.
    let by_date = [
        (RANGE, "bytes=0-9"),
        (IF_RANGE, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ];
    let by_tag = [(RANGE, "bytes=0-9"), (IF_RANGE, "\"a,b\"")];
    for (millis, expected) in [
        (0, Decision::Whole),
        (999, Decision::Whole),
        (1000, part.clone()),
    ] {
        let confirmed = Timestamp(DAY * 1000 + millis);
        assert_eq!(decided_on(confirmed, &by_date), expected, "{millis}");
        assert_eq!(decided_on(confirmed, &by_tag), part);
    }
    // Without a Range there is nothing for If-Range to forbid.
    assert_eq!(decided(&[(IF_RANGE, "\"x\"")]), Decision::Whole);
}

#[test]
fn the_order_of_13_2_2() {
    let (old, new) = (
        "Sat, 05 Nov 1994 08:49:37 GMT",
        "Mon, 07 Nov 1994 08:49:37 GMT",
    );
    // If-Match overrides If-Unmodified-Since, If-None-Match overrides If-Modified-Since.
    let match_wins = [(IF_MATCH, "\"a,b\""), (IF_UNMODIFIED_SINCE, old)];
    assert_eq!(decided(&match_wins), Decision::Whole);
    let none_match_wins = [(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, new)];
    assert_eq!(decided(&none_match_wins), Decision::Whole);
    // 412 comes before 304, 304 before 206 and 416.
    let both = [(IF_MATCH, "\"x\""), (IF_NONE_MATCH, "\"a,b\"")];
    assert_eq!(decided(&both), Decision::Failed);
    let ranged = [(IF_NONE_MATCH, "\"a,b\""), (RANGE, "bytes=500-")];
    assert_eq!(decided(&ranged), Decision::NotModified);
    assert_eq!(decided(&ranged[1..]), Decision::Unsatisfiable);
}

#[test]
fn lists_spread_over_lines_and_doubled_headers() {
    let lines = [(IF_NONE_MATCH, "\"x\""), (IF_NONE_MATCH, "\"y\", \"a,b\"")];
    assert_eq!(decided(&lines), Decision::NotModified);
    let twice = [(RANGE, "bytes=0-1"), (RANGE, "bytes=2-3")];
    assert_eq!(decided(&twice), Decision::Whole);
    let range_twice = [
        (RANGE, "bytes=0-1"),
        (IF_RANGE, "\"a,b\""),
        (IF_RANGE, "\"a,b\""),
    ];
    assert_eq!(decided(&range_twice), Decision::Whole);
}

/// A tag in the model: whether it is weak, and a number.
type Tag = (bool, u8);

fn text(tags: &[Tag]) -> String {
    let one = |&(weak, n): &Tag| format!("{}\"{n}\"", if weak { "W/" } else { "" });
    tags.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn tags() -> impl Strategy<Value = Option<Vec<Tag>>> {
    prop::option::of(prop::collection::vec((any::<bool>(), 0u8..3), 1..4))
}

proptest! {
    /// Compares with RFC 9110, 13.2.2 written as a table over numbers.
    #[test]
    fn agrees_with_the_model(
        current in (any::<bool>(), 0u8..3),
        modified in 0u64..4,
        if_match in tags(),
        if_none_match in tags(),
        unmodified in prop::option::of(0u64..4),
        since in prop::option::of(0u64..4),
    ) {
        let mut map = HeaderMap::new();
        let mut put = |name: HeaderName, value: Option<String>| {
            if let Some(value) = value {
                map.insert(name, HeaderValue::from_str(&value).expect("text"));
            }
        };
        let when = |n: u64| httpdate::fmt_http_date(Timestamp((DAY + n) * 1000).into());
        put(IF_MATCH, if_match.as_deref().map(text));
        put(IF_NONE_MATCH, if_none_match.as_deref().map(text));
        put(IF_UNMODIFIED_SINCE, unmodified.map(when));
        put(IF_MODIFIED_SINCE, since.map(when));

        let refused = match &if_match {
            Some(list) => !list.iter().any(|tag| !tag.0 && *tag == current),
            None => unmodified.is_some_and(|at| modified > at),
        };
        let known = match &if_none_match {
            Some(list) => list.iter().any(|tag| tag.1 == current.1),
            None => since.is_some_and(|at| modified <= at),
        };
        let expected = if refused {
            ConditionVerdict::Failed
        } else if known {
            ConditionVerdict::NotModified
        } else {
            ConditionVerdict::Proceed
        };
        let etag = ETag::parse(&text(&[current])).expect("a tag");
        let last_modified = Some(Timestamp((DAY + modified) * 1000 + 999));
        let found = evaluate(&map, Validators { etag: &etag, last_modified, confirmed: Timestamp(0) });
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn never_panics(value in "[ -~]{0,30}") {
        for name in [IF_MATCH, IF_NONE_MATCH, IF_RANGE, IF_MODIFIED_SINCE, RANGE] {
            decided(&[(name, value.as_str()), (RANGE, "bytes=0-1")]);
        }
    }
}

#[test]
fn a_writes_condition_follows_from_its_headers_or_needs_the_version() {
    let tag = ETag::parse("\"a\"").expect("a tag");
    let rows: [(&[(&str, &str)], RequestedState); 9] = [
        (&[], RequestedState::Nothing),
        (
            &[("if-modified-since", "Thu, 01 Jan 1970 00:00:10 GMT")],
            RequestedState::Nothing,
        ),
        (&[("if-none-match", "*")], RequestedState::Absent),
        (&[("if-match", "\"a\"")], RequestedState::Version(tag)),
        (&[("if-match", "*")], RequestedState::Judge),
        (&[("if-match", "W/\"a\"")], RequestedState::Judge),
        (&[("if-match", "\"a\", \"b\"")], RequestedState::Judge),
        (
            &[("if-match", "\"a\""), ("if-none-match", "*")],
            RequestedState::Judge,
        ),
        (
            &[("if-unmodified-since", "Thu, 01 Jan 1970 00:00:10 GMT")],
            RequestedState::Judge,
        ),
    ];
    for (lines, wanted) in rows {
        let line = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, value.parse().expect("a value"))
        };
        let headers: HeaderMap = lines.iter().map(line).collect();
        assert_eq!(requested_state(&headers), wanted, "{headers:?}");
    }
}
