use super::*;
use proptest::prelude::*;

mod parts;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const STREAM: Limits = Limits {
    window: 128 * MIB,
    streams: 16,
};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Reads `range` in steps of 64 KiB at `rate` bytes a second.
fn play(cursor: &mut ReadAhead, range: ByteRange, rate: u64, clock: &mut Duration) {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + 64 * KIB);
        *clock += Duration::from_secs_f64((end - at) as f64 / rate as f64);
        cursor.record_read(ByteRange { start: at, end }, *clock);
        at = end;
    }
}

fn after(read: u64, rate: u64) -> ReadAhead {
    let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
    play(
        &mut cursor,
        ByteRange {
            start: 0,
            end: read,
        },
        rate,
        &mut Duration::ZERO.clone(),
    );
    cursor
}

#[test]
fn the_window_is_earned() {
    let rate = 1 << 30;
    for (read, window) in [
        (256 * KIB - 1, 0),
        (256 * KIB, 512 * KIB),
        (MIB, 2 * MIB),
        (4 * MIB, 8 * MIB),
        (6 * MIB, 12 * MIB),
        (10 * MIB, 16 * MIB),
        (20 * MIB, 20 * MIB),
        (500 * MIB, 128 * MIB),
    ] {
        assert_eq!(after(read, rate).window(0), window, "{read}");
    }
}

#[test]
fn a_slow_reader_holds_back_its_own_window() {
    let rate = 125_000;
    let cursor = after(20 * MIB, rate);
    let window = cursor.window(0);
    assert!((rate * 3..=rate * 5).contains(&window), "{window}");
    assert_eq!(cursor.reach(0), 20 * MIB, "a part may go on beyond it");
}

#[test]
fn a_cursor_takes_up_a_sequence_that_has_been_read() {
    let mut cursor = ReadAhead::resume(STREAM, 256 * KIB, 768 * KIB, secs(1));
    assert_eq!((cursor.window(0), cursor.position()), (MIB, 768 * KIB));
    assert_eq!(cursor.rate(), None);
    assert!(!ReadAhead::resume(STREAM, 3 * MIB, 4 * MIB, secs(1)).continues(MIB));
    cursor.record_read(ByteRange::new(768 * KIB, MIB), secs(2));
    assert_eq!(cursor.rate(), Some(256.0 * 1024.0));
    assert_eq!(cursor.reach(0), 1536 * KIB);
}

#[test]
fn a_seek_drops_it_and_a_small_step_does_not() {
    let mut cursor = after(4 * MIB, 1 << 30);
    let now = Duration::from_secs(1);
    cursor.record_read(
        ByteRange {
            start: 4 * MIB - 200 * KIB,
            end: 4 * MIB - 100 * KIB,
        },
        now,
    );
    cursor.record_read(
        ByteRange {
            start: 4 * MIB + 100 * KIB,
            end: 4 * MIB + 164 * KIB,
        },
        now,
    );
    assert!(cursor.window(0) >= 4 * MIB);
    cursor.record_read(
        ByteRange {
            start: 400 * MIB,
            end: 400 * MIB + 64 * KIB,
        },
        now,
    );
    assert_eq!(
        (cursor.window(0), cursor.position()),
        (0, 400 * MIB + 64 * KIB)
    );
}

/// Keeps two reads of a mebibyte under way, of which the second always comes first.
#[test]
fn reads_that_arrive_out_of_order_are_one_sequence() {
    let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
    let mut clock = Duration::ZERO;
    for pair in 0..20 {
        let (first, second) = (pair * 2 * MIB, (pair * 2 + 1) * MIB);
        assert!(cursor.continues(first) && cursor.continues(second));
        for start in [second, first] {
            let range = ByteRange {
                start,
                end: start + MIB,
            };
            play(&mut cursor, range, 1 << 30, &mut clock);
        }
    }
    assert_eq!(cursor.position(), 40 * MIB);
    assert_eq!(cursor.window(0), 40 * MIB);
    let rate = cursor.rate().expect("it read");
    assert!(rate > 0.9 * f64::from(1 << 30), "{rate}");
}

