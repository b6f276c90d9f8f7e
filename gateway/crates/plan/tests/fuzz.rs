//! Fuzz targets of the parsers of requests: keys, ranges, conditions, tags, events' sequencers and templates of hooks.
//!
//! Each holds a property for any input. They run as tests, [`RUNS`] inputs each; `just fuzz` gives them time.

use std::borrow::Cow;

use bolero::check;
use http::header::{
    IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_plan::precondition::{
    ConditionVerdict, Decision, RequestedState, Validators, decide, evaluate, requested_ranges,
    requested_state,
};
use tidegate_plan::tags::{MAX_TAG, Tag, split_tags};
use tidegate_plan::template::{Escape, Template};
use tidegate_plan::{
    ByteRange, ETag, MAX_RANGES, ObjectKey, Ranges, Selection, Sequencer, Timestamp, key,
};

/// The inputs of a target in a plain test run.
const RUNS: usize = 5_000;

/// Returns text of words that a parser knows, and every third time of any character.
fn text(words: &[&str], bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match words.get(usize::from(*byte) % (words.len() * 3 / 2)) {
            Some(word) => text.push_str(word),
            None => text.push(char::from(*byte)),
        }
    }
    text
}

const PATHS: &[&str] = &[
    "/", ".", "..", "/../", "%2e", "%2E%2e", "%2f", "%00", "%", "%25", "%C3%BC", "%ff", "ü", "a",
    "+", "?", "//", "%e2%98", "\u{2028}", " ",
];

#[test]
fn an_accepted_key_is_sound_and_maps_back() {
    check!().with_iterations(RUNS).for_each(|bytes| {
        let (split, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        let bytes = bytes.repeat(usize::from(*split % 64) + 1);
        let (prefix, path) = (
            ["", "p/", "ü/", "a"][usize::from(*split % 4)],
            text(PATHS, &bytes),
        );
        let Ok(found) = ObjectKey::from_path(prefix, &path) else {
            return;
        };
        let text = found.as_str();
        assert!((1..=key::MAX_KEY).contains(&text.len()) && !text.contains('\0'));
        assert!(text.starts_with(prefix));
        let is_dots = |segment: &str| segment == "." || segment == "..";
        assert!(!text.split('/').any(is_dots), "{path:?}");
        let spelled = key::encode_path(text).to_string();
        assert!(spelled.is_ascii() && !spelled.contains(['?', '#', ' ', '\n']));
        assert_eq!(ObjectKey::from_path("", &spelled), Ok(found.clone()));
        assert_eq!(ObjectKey::new(text), Ok(found.clone()));
    });
}

const RANGE_WORDS: &[&str] = &[
    "bytes=",
    "0-",
    "-1",
    "1-2",
    "5-5",
    "-0",
    ",",
    ", ",
    "=",
    "-",
    "9",
    "18446744073709551615",
    "99999999999999999999999",
    "\t",
    "BYTES",
    "0-0,",
    "7-3",
];

/// Checks that pieces lie within an object, and are apart from each other.
fn check_pieces(pieces: &[ByteRange], size: u64) {
    assert!(pieces.len() <= MAX_RANGES);
    for (at, one) in pieces.iter().enumerate() {
        assert!(!one.is_empty() && one.end <= size, "{one:?} of {size}");
        for other in &pieces[..at] {
            assert!(one.end < other.start || other.end < one.start);
        }
    }
}

/// Returns the header that asks for these pieces.
fn written(pieces: &[ByteRange]) -> String {
    let texts = pieces.iter();
    let texts: Vec<_> = texts
        .map(|range| format!("{}-{}", range.start, range.end - 1))
        .collect();
    format!("bytes={}", texts.join(","))
}

#[test]
fn ranges_lie_within_the_object_and_are_read_back() {
    check!().with_iterations(RUNS).for_each(|bytes| {
        let (size, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        let value = format!("bytes={}", text(RANGE_WORDS, bytes));
        let sizes = [u64::from(*size), u64::from(*size) << 48, u64::MAX];
        for value in [value.as_str(), &value["bytes=".len()..]] {
            let Some(ranges) = Ranges::parse(value) else {
                continue;
            };
            for size in sizes {
                let selected = ranges.select(size);
                let pieces = match &selected {
                    Selection::Unsatisfiable => continue,
                    Selection::Single(one) => vec![*one],
                    Selection::Several(pieces) => pieces.clone(),
                };
                check_pieces(&pieces, size);
                let again = Ranges::parse(&written(&pieces)).expect("a header");
                assert_eq!(again.select(size), selected);
            }
        }
    });
}

const CONDITION_WORDS: &[&str] = &[
    "\"a\"",
    "W/\"a\"",
    "\"b\"",
    ", ",
    ",",
    "*",
    "W/",
    "\"",
    "a",
    "Thu, 26 Nov 2026 00:00:00 GMT",
    "Thursday, 26-Nov-26 00:00:00 GMT",
    "Thu Nov 26 00:00:00 2026",
    "\"é\"",
    "\t",
];

/// Returns headers with any of the conditions; each may come several times.
fn conditions(bytes: &[u8]) -> HeaderMap {
    let names: [HeaderName; 6] = [
        IF_MATCH,
        IF_NONE_MATCH,
        IF_MODIFIED_SINCE,
        IF_UNMODIFIED_SINCE,
        IF_RANGE,
        RANGE,
    ];
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == 0xff).take(16) {
        let Some((name, value)) = line.split_first() else {
            continue;
        };
        let value = match name % 2 {
            0 => text(CONDITION_WORDS, value).into_bytes(),
            _ => value.to_vec(),
        };
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            headers.append(names[usize::from(name / 2 % 6)].clone(), value);
        }
    }
    headers
}

