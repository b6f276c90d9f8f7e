use super::*;

#[test]
fn a_range_has_a_position_in_later_bytes() {
    let range = ByteRange::new(5, 9);
    assert_eq!(range.within(3), 2..6);
    assert_eq!(range.within(5), 0..4);
    assert_eq!(ByteRange::new(9, 5), ByteRange::new(9, 9));
    assert!(ByteRange::new(9, 5).is_empty() && !range.is_empty());
}

#[test]
fn ranges_that_only_touch_have_nothing_in_common() {
    let range = ByteRange::new(5, 9);
    assert_eq!(range.intersect(ByteRange::new(9, 12)), None);
    assert_eq!(
        range.intersect(ByteRange::new(8, 12)),
        Some(ByteRange::new(8, 9))
    );
    assert_eq!(range.intersect(ByteRange::new(0, 20)), Some(range));
}

#[test]
fn a_requested_range_is_written_as_in_the_header_and_resolved_by_the_size() {
    let rows = [
        (
            RangeSpec::Bounded { first: 2, last: 4 },
            "2-4",
            Some((2, 5)),
        ),
        (
            RangeSpec::Bounded { first: 9, last: 20 },
            "9-20",
            Some((9, 10)),
        ),
        (RangeSpec::Bounded { first: 4, last: 2 }, "4-2", None),
        (
            RangeSpec::Bounded {
                first: 10,
                last: 10,
            },
            "10-10",
            None,
        ),
        (RangeSpec::From(9), "9-", Some((9, 10))),
        (RangeSpec::From(10), "10-", None),
        (RangeSpec::Suffix(3), "-3", Some((7, 10))),
        (RangeSpec::Suffix(30), "-30", Some((0, 10))),
        (RangeSpec::Suffix(0), "-0", None),
    ];
    for (spec, text, bytes) in rows {
        assert_eq!(spec.to_string(), text);
        let bytes = bytes.map(|(start, end)| ByteRange { start, end });
        assert_eq!(spec.resolve(10), bytes, "{text}");
    }
}