/// Reads as a kernel that reads eight mebibytes ahead.
#[test]
fn many_reads_that_arrive_out_of_order_are_one_sequence() {
    let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
    let mut clock = Duration::ZERO;
    let all = ByteRange::new(0, 8 * MIB);
    play(&mut cursor, all, 1 << 30, &mut clock);
    for eight in 1..10 {
        for n in [7, 3, 0, 5, 1, 6, 4, 2] {
            let start = (eight * 8 + n) * MIB;
            assert!(cursor.continues(start));
            let range = ByteRange::new(start, start + MIB);
            play(&mut cursor, range, 1 << 30, &mut clock);
        }
    }
    assert_eq!(cursor.position(), 80 * MIB);
    assert_eq!(cursor.window(0), 80 * MIB);
}

#[test]
fn a_reader_that_skips_more_than_it_reads_begins_anew() {
    let mut cursor = after(2 * MIB, 1 << 30);
    assert!(cursor.continues(6 * MIB) && !cursor.continues(7 * MIB));
    let now = Duration::from_secs(1);
    cursor.record_read(ByteRange::new(5 * MIB, 6 * MIB), now);
    assert_eq!(cursor.window(0), 3 * MIB, "twice three, without three");
    assert!(cursor.continues(9 * MIB) && !cursor.continues(10 * MIB));
    for n in 6..12 {
        cursor.record_read(ByteRange::new(n * MIB + 1, n * MIB + 2), now);
    }
    assert_eq!(cursor.window(0), 0, "a byte of each mebibyte");
    assert!(after(1 << 30, 1 << 30).continues((1 << 30) + 8 * MIB));
    assert!(!after(1 << 30, 1 << 30).continues((1 << 30) + 9 * MIB));
}

#[test]
fn reading_the_same_again_earns_nothing() {
    let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
    let range = ByteRange {
        start: 0,
        end: 64 * KIB,
    };
    for n in 1..20 {
        cursor.record_read(range, Duration::from_millis(n));
    }
    assert_eq!(cursor.window(0), 0);
}

#[test]
fn zero_means_none() {
    let mut cursor = ReadAhead::new(
        Limits {
            window: 0,
            streams: 8,
        },
        0,
        Duration::ZERO,
    );
    cursor.record_read(
        ByteRange {
            start: 0,
            end: 100 * MIB,
        },
        Duration::from_secs(1),
    );
    assert_eq!(cursor.window(0), 0);
}

proptest! {
    /// Checks the module's bound for any reader. Every byte counts as fetched once a part may go as far.
    #[test]
    fn what_is_never_read_stays_below_twice_what_is(
        steps in prop::collection::vec((0u64..64, 0u64..40, 1u64..40, 1u64..1000), 1..60),
    ) {
        const PIECE: u64 = 64 * KIB;
        let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
        let (mut clock, mut read) = (Duration::ZERO, 0);
        let (mut fetched, mut seen) = (Extents::default(), Extents::default());
        for (place, skipped, length, millis) in steps {
            let start = match place % 4 {
                // Continues at the end of the last read.
                0 | 1 => cursor.position(),
                2 => cursor.position() + skipped * 4 * PIECE,
                _ => place * 10 * MIB,
            };
            let range = ByteRange::new(start, start + length * PIECE);
            clock += Duration::from_millis(millis);
            cursor.record_read(range, clock);
            let (next, reach) = (cursor.position(), cursor.reach(0));
            prop_assert!(cursor.window(0) <= reach);
            fetched.insert(ByteRange::new(next, next + reach));
            seen.insert(range);
            read += range.len();
        }
        for range in seen.iter() {
            fetched.remove(range);
        }
        let wasted = fetched.bytes();
        prop_assert!(wasted <= 2 * read, "{wasted} of {read}");
    }
}

#[test]
fn the_rate_is_an_average_over_half_a_second() {
    let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
    cursor.record_read(ByteRange::new(0, 1000), Duration::from_secs(1));
    assert_eq!(cursor.rate(), Some(1000.0));
    cursor.record_read(ByteRange::new(1000, 2000), Duration::from_millis(1500));
    let expected = 1000.0 + (1.0 - (-1f64).exp()) * 1000.0;
    let rate = cursor.rate().expect("it read");
    assert!((rate - expected).abs() < 0.01, "{rate}");
}

