use super::*;
use proptest::prelude::*;

fn select(value: &str, size: u64) -> Option<Selection> {
    Ranges::parse(value).map(|ranges| ranges.select(size))
}

fn piece(start: u64, end: u64) -> ByteRange {
    ByteRange { start, end }
}

#[test]
fn the_examples_of_rfc_9110_14_1_2() {
    let single = |a, b| Some(Selection::Single(piece(a, b)));
    let rows = [
        ("bytes=0-499", single(0, 500)),
        ("bytes=500-999", single(500, 1000)),
        ("bytes=-500", single(9_500, 10_000)),
        ("bytes=9500-", single(9_500, 10_000)),
        ("bytes=500-600,601-999", single(500, 1000)),
        ("bytes=500-700,601-999", single(500, 1000)),
        ("bytes=0-0,-1", several(&[(0, 1), (9_999, 10_000)])),
        ("bytes=0-999999", single(0, 10_000)),
        ("bytes=-99999", single(0, 10_000)),
        (
            "bytes= 0-999, 4500-5499, -1000",
            several(&[(0, 1000), (4_500, 5_500), (9_000, 10_000)]),
        ),
    ];
    for (value, expected) in rows {
        assert_eq!(select(value, 10_000), expected, "{value}");
    }
}

fn several(pieces: &[(u64, u64)]) -> Option<Selection> {
    Some(Selection::Several(
        pieces.iter().map(|&(a, b)| piece(a, b)).collect(),
    ))
}

#[test]
fn ignores_what_is_no_range_of_bytes() {
    for value in [
        "",
        "bytes",
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=a-b",
        "bytes=1",
        "bytes=5-4",
        "bytes=0-1,x",
        "bytes=--1",
        "bytes=+1-2",
        "bytes=1-2-3",
        "bytes=0x0-1",
        "bytes=0- 1",
        "items=0-1",
        "bytes 0-1",
        "bytes:0-1",
    ] {
        assert_eq!(Ranges::parse(value), None, "{value:?}");
    }
}

#[test]
fn takes_odd_spellings_that_are_allowed() {
    for value in ["BYTES=0-1", "bytes=,0-1,,", "bytes=\t0-1 "] {
        assert_eq!(
            select(value, 9),
            Some(Selection::Single(piece(0, 2))),
            "{value:?}"
        );
    }
    let huge = "bytes=0-99999999999999999999999999";
    assert_eq!(select(huge, 9), Some(Selection::Single(piece(0, 9))));
}

#[test]
fn says_when_nothing_can_be_sent() {
    for (value, size) in [
        ("bytes=9-", 9),
        ("bytes=-0", 9),
        ("bytes=0-", 0),
        ("bytes=-1", 0),
    ] {
        assert_eq!(
            select(value, size),
            Some(Selection::Unsatisfiable),
            "{value}"
        );
    }
    assert_eq!(
        select("bytes=99-,0-1", 9),
        Some(Selection::Single(piece(0, 2)))
    );
}

#[test]
fn bounds_the_number_and_keeps_the_order() {
    let list = |n: usize| format!("bytes={}", vec!["0-0"; n].join(","));
    assert!(Ranges::parse(&list(MAX_RANGES)).is_some());
    assert_eq!(Ranges::parse(&list(MAX_RANGES + 1)), None);
    assert_eq!(
        select("bytes=6-7,0-1,7-8,1-1", 99),
        several(&[(6, 9), (0, 2)])
    );
}

/// Returns the bytes that a header names, one flag each, computed independently of the code
/// above.
fn named(specs: &[(u8, u8, u8)], size: u64) -> Vec<bool> {
    let names = |at: u64| {
        specs.iter().any(|&(kind, a, b)| {
            let (a, b) = (u64::from(a), u64::from(b));
            match kind {
                0 => (a..=a + b).contains(&at),
                1 => at >= a,
                _ => at + a >= size,
            }
        })
    };
    (0..size).map(names).collect()
}

proptest! {
    #[test]
    fn sends_each_byte_named_once_and_no_other(
        specs in prop::collection::vec((0u8..3, 0u8..60, 0u8..60), 1..8),
        size in 0u64..64,
    ) {
        let text: Vec<_> = specs.iter().map(|&(kind, a, b)| match kind {
            0 => format!("{a}-{}", u64::from(a) + u64::from(b)),
            1 => format!("{a}-"),
            _ => format!("-{a}"),
        }).collect();
        let pieces = match select(&format!("bytes={}", text.join(", ")), size).expect("valid") {
            Selection::Unsatisfiable => vec![],
            Selection::Single(one) => vec![one],
            Selection::Several(many) => { prop_assert!(many.len() > 1); many }
        };
        let mut sent = vec![0; usize::try_from(size).expect("small")];
        for range in &pieces {
            prop_assert!(!range.is_empty() && range.end <= size);
            for at in range.start..range.end {
                sent[usize::try_from(at).expect("small")] += 1;
            }
        }
        let expected: Vec<_> = named(&specs, size).into_iter().map(i32::from).collect();
        prop_assert_eq!(sent, expected);
        for (i, a) in pieces.iter().enumerate() {
            for b in &pieces[..i] {
                prop_assert!(a.end < b.start || b.end < a.start, "adjacent");
            }
        }
    }

    #[test]
    fn never_panics(value in ".{0,40}", size: u64) {
        let _ = select(&format!("bytes={value}"), size);
        let _ = select(&value, size);
    }
}
