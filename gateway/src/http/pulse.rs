//! Whether a connection still lives: one clock for slow heads, idle keep-alive and stalled clients.
//!
//! The socket's wrapper and the answers on it note what happens; a watchdog looks at the notes now
//! and then and ends the connection when a deadline passed. That costs one timer a connection
//! instead of one a wait, and unlike timers around writes it also sees an HTTP/2 client that opens
//! no window. A deadline is noticed late by at most the shortest of the three.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::settings::Settings;

/// What happened on a connection, noted from several places at once. Times are milliseconds since
/// it was accepted.
#[derive(Debug)]
pub(super) struct Pulse {
    born: Instant,
    /// When something last moved towards the client or a request began or ended.
    moved: AtomicU64,
    /// When the head began that is being read, plus one; 0 for none.
    head: AtomicU64,
    /// Requests under way.
    open: AtomicU32,
    /// Those of them that wait for us, not for the client.
    waiting: AtomicU32,
    /// Whether bytes that arrive are no longer a sign of a request's head.
    multiplexed: AtomicBool,
}

/// The deadlines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) header: Duration,
    pub(super) idle: Duration,
    pub(super) stall: Duration,
}

/// Why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    Header,
    Idle,
    Stalled,
}

impl Pulse {
    /// A connection accepted now; it owes a request's head.
    pub(super) fn new() -> Self {
        Self {
            born: Instant::now(),
            moved: AtomicU64::new(0),
            head: AtomicU64::new(1),
            open: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            multiplexed: AtomicBool::new(false),
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.born).as_millis()).unwrap_or(u64::MAX - 1)
    }

    /// Bytes reached the client, or were asked for on its behalf, at this time.
    pub(super) fn moved(&self, at: Instant) {
        self.moved.store(self.millis(at), Relaxed);
    }

    /// Bytes of the client arrived.
    pub(super) fn arrived(&self) {
        if self.head.load(Relaxed) == 0 && !self.multiplexed.load(Relaxed) {
            self.head.store(self.millis(Instant::now()) + 1, Relaxed);
        }
    }

    /// A request's head is complete at this time; until [`Pulse::ends`] it waits for us.
    pub(super) fn begins(&self, at: Instant, multiplexed: bool) {
        self.moved(at);
        self.head.store(0, Relaxed);
        self.multiplexed.store(multiplexed, Relaxed);
        self.open.fetch_add(1, Relaxed);
        self.waiting.fetch_add(1, Relaxed);
    }

    /// An answer's wait passes from us to the client (`false`) or back.
    pub(super) fn waits_for_us(&self, for_us: bool) {
        if for_us {
            self.waiting.fetch_add(1, Relaxed);
        } else {
            self.waiting.fetch_sub(1, Relaxed);
        }
    }

    /// An answer is handed over or given up. Its last bytes are noted as moved when they are written.
    pub(super) fn ends(&self, waited_for_us: bool) {
        self.head.store(0, Relaxed);
        self.open.fetch_sub(1, Relaxed);
        if waited_for_us {
            self.waiting.fetch_sub(1, Relaxed);
        }
    }

    /// Whether a deadline has passed; else how long to wait before looking again.
    pub(super) fn check(&self, limits: Limits) -> Result<Duration, Why> {
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
        pulse.begins(Instant::now(), false);
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
        pulse.begins(Instant::now(), true);
        pulse.ends(true);
        pulse.arrived();
        assert_eq!(
            after(&pulse, 59).await,
            None,
            "HTTP/2 sends more than heads"
        );
        assert_eq!(after(&pulse, 1).await, Some(Why::Idle));
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_clients_own_delay_counts_as_a_stall() {
        let pulse = Pulse::new();
        pulse.begins(Instant::now(), false);
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