#[test]
fn a_read_continues_a_sequence_within_these_steps() {
    let begun = |read| {
        let mut cursor = ReadAhead::new(STREAM, 40 * MIB, Duration::ZERO);
        let all = ByteRange::new(40 * MIB, 40 * MIB + read);
        play(&mut cursor, all, 1 << 30, &mut Duration::ZERO.clone());
        cursor
    };
    for (read, first, last) in [
        (0, 39 * MIB, 41 * MIB),
        (256 * KIB, 39 * MIB, 41 * MIB + 256 * KIB),
        (MIB, 39 * MIB, 43 * MIB),
        (4 * MIB, 39 * MIB, 52 * MIB),
        (7 * MIB, 39 * MIB, 55 * MIB),
        (20 * MIB, 52 * MIB, 68 * MIB),
    ] {
        let cursor = begun(read);
        assert!(
            cursor.continues(first) && !cursor.continues(first - 1),
            "{read}"
        );
        assert!(
            cursor.continues(last) && !cursor.continues(last + 1),
            "{read}"
        );
    }
}

#[test]
fn skipped_bytes_narrow_the_window_until_they_are_read_or_for_good_once_they_are_too_late() {
    let mut cursor = after(4 * MIB, 1 << 30);
    let mut clock = Duration::from_secs(1);
    for (start, window, end, reason) in [
        (11, 3, 12, "twice five, without seven"),
        (12, 5, 13, "twice six, without seven"),
        (5, 8, 13, "twice seven, without six"),
        (5, 8, 13, "the same again"),
        (
            13,
            10,
            14,
            "twice eight, without six, of which one is too late",
        ),
        (6, 13, 14, "twice nine, without five"),
        (5, 0, 6, "too late, and so a new sequence"),
    ] {
        let mebibyte = ByteRange::new(start * MIB, (start + 1) * MIB);
        let short = ByteRange::new(start * MIB, start * MIB + 64 * KIB);
        let range = if window == 0 { short } else { mebibyte };
        play(&mut cursor, range, 1 << 30, &mut clock);
        assert_eq!(cursor.window(0), window * MIB, "{reason}");
        assert_eq!(cursor.position().div_ceil(MIB), end, "{reason}");
    }
}

/// One read of a mebibyte takes this long.
#[test]
fn the_window_holds_what_a_reader_takes_in_four_seconds_but_a_whole_chunk() {
    for (seconds, window) in [
        (1, 2 * MIB),
        (2, 2 * MIB),
        (4, MIB),
        (16, 256 * KIB),
        (32, 256 * KIB),
    ] {
        let mut cursor = ReadAhead::new(STREAM, 0, Duration::ZERO);
        cursor.record_read(ByteRange::new(0, MIB), Duration::from_secs(seconds));
        assert_eq!(cursor.window(0), window, "{seconds}");
    }
}

#[test]
fn a_grant_lasts_until_the_sequence_has_earned_as_much() {
    for (read, window) in [
        (256 * KIB - 1, 0),
        (256 * KIB, 12 * MIB),
        (5 * MIB, 12 * MIB),
        (7 * MIB, 14 * MIB),
        (20 * MIB, 20 * MIB),
    ] {
        assert_eq!(after(read, 1 << 30).window(12 * MIB), window, "{read}");
    }
    let slow = after(MIB, 125_000).window(12 * MIB);
    assert!(slow <= MIB, "{slow}: it needs no more");
    let narrow = Limits {
        window: 2 * MIB,
        ..STREAM
    };
    let mut cursor = ReadAhead::new(narrow, 0, Duration::ZERO);
    play(
        &mut cursor,
        ByteRange::new(0, MIB),
        1 << 30,
        &mut Duration::ZERO.clone(),
    );
    assert_eq!(cursor.window(12 * MIB), 2 * MIB);
}

#[test]
fn a_grant_keeps_all_streams_busy() {
    let cursor = after(MIB, 10_000_000);
    let ms = |millis| Some(Duration::from_millis(millis));
    for (first_byte, each, grant) in [
        (ms(20), Some(10e6), 9_600_000),
        (ms(20), None, 9_600_000),
        (ms(5), Some(5e6), 4 << 20),
        (ms(100), Some(20e6), 16 << 20),
        (None, Some(20e6), 4 << 20),
    ] {
        let found = cursor.grant(first_byte, each);
        assert!(
            found.abs_diff(grant) < grant / 100,
            "{first_byte:?} {each:?}: {found}"
        );
    }
    // Far from a fast bucket a long sequence has more.
    let long = after(16 * MIB, 10_000_000);
    for (first_byte, each, grant) in [
        (ms(20), Some(20e6), 16 << 20),
        (ms(100), Some(20e6), 64_000_000),
        (ms(200), Some(20e6), 64 << 20),
    ] {
        assert_eq!(long.grant(first_byte, each), grant, "{first_byte:?}");
    }
}
