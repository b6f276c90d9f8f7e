//! The size of parts, and the number of streams.

use super::*;

#[test]
fn parts_keep_all_streams_busy_and_grow() {
    let part = |window, left, streams| ReadAhead::part(window, left, streams, Some(5e6));
    assert_eq!(part(2 * MIB, u64::MAX, 16), 256 * KIB);
    assert_eq!(part(32 * MIB, u64::MAX, 16), MIB);
    assert_eq!(part(128 * MIB, u64::MAX, 16), 4 * MIB);
    assert_eq!(part(1 << 30, u64::MAX, 16), 8 * MIB);
    // Towards the end.
    assert_eq!(part(128 * MIB, 32 * MIB, 16), 2 * MIB);
    assert_eq!(part(128 * MIB, 2 * MIB, 16), MIB);
    assert_eq!(part(2 * MIB, 2 * MIB, 16), 256 * KIB);
    assert_eq!(part(1 << 40, u64::MAX, 1), 8 * MIB);
}

#[test]
fn a_part_takes_a_connection_fifty_milliseconds_before_it_is_divided() {
    let part = |each| ReadAhead::part(32 * MIB, u64::MAX, 16, each);
    assert_eq!(part(None), MIB);
    assert_eq!(part(Some(20e6)), MIB, "half of a stream's share");
    assert_eq!(part(Some(30e6)), 1_500_000);
    assert_eq!(part(Some(200e6)), 2 * MIB, "the whole share");
    let narrow = |each| ReadAhead::part(512 * KIB, u64::MAX, 4, Some(each));
    assert_eq!(
        (narrow(20e6), narrow(200e6)),
        (256 * KIB, 512 * KIB),
        "in 5 ms"
    );
    let last = |each| ReadAhead::part(128 * MIB, 32 * MIB, 16, Some(each));
    assert_eq!((last(20e6), last(60e6)), (2 * MIB, 3_000_000));
}

#[test]
fn a_small_rest_is_divided_equally_among_few_streams() {
    for (rest, streams, each, part) in [
        (4 * MIB, 16, None, MIB),
        (4 * MIB, 16, Some(5e6), MIB),
        (4 * MIB, 16, Some(40e6), 2 * MIB),
        (8 * MIB, 16, Some(200e6), 8 * MIB),
        (MIB + 1, 16, Some(5e6), MIB + 1),
        (7 * MIB, 4, Some(5e6), 7 * MIB / 4),
        (7 * MIB, 0, Some(5e6), 7 * MIB),
        (0, 4, Some(5e6), 0),
    ] {
        let found = ReadAhead::part_of_rest(rest, streams, each, false);
        assert_eq!(found, part, "{rest} over {streams} of {each:?}");
    }
    let in_steps = |rest| ReadAhead::part_of_rest(rest, 4, Some(20e6), true);
    assert_eq!((in_steps(4 * MIB), in_steps(2 * MIB)), (2 * MIB, 2 * MIB));
}

#[test]
fn one_connection_keeps_a_reader_fed_that_takes_four_fifths_of_it() {
    let cursor = after(4 * MIB, 1_000_000);
    for (each, fed) in [
        (None, false),
        (Some(0.0), false),
        (Some(1.2e6), false),
        (Some(1.3e6), true),
    ] {
        assert_eq!(cursor.is_fed_by_one(each), fed, "{each:?}");
    }
    let unknown = ReadAhead::new(STREAM, 0, Duration::ZERO);
    assert!(!unknown.is_fed_by_one(Some(1e9)), "its rate is unknown");
}

#[test]
fn a_reader_needs_a_quarter_more_than_it_takes_and_one_stream_in_reserve() {
    let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
    assert_eq!(cursor.streams(Some(1.0), false), 16, "its rate is unknown");
    cursor.record_read(ByteRange::new(0, 1000), Duration::from_secs(1));
    for (each, streams) in [
        (1250.0, 2),
        (1249.0, 3),
        (625.0, 3),
        (156.25, 9),
        (78.125, 16),
        (1.0, 16),
        (1e-9, 16),
        (0.0, 16),
        (-1.0, 16),
    ] {
        assert_eq!(cursor.streams(Some(each), false), streams, "{each}");
    }
}

/// The only read lies before the beginning, so none of its bytes count.
#[test]
fn a_connection_without_a_rate_says_nothing_even_to_a_reader_without_one() {
    let mut cursor = ReadAhead::new(STREAM, MIB, Duration::ZERO);
    cursor.record_read(ByteRange::new(0, KIB), Duration::from_secs(1));
    assert_eq!(cursor.rate(), Some(0.0));
    assert_eq!(cursor.streams(Some(0.0), false), 16);
    assert_eq!(cursor.streams(Some(1.0), false), 1);
}

#[test]
fn a_fed_reader_needs_few_streams_and_a_waiting_one_gets_all() {
    let cursor = after(200 * MIB, 90_000_000);
    let each = Some(20_000_000.0);
    assert!(
        (6..=7).contains(&cursor.streams(each, false)),
        "{}",
        cursor.streams(each, false)
    );
    assert_eq!(cursor.streams(each, true), 16);
    assert_eq!(cursor.streams(None, false), 16);
    assert_eq!(cursor.streams(Some(1e9), false), 2);
}

#[test]
fn a_long_part_takes_a_connection_a_second() {
    for (each, part) in [
        (None, 256 * KIB),
        (Some(1e3), 256 * KIB),
        (Some(320e3), 320_000),
        (Some(20e6), LONG_PART),
    ] {
        assert_eq!(ReadAhead::long_part(each), part, "{each:?}");
    }
}

#[test]
fn a_small_rest_takes_all_connections_a_second() {
    for (streams, each, rest) in [
        (4, None, SMALL_REST),
        (4, Some(20e6), SMALL_REST),
        (4, Some(320e3), 1_280_000),
        (0, Some(20e6), 0),
    ] {
        assert_eq!(ReadAhead::small_rest(streams, each), rest, "{each:?}");
    }
}
