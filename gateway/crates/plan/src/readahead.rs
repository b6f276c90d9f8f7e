//! The size of the read-ahead window, of its parts and of the number of streams.
//!
//! A cursor is a place in one version from which a reader reads on. [`ReadAhead`] watches the reads that belong to it
//! and answers three questions: how wide is the window (bytes to fetch before their request), how large is a part (one
//! request), and how many requests run at once. Callers pass the time in.
//!
//! The window is earned. No byte is fetched ahead before a reader has come through [`PROOF`] bytes in sequence. From
//! there the window may be twice as wide as the sequence is long, until it is [`HALF_SURE`] wide; after that it may be
//! as wide as the sequence is long. Skipped bytes count as lost until they are read. So for any pattern of reads, the
//! bytes fetched ahead and never read stay below twice the bytes read. A seek begins a new sequence. A slow reader
//! needs no more than the bytes that it takes in a few seconds.
//!
//! A part is the window's share of one stream, so all streams work however narrow the window is, and a long read ends
//! up with few large requests. Parts of a wide window are half as large. So if the part that the reader waits for is
//! late, the other streams can go on in the other half.

use std::time::Duration;

use super::{ByteRange, Extents};

/// The length in bytes of a sequence that proves a steady reader: more than the header that players and indexers probe,
/// and one chunk of the default size.
pub const PROOF: u64 = 256 << 10;

/// The window in bytes up to which it is twice the sequence; beyond it, it is as long as the sequence. A reader that
/// leaves after 10 MB has then cost at most 30, with the bytes hidden in the kernel's socket buffers.
const HALF_SURE: u64 = 16 << 20;

/// The smallest and the largest part in bytes. Below 256 KiB requests cost more than they bring; above 8 MiB nothing is
/// gained (measured: the SDK is as fast as a bare client from 8 MiB on).
const PART: (u64, u64) = (256 << 10, 8 << 20);

/// The part size in bytes from which on parts take half of a stream's share.
const ROOMY: u64 = 4 << 20;

/// The size in bytes below which parts do not shrink towards the end of a read.
const LAST_PARTS: u64 = 1 << 20;

/// The step in bytes beyond the expected place within which a read still belongs to the sequence: a kernel's reads
/// arrive out of order.
const NEAR: u64 = 1 << 20;

/// The largest such step, if as much may be fetched ahead. A kernel with a raised `read_ahead_kb` has as many reads of
/// a mebibyte under way, in any order.
const FAR: u64 = 8 << 20;

/// The step in bytes before the expected place within which a read still belongs to the sequence, but at most `NEAR`
/// before its beginning. Players step back a little, and the first of a kernel's parallel reads may end long after the
/// last.
pub const LATE: u64 = FAR;

/// The time for which a window holds the reader's bytes, so that a slow reader's window is small.
const HORIZON: Duration = Duration::from_secs(4);

/// The time over which the reader's rate is averaged.
const RATE_MEMORY: Duration = Duration::from_millis(500);

/// The limits of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Ceiling of the window in bytes; 0 turns read-ahead off.
    pub window: u64,
    /// Ceiling of parallel requests.
    pub streams: u32,
}

/// The state of one cursor; see the module.
#[derive(Debug, Clone)]
pub struct ReadAhead {
    limits: Limits,
    /// The beginning of the sequence, and the byte after its farthest read.
    began: u64,
    next: u64,
    /// The number of bytes of this sequence that were read.
    run: u64,
    /// The skipped bytes that may be read late, and the number of those that are too late by now.
    passed: Extents,
    lost: u64,
    /// The reader's rate in bytes a second, and the time of the last measurement. `None` before the second read.
    rate: Option<f64>,
    last: Duration,
}

impl ReadAhead {
    /// Creates a cursor at `start`, at the time `now` (since any fixed moment).
    #[must_use]
    pub fn new(limits: Limits, start: u64, now: Duration) -> Self {
        Self {
            limits,
            began: start,
            next: start,
            run: 0,
            passed: Extents::default(),
            lost: 0,
            rate: None,
            last: now,
        }
    }

