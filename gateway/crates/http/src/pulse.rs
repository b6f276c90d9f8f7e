//! Connection timeouts: one clock for slow heads, idle keep-alive and stalled clients.
//!
//! The socket's wrapper and the answers on it note their progress. A watchdog reads the notes now and then and ends the
//! connection when a deadline has passed. That costs one timer a connection instead of one a wait. A deadline is
//! noticed late by at most the shortest of the three.
//!
//! Over HTTP/2, traffic on the socket proves nothing: PING and SETTINGS are answered, and pings sent, for a client that
//! takes no bytes. There each stream has its own stall deadline (see [`super::streams`]), and the connection is idle
//! while no stream begins, is open or ends. As progress of a stream is seen only at a check, its deadline may be
//! noticed late by twice as much.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::settings::Settings;
use super::streams::{Stream, Streams};

/// The notes about a connection, written from several places at once. Times are milliseconds since it was accepted.
#[derive(Debug)]
pub(super) struct Pulse {
    born: Instant,
    /// When bytes last moved towards the client, or a request began or ended.
    moved: AtomicU64,
    /// When the head that is being read began, plus one; 0 for none.
    head: AtomicU64,
    /// Requests in flight over HTTP/1.
    open: AtomicU32,
    /// The part of them that waits for the server, not for the client.
    waiting: AtomicU32,
    /// Whether requests come as streams: bytes that arrive are then no sign of a request's head.
    multiplexed: AtomicBool,
    streams: Streams,
    /// Streams that were reset, and not yet counted.
    reset: AtomicU64,
    /// When the connection was told to end for a stream that cannot be reset, plus one.
    leaves: AtomicU64,
}

/// The deadlines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) header: Duration,
    pub(super) idle: Duration,
    pub(super) stall: Duration,
}

/// The reason why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Header,
    Idle,
    Stalled,
    /// A stream is stalled that cannot be reset, and others move: they may end first.
    Leaves,
}