#[test]
fn conditions_decide_within_the_object_and_by_their_tags() {
    let tag = ETag::parse("\"a\"").expect("a tag");
    check!().with_iterations(RUNS).for_each(|bytes| {
        let mut headers = conditions(bytes);
        let current = Validators {
            etag: &tag,
            last_modified: Some(Timestamp::from_secs(1_795_651_200)),
            confirmed: Timestamp::from_secs(1_795_651_201),
        };
        for size in [0, 1, 1000, u64::MAX] {
            let ranges = requested_ranges(&headers);
            match decide(&headers, ranges.as_ref(), current, size) {
                Decision::Single(one) => check_pieces(&[one], size),
                Decision::Several(pieces) => check_pieces(&pieces, size),
                Decision::Failed => {
                    assert_eq!(evaluate(&headers, current), ConditionVerdict::Failed)
                }
                Decision::NotModified | Decision::Unsatisfiable | Decision::Whole => {}
            }
        }
        if let RequestedState::Version(named) = requested_state(&headers) {
            assert!(!named.is_weak(), "a weak tag names no version");
            assert_eq!(ETag::parse(named.as_str()), Some(named));
        }
        // A line of its own with the present tag cannot be hidden by others.
        headers.append(IF_MATCH, HeaderValue::from_static("\"a\""));
        assert_ne!(evaluate(&headers, current), ConditionVerdict::Failed);
        headers.append(IF_NONE_MATCH, HeaderValue::from_static("W/\"a\""));
        assert_eq!(evaluate(&headers, current), ConditionVerdict::NotModified);
    });
}

#[test]
fn a_tag_is_written_as_it_is_read() {
    check!().with_iterations(RUNS).for_each(|bytes| {
        let text = text(CONDITION_WORDS, bytes);
        let Some(tag) = ETag::parse(&text) else {
            return;
        };
        assert_eq!(ETag::parse(tag.as_str()).as_ref(), Some(&tag));
        assert!(tag.weak_eq(&tag) && tag.strong_eq(&tag) != tag.is_weak());
        assert!(
            HeaderValue::from_bytes(tag.as_str().as_bytes()).is_ok(),
            "{text:?}"
        );
    });
}

#[test]
fn sequencers_of_events_are_ordered() {
    check!()
        .with_iterations(RUNS)
        .with_type::<(Vec<u8>, Vec<u8>)>()
        .for_each(|(one, other)| {
            let digits = |bytes: &[u8]| {
                let digit =
                    |byte: &u8| char::from(b"0123456789abcdefABCDEF."[usize::from(byte % 23)]);
                Sequencer::parse(&bytes.iter().map(digit).collect::<String>())
            };
            let (Some(one), Some(other)) = (digits(one), digits(other)) else {
                return;
            };
            assert!(!one.is_after(&one));
            assert!(!(one.is_after(&other) && other.is_after(&one)));
        });
}

const TEMPLATE_WORDS: &[&str] = &[
    "{key}",
    "{",
    "}",
    "{path}",
    "{folder}",
    "{ }",
    "key",
    "{}",
    "{event}{count}",
    "\"",
    "{bucket}",
    "{no}",
];

#[test]
fn a_template_keeps_its_text_and_its_values_apart() {
    check!()
        .with_iterations(RUNS)
        .with_type::<(Vec<u8>, String)>()
        .for_each(|(bytes, value)| {
            let text = text(TEMPLATE_WORDS, bytes);
            let Ok(template) = Template::parse(&text) else {
                return;
            };
            let render =
                |value: &str, escape| template.render(escape, |_| Cow::Owned(value.to_owned()));
            let fields = template.fields().count();
            let bare = render("", Escape::Percent);
            let rest = text.len() - bare.len();
            assert!(rest >= 5 * fields && rest <= 8 * fields, "{text:?}");
            let filled = render(value, Escape::Percent);
            let count = |text: &str| text.matches(['"', '{', '?', '&', '#', '\n']).count();
            assert_eq!(count(&filled), count(&bare), "a value adds no mark");
            let filled = render(value, Escape::Json);
            let quotes = |text: &str| text.matches('"').count();
            assert_eq!(quotes(&filled), quotes(&bare));
        });
}

#[test]
fn a_list_of_tags_is_split_into_words_and_only_words_are_tags() {
    let words = [
        "a",
        "post-17",
        ",",
        " ",
        "\t",
        ", ",
        "\n",
        "node:4/full",
        "ä",
        "\u{a0}",
        "\0",
        "x-",
        ";",
    ];
    check!().with_iterations(RUNS).for_each(|bytes| {
        let (times, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        let list = text(&words, bytes).repeat(usize::from(*times % 16) + 1);
        let tags: Vec<_> = split_tags(&list).collect();
        let is_between = |c: char| c == ',' || c.is_ascii_whitespace();
        assert!(
            tags.iter()
                .all(|tag| !tag.is_empty() && !tag.contains(is_between))
        );
        assert_eq!(
            tags.concat(),
            list.replace(is_between, ""),
            "nothing else goes"
        );
        for between in [" ", ",", " , "] {
            let joined = tags.join(between);
            assert_eq!(split_tags(&joined).collect::<Vec<_>>(), tags);
        }
        for tag in tags {
            let is_word = tag.len() <= MAX_TAG && tag.bytes().all(|byte| byte.is_ascii_graphic());
            match Tag::new(tag) {
                Ok(read) => assert!(is_word && read.as_str() == tag, "{tag:?}"),
                Err(_) => assert!(!is_word, "{tag:?}"),
            }
        }
        assert!(
            Tag::new(&list).is_err() || !list.contains(is_between),
            "{list:?}"
        );
    });
}