    /// Returns whether a read that begins at `start` continues this cursor's sequence.
    #[must_use]
    pub fn continues(&self, start: u64) -> bool {
        let step = start.saturating_sub(self.next);
        let may_step = self.may_waste().clamp(NEAR, FAR);
        step <= may_step && start + LATE >= self.next && start + NEAR >= self.began
    }

    /// Records that a reader took `range`. A read that does not continue the sequence begins a new one.
    pub fn took(&mut self, range: ByteRange, now: Duration) {
        if !self.continues(range.start) {
            *self = Self::new(self.limits, range.start, now);
        }
        let ahead = range.end.saturating_sub(self.next.max(range.start));
        // Reading the same bytes again proves nothing.
        let fresh = ahead + self.passed.remove(range);
        if range.start > self.next {
            self.passed.insert(ByteRange::new(self.next, range.start));
        }
        self.next = self.next.max(range.end);
        let too_late = ByteRange::new(0, self.next.saturating_sub(LATE));
        self.lost += self.passed.remove(too_late);
        self.run += fresh;
        self.reckon(fresh, now);
    }

    /// Returns the bytes that may still be fetched ahead and never read: twice the read bytes, less the skipped bytes,
    /// which may have been fetched.
    fn may_waste(&self) -> u64 {
        (self.run * 2).saturating_sub(self.lost + self.passed.bytes())
    }

    fn reckon(&mut self, bytes: u64, now: Duration) {
        let passed = now.saturating_sub(self.last).as_secs_f64().max(1e-6);
        self.last = now;
        let seen = bytes as f64 / passed;
        let weight = 1.0 - (-passed / RATE_MEMORY.as_secs_f64()).exp();
        self.rate = Some(self.rate.map_or(seen, |rate| rate + weight * (seen - rate)));
    }

    /// Returns the byte after the farthest one that was read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Returns the bytes beyond [`ReadAhead::position`] to fetch now.
    #[must_use]
    pub fn window(&self) -> u64 {
        if self.run < PROOF {
            return 0;
        }
        let by_length = (self.run * 2).min(HALF_SURE).max(self.run);
        let earned = by_length.min(self.may_waste());
        let taken = self
            .rate
            .map_or(u64::MAX, |rate| (rate * HORIZON.as_secs_f64()) as u64);
        earned.min(taken.max(PROOF)).min(self.limits.window)
    }

    /// Returns the reader's rate in bytes a second; `None` before its second read.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Returns the size in bytes of one request within a window of `window` bytes over `streams` streams, with `left`
    /// bytes still to request. Towards the end parts become smaller, so that no stream idles while another still
    /// carries a large one (Polychronopoulos and Kuck, "Guided self-scheduling", 1987).
    #[must_use]
    pub fn part(window: u64, left: u64, streams: u32) -> u64 {
        let streams = u64::from(streams.max(1));
        let whole = window / streams;
        let roomy = whole.min((whole / 2).max(ROOMY));
        let last = (left / streams).max(LAST_PARTS);
        roomy.min(last).clamp(PART.0, PART.1)
    }

    /// Returns the fewest streams that keep the reader fed if one connection yields `each` bytes a second: a quarter
    /// more than the reader takes, and one in reserve. A reader that had to wait gets the limit.
    #[must_use]
    pub fn streams(&self, each: Option<f64>, waited: bool) -> u32 {
        let ceiling = self.limits.streams.max(1);
        match (self.rate, each) {
            (Some(rate), Some(each)) if !waited && each > 0.0 => ((1.25 * rate / each).ceil()
                as u32)
                .saturating_add(1)
                .min(ceiling),
            _ => ceiling,
        }
    }