impl Pulse {
    /// Notes of a connection accepted now, which owes a request's head.
    pub(super) fn new() -> Self {
        Self {
            born: Instant::now(),
            moved: AtomicU64::new(0),
            head: AtomicU64::new(1),
            open: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            multiplexed: AtomicBool::new(false),
            streams: Streams::default(),
            reset: AtomicU64::new(0),
            leaves: AtomicU64::new(0),
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        in_millis(at.duration_since(self.born)).min(u64::MAX - 1)
    }

    /// Notes that bytes reached the client, or were asked for on its behalf, at this time.
    pub(super) fn moved(&self, at: Instant) {
        self.moved.store(self.millis(at), Relaxed);
    }

    /// Notes bytes written to the socket.
    pub(super) fn wrote(&self) {
        if !self.multiplexed.load(Relaxed) {
            self.moved(Instant::now());
        }
    }

    /// Notes bytes that arrived from the client.
    pub(super) fn arrived(&self) {
        if self.head.load(Relaxed) == 0 && !self.multiplexed.load(Relaxed) {
            self.head.store(self.millis(Instant::now()) + 1, Relaxed);
        }
    }

    /// Notes that a request's head is complete at this time; over HTTP/1 it waits for the server until [`Pulse::ends`].
    pub(super) fn begins(&self, at: Instant, stream: Option<&Arc<Stream>>) {
        self.moved(at);
        self.head.store(0, Relaxed);
        if let Some(stream) = stream {
            self.multiplexed.store(true, Relaxed);
            self.streams.add(stream, self.millis(at));
        } else {
            self.open.fetch_add(1, Relaxed);
            self.waiting.fetch_add(1, Relaxed);
        }
    }

    /// Returns whether more than `count` streams are open.
    pub(super) fn exceeds(&self, count: usize) -> bool {
        self.streams.exceed(count)
    }

    /// Returns the number of streams that were reset since the last call.
    pub(super) fn take_reset(&self) -> u64 {
        self.reset.swap(0, Relaxed)
    }

    /// Notes that an answer's wait passes from the server to the client (`false`) or back.
    pub(super) fn waits_for_us(&self, for_us: bool) {
        if for_us {
            self.waiting.fetch_add(1, Relaxed);
        } else {
            self.waiting.fetch_sub(1, Relaxed);
        }
    }

    /// Notes an answer that is handed over or given up. Its last bytes are noted as moved when they are written.
    pub(super) fn ends(&self, waited_for_us: bool) {
        self.head.store(0, Relaxed);
        self.open.fetch_sub(1, Relaxed);
        if waited_for_us {
            self.waiting.fetch_sub(1, Relaxed);
        }
    }

    /// Checks whether a deadline has passed; else returns how long to wait until the next check.
    pub(super) fn check(&self, limits: Limits) -> Result<Duration, Why> {
        match self.multiplexed.load(Relaxed) {
            true => self.check_streams(limits),
            false => self.check_request(limits),
        }
    }

    fn check_streams(&self, limits: Limits) -> Result<Duration, Why> {
        let now = self.millis(Instant::now());
        let [stall, idle] = [limits.stall, limits.idle].map(in_millis);
        let look = self.streams.look(now, stall);
        self.reset.fetch_add(look.reset as u64, Relaxed);
        if look.open > 0 || look.ended > 0 {
            self.moved.store(now, Relaxed);
        } else if now.saturating_sub(self.moved.load(Relaxed)) >= idle {
            return Err(Why::Idle);
        }
        let leaves = self.leaves.load(Relaxed);
        if look.stalled > look.reset && leaves == 0 && look.open > look.stalled {
            self.leaves.store(now + 1, Relaxed);
            return Err(Why::Leaves);
        }
        let is_late = leaves == 0 || now + 1 - leaves >= stall;
        if look.stalled > look.reset && is_late {
            return Err(Why::Stalled);
        }
        Ok(limits.shortest())
    }

    fn check_request(&self, limits: Limits) -> Result<Duration, Why> {
        let open = self.open.load(Relaxed);
        let head = self.head.load(Relaxed);
        let (since, limit, why) = if open > 0 && open <= self.waiting.load(Relaxed) {
            return Ok(limits.shortest());
        } else if open > 0 {
            (self.moved.load(Relaxed), limits.stall, Why::Stalled)
        } else if head > 0 {
            (head - 1, limits.header, Why::Header)
        } else {
            (self.moved.load(Relaxed), limits.idle, Why::Idle)
        };
        let passed = Duration::from_millis(self.millis(Instant::now()).saturating_sub(since));
        match limit.checked_sub(passed) {
            None | Some(Duration::ZERO) => Err(why),
            Some(left) => Ok(left.min(limits.shortest())),
        }
    }
}

fn in_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl From<&Settings> for Limits {
    fn from(settings: &Settings) -> Self {
        Self {
            header: settings.header_timeout,
            idle: settings.idle_timeout,
            stall: settings.stall_timeout,
        }
    }
}

impl Limits {
    pub(super) fn shortest(self) -> Duration {
        self.header.min(self.idle).min(self.stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::gauge::Gauge;
    use tokio::time::advance;

    const LIMITS: Limits = Limits {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        stall: Duration::from_secs(30),
    };

    async fn after(pulse: &Pulse, secs: u64) -> Option<Why> {
        advance(Duration::from_secs(secs)).await;
        pulse.check(LIMITS).err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_owes_a_head() {
        let pulse = Pulse::new();
        assert_eq!(after(&pulse, 9).await, None);
        pulse.arrived();
        assert_eq!(
            after(&pulse, 1).await,
            Some(Why::Header),
            "a drip buys no time"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn keep_alive_may_idle_until_the_next_head_begins() {
        let pulse = Pulse::new();
        pulse.begins(Instant::now(), None);
        pulse.ends(true);
        assert_eq!(after(&pulse, 59).await, None);
        pulse.arrived();
        assert_eq!(
            after(&pulse, 5).await,
            None,
            "the head has a time of its own"
        );
        assert_eq!(after(&pulse, 5).await, Some(Why::Header));

        let pulse = Pulse::new();
        drop(stream(&pulse));
        pulse.arrived();
        assert_eq!(
            after(&pulse, 59).await,
            None,
            "HTTP/2 sends more than heads"
        );
        pulse.wrote();
        assert_eq!(
            after(&pulse, 59).await,
            None,
            "since the stream was seen to end"
        );
        assert_eq!(
            after(&pulse, 1).await,
            Some(Why::Idle),
            "PING is no request"
        );
    }

    fn stream(pulse: &Pulse) -> Arc<Stream> {
        let stream = Stream::begin(&Gauge::default());
        pulse.begins(Instant::now(), Some(&stream));
        stream
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_cannot_be_reset_ends_its_connection() {
        let pulse = Pulse::new();
        let (slow, stalled) = (stream(&pulse), stream(&pulse));
        assert_eq!(
            after(&pulse, 1000).await,
            None,
            "we are slow, not the client"
        );
        stalled.waits_for_us(false);
        assert_eq!(after(&pulse, 29).await, None);
        assert_eq!(
            after(&pulse, 1).await,
            Some(Why::Leaves),
            "another may end first"
        );
        assert_eq!(after(&pulse, 29).await, None);
        assert_eq!(after(&pulse, 1).await, Some(Why::Stalled));
        drop(slow);

        let pulse = Pulse::new();
        stream(&pulse).waits_for_us(false);
        let stalled = stream(&pulse);
        stalled.waits_for_us(false);
        assert_eq!(
            after(&pulse, 30).await,
            Some(Why::Stalled),
            "nothing else moves"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_clients_own_delay_counts_as_a_stall() {
        let pulse = Pulse::new();
        pulse.begins(Instant::now(), None);
        assert_eq!(
            after(&pulse, 1000).await,
            None,
            "we are slow, not the client"
        );
        pulse.waits_for_us(false);
        pulse.moved(Instant::now());
        assert_eq!(after(&pulse, 29).await, None);
        pulse.moved(Instant::now());
        assert_eq!(after(&pulse, 29).await, None, "slow, but it moves");
        assert_eq!(after(&pulse, 1).await, Some(Why::Stalled));
        pulse.waits_for_us(true);
        assert_eq!(after(&pulse, 1000).await, None);
    }
}
