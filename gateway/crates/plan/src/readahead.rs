//! The size of the read-ahead window, of its parts and of the number of streams.
//!
//! A cursor is a place in one version from which a reader reads on. [`ReadAhead`] watches the reads that belong to it
//! and answers three questions: how wide is the window (bytes to fetch before their request), how large is a part (one
//! request), and how many requests run at once. Callers pass the time in.
//!
//! The window is earned. No byte is fetched ahead before a reader has come through [`MIN_SEQUENCE`] bytes in sequence.
//! From there the window may be twice as wide as the sequence is long, until it is [`MAX_DOUBLE_WINDOW`] wide; after
//! that it may be as wide as the sequence is long. Skipped bytes count as lost until they are read. So for any pattern
//! of reads, the bytes fetched ahead and never read stay below twice the bytes read. A seek begins a new sequence. A
//! slow reader needs no more than the bytes that it takes in a few seconds.
//!
//! A reader that asks for a long range in one request has said what it wants. As soon as its first [`MIN_SEQUENCE`] bytes
//! have proved that it is no probe, its window is at least a [grant](ReadAhead::grant): enough that all streams are busy
//! at once, and no more. A reader that asks step by step has proved as much after [`STEADY_SEQUENCE`] bytes. Twice the
//! read bytes and one grant bound what a reader may waste.
//!
//! A part is the window's share of one stream, so all streams work however narrow the window is, and a long read ends
//! up with few large requests. Parts of a wide window are half as large. So if the part that the reader waits for is
//! late, the other streams can go on in the other half. The streams are all that the profile allows while the reader takes
//! its bytes at once, and those that it [needs](ReadAhead::streams) while it keeps a pace of its own.
//!
//! Each request has its price, so parts do not become smaller than what a connection carries in [`MIN_PART_TIME`]. A rest
//! of at most [`SMALL_REST`] is divided among as few streams as carry it in that time, or equally among all. A reader that
//! one connection keeps fed has parts of up to [`LONG_PART`], which [reach](ReadAhead::reach) beyond its window: the window
//! says when to fetch, and the bytes that it has read say how much.

use std::time::Duration;

use super::{ByteRange, Extents};

/// The length in bytes of a sequence that proves a steady reader: more than the header that players and indexers probe,
/// and one chunk of the default size.
pub const MIN_SEQUENCE: u64 = 256 << 10;

/// The length in bytes of a sequence, read by several requests, that proves a reader of the whole: more than programs
/// read to find out what a file is.
const STEADY_SEQUENCE: u64 = 2 << 20;

/// The length in bytes of a sequence that is longer than what programs read of a small object to find out what it is.
pub const MAX_HEADER: u64 = 1 << 20;

/// The window in bytes up to which it is twice the sequence; beyond it, it is as long as the sequence. A reader that
/// leaves after 10 MB has then cost at most 30, with the bytes hidden in the kernel's socket buffers.
const MAX_DOUBLE_WINDOW: u64 = 16 << 20;

/// The smallest and the largest part in bytes. Below 256 KiB requests cost more than they bring; above 8 MiB nothing is
/// gained (measured: the SDK is as fast as a bare client from 8 MiB on).
pub const PART_BOUNDS: (u64, u64) = (256 << 10, 8 << 20);

/// The size in bytes below which parts neither take half of a stream's share nor shrink towards the end of a read. Over a
/// fast connection it is what that carries in [`MIN_PART_TIME`].
const MIN_SHARED_PART: u64 = 1 << 20;

/// The time within which a connection carries a part that is not worth dividing: no reader notices it.
const MIN_PART_TIME: Duration = Duration::from_millis(50);

/// The factor on that time for the rest of an object that a program reads in steps, as through a mount.
const STEPS_FACTOR: f64 = 2.0;

/// The time within which a connection carries a window that is not worth dividing among streams.
const MIN_SPLIT_TIME: Duration = Duration::from_millis(5);

/// The rest of a read in bytes that is fetched at once for a reader in sequence, with few requests. A reader that leaves
/// costs no more than with the smallest [grants](ReadAhead::grant) of a long range.
pub const SMALL_REST: u64 = 8 << 20;

/// The largest part in bytes for a reader that one connection keeps fed: minutes of an audiobook, and so much memory for
/// each of its listeners.
pub const LONG_PART: u64 = 4 << 20;

/// The longest time for which a connection carries such a part: one that skips within it waits for what lies between.
const LONG_PART_TIME: Duration = Duration::from_secs(1);

/// The longest time for which all connections together carry a [small rest](SMALL_REST), for the same reason.
const REST_TIME: Duration = Duration::from_secs(1);

/// The step in bytes beyond the expected place within which a read still belongs to the sequence: a kernel's reads
/// arrive out of order.
const MIN_STEP: u64 = 1 << 20;

/// The largest such step, if as much may be fetched ahead. A kernel with a raised `read_ahead_kb` has as many reads of
/// a mebibyte under way, in any order.
const MAX_STEP: u64 = 8 << 20;