    /// Changes the limits; the sequence goes on.
    pub fn limit(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const STREAM: Limits = Limits {
        window: 128 * MIB,
        streams: 16,
    };

    /// Reads `range` in steps of 64 KiB at `rate` bytes a second.
    fn play(cursor: &mut ReadAhead, range: ByteRange, rate: u64, clock: &mut Duration) {
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min(at + 64 * KIB);
            *clock += Duration::from_secs_f64((end - at) as f64 / rate as f64);
            cursor.took(ByteRange { start: at, end }, *clock);
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
            (64 * KIB, 0),
            (256 * KIB, 512 * KIB),
            (MIB, 2 * MIB),
            (4 * MIB, 8 * MIB),
            (6 * MIB, 12 * MIB),
            (10 * MIB, 16 * MIB),
            (20 * MIB, 20 * MIB),
            (500 * MIB, 128 * MIB),
        ] {
            assert_eq!(after(read, rate).window(), window, "{read}");
        }
    }

    #[test]
    fn a_slow_reader_holds_back_its_own_window() {
        let rate = 125_000;
        let window = after(20 * MIB, rate).window();
        assert!((rate * 3..=rate * 5).contains(&window), "{window}");
    }

    #[test]
    fn a_seek_drops_it_and_a_small_step_does_not() {
        let mut cursor = after(4 * MIB, 1 << 30);
        let now = Duration::from_secs(1);
        cursor.took(
            ByteRange {
                start: 4 * MIB - 200 * KIB,
                end: 4 * MIB - 100 * KIB,
            },
            now,
        );
        cursor.took(
            ByteRange {
                start: 4 * MIB + 100 * KIB,
                end: 4 * MIB + 164 * KIB,
            },
            now,
        );
        assert!(cursor.window() >= 4 * MIB);
        cursor.took(
            ByteRange {
                start: 400 * MIB,
                end: 400 * MIB + 64 * KIB,
            },
            now,
        );
        assert_eq!(
            (cursor.window(), cursor.position()),
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
        assert_eq!(cursor.window(), 40 * MIB);
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
        assert_eq!(cursor.window(), 80 * MIB);
    }

    #[test]
    fn who_skips_more_than_he_reads_begins_anew() {
        let mut cursor = after(2 * MIB, 1 << 30);
        assert!(cursor.continues(6 * MIB) && !cursor.continues(7 * MIB));
        let now = Duration::from_secs(1);
        cursor.took(ByteRange::new(5 * MIB, 6 * MIB), now);
        assert_eq!(cursor.window(), 3 * MIB, "twice three, without three");
        assert!(cursor.continues(9 * MIB) && !cursor.continues(10 * MIB));
        for n in 6..12 {
            cursor.took(ByteRange::new(n * MIB + 1, n * MIB + 2), now);
        }
        assert_eq!(cursor.window(), 0, "a byte of each mebibyte");
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
            cursor.took(range, Duration::from_millis(n));
        }
        assert_eq!(cursor.window(), 0);
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
        cursor.took(
            ByteRange {
                start: 0,
                end: 100 * MIB,
            },
            Duration::from_secs(1),
        );
        assert_eq!(cursor.window(), 0);
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
    fn parts_keep_all_streams_busy_and_grow() {
        assert_eq!(ReadAhead::part(2 * MIB, u64::MAX, 16), 256 * KIB);
        assert_eq!(ReadAhead::part(32 * MIB, u64::MAX, 16), 2 * MIB);
        assert_eq!(ReadAhead::part(128 * MIB, u64::MAX, 16), 4 * MIB);
        assert_eq!(ReadAhead::part(1 << 30, u64::MAX, 16), 8 * MIB);
        // Towards the end.
        assert_eq!(ReadAhead::part(128 * MIB, 32 * MIB, 16), 2 * MIB);
        assert_eq!(ReadAhead::part(128 * MIB, 2 * MIB, 16), MIB);
        assert_eq!(ReadAhead::part(2 * MIB, 2 * MIB, 16), 256 * KIB);
        assert_eq!(ReadAhead::part(1 << 40, u64::MAX, 1), 8 * MIB);
    }

    proptest! {
        /// Checks the module's bound for any reader. Every byte within a window counts as fetched once the window
        /// reaches it.
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
                cursor.took(range, clock);
                let (next, window) = (cursor.position(), cursor.window());
                fetched.insert(ByteRange::new(next, next + window));
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
}