/// The step in bytes before the expected place within which a read still belongs to the sequence, but at most `MIN_STEP`
/// before its beginning. Players step back a little, and the first of a kernel's parallel reads may end long after the
/// last.
pub const MAX_STEP_BACK: u64 = MAX_STEP;

/// The smallest and the largest grant in bytes: a smallest part for each of 16 streams, and what a reader that leaves
/// after 10 MB may cost.
const GRANT_BOUNDS: (u64, u64) = (4 << 20, MAX_DOUBLE_WINDOW);

/// The largest grant in bytes for a reader far from a fast bucket, where more is on its way than [`GRANT_BOUNDS`] allow.
const MAX_FAR_GRANT: u64 = 64 << 20;

/// The length in bytes of a sequence that proves a reader that may have it: one that leaves after 10 MB, with the bytes
/// hidden in the kernel's socket buffers, has not come so far.
const FAR_SEQUENCE: u64 = 16 << 20;

/// The time for which a window holds the reader's bytes, so that a slow reader's window is small.
const WINDOW_TIME: Duration = Duration::from_secs(4);

/// The time over which the reader's rate is averaged.
const RATE_TIME: Duration = Duration::from_millis(500);

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
    start: u64,
    next: u64,
    /// The number of bytes of this sequence that were read.
    sequence_bytes: u64,
    /// The skipped bytes that may be read late, and the number of those that are too late by now.
    skipped: Extents,
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
            start,
            next: start,
            sequence_bytes: 0,
            skipped: Extents::default(),
            lost: 0,
            rate: None,
            last: now,
        }
    }

    /// Returns whether a read that begins at `start` continues this cursor's sequence.
    #[must_use]
    pub fn continues(&self, start: u64) -> bool {
        let step = start.saturating_sub(self.next);
        let may_step = self.may_waste().clamp(MIN_STEP, MAX_STEP);
        step <= may_step && start + MAX_STEP_BACK >= self.next && start + MIN_STEP >= self.start
    }

    /// Creates a cursor whose reader has come from `start` to `next` in sequence, at an unknown rate.
    #[must_use]
    pub fn resume(limits: Limits, start: u64, next: u64, now: Duration) -> Self {
        Self {
            next,
            sequence_bytes: next.saturating_sub(start),
            ..Self::new(limits, start, now)
        }
    }

    /// Records that a reader took `range`. A read that does not continue the sequence begins a new one.
    pub fn record_read(&mut self, range: ByteRange, now: Duration) {
        if !self.continues(range.start) {
            *self = Self::new(self.limits, range.start, now);
        }
        let ahead = range.end.saturating_sub(self.next.max(range.start));
        // Reading the same bytes again proves nothing.
        let fresh = ahead + self.skipped.remove(range);
        self.skipped.insert(ByteRange::new(self.next, range.start));
        self.next = self.next.max(range.end);
        let too_late = ByteRange::new(0, self.next.saturating_sub(MAX_STEP_BACK));
        self.lost += self.skipped.remove(too_late);
        self.sequence_bytes += fresh;
        self.update_rate(fresh, now);
    }

    /// Returns the bytes that may still be fetched ahead and never read: twice the read bytes, less the skipped bytes,
    /// which may have been fetched.
    fn may_waste(&self) -> u64 {
        (self.sequence_bytes * 2).saturating_sub(self.lost + self.skipped.bytes())
    }

    fn update_rate(&mut self, bytes: u64, now: Duration) {
        let passed = now.saturating_sub(self.last).as_secs_f64().max(1e-6);
        self.last = now;
        let seen = bytes as f64 / passed;
        let weight = 1.0 - (-passed / RATE_TIME.as_secs_f64()).exp();
        self.rate = Some(self.rate.map_or(seen, |rate| rate + weight * (seen - rate)));
    }

    /// Returns the byte after the farthest one that was read.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Returns whether the sequence is so long that its reader will most likely read a small rest as well: longer than the
    /// tags of a track with a picture among them.
    #[must_use]
    pub fn is_past_header(&self) -> bool {
        self.sequence_bytes >= MAX_HEADER
    }

    /// Returns whether the sequence is so long that its reader needs no long range to prove what it wants.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        self.sequence_bytes >= STEADY_SEQUENCE
    }

    /// Returns the bytes beyond [`ReadAhead::position`] whose fetch must have begun by now. A reader that has said or proved
    /// that it reads on has a `grant`, others 0.
    #[must_use]
    pub fn window(&self, grant: u64) -> u64 {
        let taken = self
            .rate
            .map_or(u64::MAX, |rate| (rate * WINDOW_TIME.as_secs_f64()) as u64);
        self.reach(grant).min(taken.max(MIN_SEQUENCE))
    }

    /// Returns the bytes beyond [`ReadAhead::position`] that may be fetched, whatever the reader's rate: as far as a part may
    /// go that begins within the window.
    #[must_use]
    pub fn reach(&self, grant: u64) -> u64 {
        if self.sequence_bytes < MIN_SEQUENCE {
            return 0;
        }
        let by_length = (self.sequence_bytes * 2)
            .min(MAX_DOUBLE_WINDOW)
            .max(self.sequence_bytes);
        let earned = by_length.min(self.may_waste()).max(grant);
        earned.min(self.limits.window)
    }

    /// Returns the reader's rate in bytes a second; `None` before its second read.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }

    /// Returns the size in bytes of one request within a window of `window` bytes over `streams` streams, with `left`
    /// bytes still to request, if one connection yields `each` bytes a second. Towards the end parts become smaller, so that
    /// no stream idles while another still carries a large one (Polychronopoulos and Kuck, "Guided self-scheduling", 1987).
    #[must_use]
    pub fn part(window: u64, left: u64, streams: u32, each: Option<f64>) -> u64 {
        let (streams, quick) = (u64::from(streams.max(1)), shared_part(each));
        let soon = quick.min((each.unwrap_or(0.0) * MIN_SPLIT_TIME.as_secs_f64()) as u64);
        let whole = (window / streams).max(window.min(soon));
        let roomy = whole.min((whole / 2).max(quick));
        let last = (left / streams).max(quick);
        roomy.min(last).clamp(PART_BOUNDS.0, PART_BOUNDS.1)
    }

    /// Returns the size in bytes of one request for a reader that one connection keeps fed, which yields `each` bytes a second.
    #[must_use]
    pub fn long_part(each: Option<f64>) -> u64 {
        let carried = each.unwrap_or(0.0) * LONG_PART_TIME.as_secs_f64();
        (carried as u64).clamp(PART_BOUNDS.0, LONG_PART)
    }

    /// Returns the most bytes that are a [small rest](SMALL_REST) over `streams` streams, if a connection yields `each` bytes a
    /// second.
    #[must_use]
    pub fn small_rest(streams: u32, each: Option<f64>) -> u64 {
        let carried = |each: f64| (f64::from(streams) * each * REST_TIME.as_secs_f64()) as u64;
        SMALL_REST.min(each.map_or(u64::MAX, carried))
    }

    /// Returns the size in bytes of each request for a [small rest](SMALL_REST), which is fetched at once over up to
    /// `streams` streams. Programs that read `in_steps` find their parts larger: they wait less than while they earned the
    /// rest step by step.
    #[must_use]
    pub fn part_of_rest(rest: u64, streams: u32, each: Option<f64>, in_steps: bool) -> u64 {
        let quick = match in_steps {
            true => shared_part(each.map(|each| each * STEPS_FACTOR)),
            false => shared_part(each),
        };
        let parts = (rest + quick / 2) / quick;
        rest.div_ceil(parts.clamp(1, u64::from(streams.max(1))))
    }

    /// Returns the fewest streams that keep the reader fed if one connection yields `each` bytes a second: a quarter
    /// more than the reader takes, and one in reserve. A reader that had to wait gets the limit.
    #[must_use]
    pub fn streams(&self, each: Option<f64>, waited: bool) -> u32 {
        let ceiling = self.limits.streams.max(1);
        match self.needed_streams(each) {
            Some(needed) if !waited => needed.saturating_add(1).min(ceiling),
            _ => ceiling,
        }
    }

    /// Returns whether one connection that yields `each` bytes a second keeps the reader fed.
    #[must_use]
    pub fn is_fed_by_one(&self, each: Option<f64>) -> bool {
        self.needed_streams(each).is_some_and(|needed| needed <= 1)
    }

    fn needed_streams(&self, each: Option<f64>) -> Option<u32> {
        let (rate, each) = (self.rate?, each.filter(|each| *each > 0.0)?);
        Some((1.25 * rate / each).ceil() as u32)
    }

    /// Returns the bytes of a window in which all streams are busy: three times what they carry while a request travels.
    /// One share is under way, one is asked for, and one has come and waits for its turn. `first_byte` is the time to a
    /// request's first byte, and `each` are the bytes a second of one connection. While no connection has been measured,
    /// the reader itself is the measure: it takes the bytes of the first one as they come. One that has
    /// read [`FAR_SEQUENCE`] may have twice what is on its way, up to [`MAX_FAR_GRANT`], however far the bucket is.
    #[must_use]
    pub fn grant(&self, first_byte: Option<Duration>, each: Option<f64>) -> u64 {
        let each = each.or(self.rate).unwrap_or(0.0);
        let first_byte = first_byte.unwrap_or_default().as_secs_f64();
        let carried = f64::from(self.limits.streams) * each * first_byte;
        let near = ((3.0 * carried) as u64).clamp(GRANT_BOUNDS.0, GRANT_BOUNDS.1);
        let far = match self.sequence_bytes >= FAR_SEQUENCE {
            true => ((2.0 * carried) as u64).min(MAX_FAR_GRANT),
            false => 0,
        };
        near.max(far)
    }

    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }
}

/// Returns the size in bytes below which parts are not divided, if a connection yields `each` bytes a second.
fn shared_part(each: Option<f64>) -> u64 {
    let carried = each.unwrap_or(0.0) * MIN_PART_TIME.as_secs_f64();
    (carried as u64).max(MIN_SHARED_PART)
}

#[cfg(test)]
mod tests;
