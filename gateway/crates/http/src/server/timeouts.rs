//! Connection timeouts: one clock for slow heads, idle keep-alive and stalled clients.
//!
//! The socket's wrapper and the answers on it record their progress. A watchdog reads the record now and then and ends
//! the connection when a deadline has passed. That costs one timer a connection instead of one a wait. A deadline is
//! noticed late by at most the shortest of the three. Before each look, a write that waits asks the kernel for room: it
//! reports room only after the client has taken a third of what it keeps.
//!
//! Over HTTP/2, traffic on the socket proves nothing: PING and SETTINGS are answered, and pings sent, for a client that
//! takes no bytes. There each stream has its own stall deadline (see [`super::streams`]), and the connection is idle
//! while no stream begins, is open or ends. As progress of a stream is seen only at a check, its deadline may be
//! noticed late by twice as much.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use http::Version;
use tokio::time::Instant;

use super::streams::{ConnectionStreams, Http2Stream};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// The recorded activity of a connection, written from several places at once. Times are milliseconds since it was
/// accepted.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    pub(crate) metrics: Arc<Metrics>,
    accepted_at: Instant,
    /// When bytes last moved towards the client, or a request began or ended.
    progress_at: AtomicU64,
    /// When the head that is being read began, plus one; 0 for none.
    head_since: AtomicU64,
    /// Whether bytes were written, and whether a head began to arrive, since the connection was polled.
    wrote: AtomicBool,
    head_begun: AtomicBool,
    /// Whether a request was begun or answered since then: `progress_at` has the time of that poll.
    has_time: AtomicBool,
    /// Whether the kernel had no room for the last write: the client has not taken all of its answer.
    write_waits: AtomicBool,
    /// When the kernel last took bytes of a write that had waited.
    room_at: AtomicU64,
    /// The task of a request that waits for that, woken when there is room.
    turn: AtomicWaker,
    /// Whether a write that waits asks the kernel for room.
    retries: AtomicBool,
    /// Whether the gateway ends the connection, for it ends itself.
    cut_off: AtomicBool,
    /// Whether the last client's request of HTTP/1 keeps the connection.
    is_kept: AtomicBool,
    /// Whether the connection ends behind the answer, over a body that was not asked for.
    ends_unread: AtomicBool,
    /// Bodies of requests of which the end was not read. Behind one, what arrives is no request's head.
    unread_bodies: AtomicU32,
    /// Requests in flight over HTTP/1.
    requests: AtomicU32,
    /// The part of them that waits for the server, not for the client.
    waiting_requests: AtomicU32,
    /// Whether requests come as streams: bytes that arrive are then no sign of a request's head.
    multiplexed: AtomicBool,
    streams: ConnectionStreams,
    /// Streams that were reset, and not yet counted.
    streams_reset: AtomicU64,
    /// When the connection was told to end for a stream that cannot be reset, plus one.
    draining_since: AtomicU64,
}

/// A request's turn to be answered, which gives it the record of its connection.
///
/// hyper reads the next head of HTTP/1 before the client has taken the answer before it, if the end of a request's body
/// came after its answer. hyper puts any number of such answers into its memory, as long as they have no bodies.
#[derive(Debug)]
pub(crate) struct Turn(pub(crate) Arc<ConnectionActivity>);

impl Turn {
    /// Waits until the client has taken the answers before this one. Those of HTTP/2 wait in streams of their own.
    pub(crate) async fn come(self, version: Version) -> Arc<ConnectionActivity> {
        if version != Version::HTTP_2 {
            poll_fn(|cx| {
                if !self.0.write_waits() {
                    return Poll::Ready(());
                }
                // The waker is that of the connection's task, which alone writes.
                self.0.turn.register(cx.waker());
                Poll::Pending
            })
            .await;
        }
        self.0
    }
}

/// The deadlines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) header: Duration,
    pub(crate) idle: Duration,
    pub(crate) stall: Duration,
}

/// The wait of a connection for a request's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadWait {
    /// Whether the client had an answer before, and has sent nothing since.
    pub(crate) is_idle: bool,
    pub(crate) time: Duration,
}

/// The reason why a connection is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Header,
    Idle,
    Stalled,
    /// A stream is stalled that cannot be reset, and others move: they may end first.
    StreamStalled,
}

impl ConnectionActivity {
    /// Begins the record of a connection accepted now, which owes a request's head.
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            metrics,
            accepted_at: Instant::now(),
            progress_at: AtomicU64::new(0),
            head_since: AtomicU64::new(1),
            wrote: AtomicBool::new(false),
            head_begun: AtomicBool::new(false),
            has_time: AtomicBool::new(false),
            write_waits: AtomicBool::new(false),
            room_at: AtomicU64::new(0),
            turn: AtomicWaker::new(),
            retries: AtomicBool::new(false),
            cut_off: AtomicBool::new(false),
            is_kept: AtomicBool::new(true),
            ends_unread: AtomicBool::new(false),
            unread_bodies: AtomicU32::new(0),
            requests: AtomicU32::new(0),
            waiting_requests: AtomicU32::new(0),
            multiplexed: AtomicBool::new(false),
            streams: ConnectionStreams::default(),
            streams_reset: AtomicU64::new(0),
            draining_since: AtomicU64::new(0),
        }
    }

    fn millis(&self, at: Instant) -> u64 {
        in_millis(at.duration_since(self.accepted_at)).min(u64::MAX - 1)
    }

    /// Records that bytes reached the client, or were asked for on its behalf, at this time.
    pub(crate) fn record_progress(&self, at: Instant) {
        self.progress_at.store(self.millis(at), Relaxed);
    }

    /// Records that a request was begun or answered at this time, which is now.
    pub(crate) fn record_step(&self, at: Instant) {
        self.record_progress(at);
        self.has_time.store(true, Relaxed);
    }

    /// Records bytes written to the socket.
    pub(crate) fn record_write(&self) {
        self.wrote.store(true, Relaxed);
        if self.write_waits.load(Relaxed) {
            self.write_waits.store(false, Relaxed);
            self.room_at.store(self.millis(Instant::now()), Relaxed);
            // A head that came behind the answer has its time from now on.
            if self.head_since.swap(0, Relaxed) > 0 {
                self.head_begun.store(true, Relaxed);
            }
            self.turn.wake();
        }
    }

    /// Records a write for which the kernel had no room.
    pub(crate) fn record_full(&self) {
        self.write_waits.store(true, Relaxed);
    }

    /// Returns whether the kernel had no room for the last write.
    pub(crate) fn write_waits(&self) -> bool {
        self.write_waits.load(Relaxed)
    }

    /// Returns whether a request of HTTP/1 has no answer yet, or its client has not taken all of it. The answer is handed over
    /// as soon as hyper holds its last piece, which may be a megabyte.
    fn has_answer_to_take(&self) -> bool {
        self.requests.load(Relaxed) > 0 || self.write_waits.load(Relaxed)
    }

    /// Records that the gateway ends the connection, for it ends itself.
    pub(crate) fn cut_off(&self) {
        self.cut_off.store(true, Relaxed);
    }

    /// Returns whether the gateway ends the connection, for it ends itself.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Relaxed)
    }

    /// Sets whether a write that waits asks the kernel for room.
    pub(crate) fn set_retries(&self, retries: bool) {
        self.retries.store(retries, Relaxed);
    }

    /// Returns whether a write that waits asks the kernel for room.
    pub(crate) fn retries(&self) -> bool {
        self.retries.load(Relaxed)
    }

    /// Records bytes that arrived from the client.
    pub(crate) fn record_read(&self) {
        self.head_begun.store(true, Relaxed);
    }

    /// Notes the time of the traffic recorded since the last call. It is called at the end of each poll of the connection.
    /// A poll that has begun or answered a request has looked at the clock; another one looks here, once, however many
    /// reads and writes it took.
    pub(crate) fn settle(&self) {
        let (wrote, head_begun) = (self.wrote.load(Relaxed), self.head_begun.load(Relaxed));
        let has_time = self.has_time.load(Relaxed);
        if has_time {
            self.has_time.store(false, Relaxed);
        }
        if !wrote && !head_begun {
            return;
        }
        self.wrote.store(false, Relaxed);
        self.head_begun.store(false, Relaxed);
        if self.multiplexed.load(Relaxed) {
            return;
        }
        let now = match has_time {
            true => self.progress_at.load(Relaxed),
            false => self.millis(Instant::now()),
        };
        if wrote {
            self.progress_at.store(now, Relaxed);
        }
        if head_begun && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(now + 1, Relaxed);
        }
    }

    /// Returns a new stream of HTTP/2.
    pub(crate) fn new_stream(&self) -> Arc<Http2Stream> {
        Http2Stream::begin(&self.metrics.streams, &self.streams)
    }

    /// Records that a request's head is complete at this time; over HTTP/1 it waits for the server until
    /// [`ConnectionActivity::end_request`].
    pub(crate) fn begin_request(&self, at: Instant, stream: Option<&Arc<Http2Stream>>) {
        self.record_step(at);
        self.end_head();
        if let Some(stream) = stream {
            self.multiplexed.store(true, Relaxed);
            self.streams.add(stream, self.millis(at));
        } else {
            self.requests.fetch_add(1, Relaxed);
            self.waiting_requests.fetch_add(1, Relaxed);
        }
    }

    /// Records whether the last request keeps the connection.
    pub(crate) fn set_kept(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Relaxed);
    }

    /// Records that a request has a body.
    pub(crate) fn begin_body(&self) {
        self.unread_bodies.fetch_add(1, Relaxed);
    }

    /// Records that the end of a body was read.
    pub(crate) fn end_body(&self) {
        self.unread_bodies.fetch_sub(1, Relaxed);
    }

    /// Records that the connection ends behind the answer: its client may send the body that was not asked for, or not.
    pub(crate) fn end_unread(&self) {
        self.ends_unread.store(true, Relaxed);
    }

    /// Returns whether the connection ends behind the answer, over a body that was not asked for.
    pub(crate) fn ends_unread(&self) -> bool {
        self.ends_unread.load(Relaxed)
    }

    /// Returns whether another request may follow the last one.
    pub(crate) fn goes_on(&self) -> bool {
        self.is_kept.load(Relaxed) && self.unread_bodies.load(Relaxed) == 0
    }

    /// Records that bytes of a body came that is discarded, or its end: they are not the next request's head. They are
    /// progress, but not instead of an answer's that waits to be taken.
    pub(crate) fn record_body_read(&self) {
        self.end_head();
        if !self.write_waits() {
            self.record_progress(Instant::now());
        }
    }

    fn end_head(&self) {
        self.head_since.store(0, Relaxed);
        self.head_begun.store(false, Relaxed);
    }

    /// Returns whether more than `count` streams are open.
    pub(crate) fn has_more_streams(&self, count: usize) -> bool {
        self.streams.has_more_than(count)
    }

    /// Returns the number of streams that were reset since the last call.
    pub(crate) fn take_streams_reset(&self) -> u64 {
        self.streams_reset.swap(0, Relaxed)
    }

    /// Records that an answer's wait passes from the server to the client (`false`) or back.
    pub(crate) fn set_waiting(&self, for_server: bool) {
        if for_server {
            self.waiting_requests.fetch_add(1, Relaxed);
        } else {
            self.waiting_requests.fetch_sub(1, Relaxed);
        }
    }

    /// Records that an answer is handed over or given up. Its last bytes count as progress when they are written.
    pub(crate) fn end_request(&self, waited_for_server: bool) {
        self.end_head();
        self.requests.fetch_sub(1, Relaxed);
        if waited_for_server {
            self.waiting_requests.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the wait for a request's head; `None` while the client has not had its answers.
    pub(crate) fn head_wait(&self) -> Option<HeadWait> {
        let (has_requests, head) = match self.multiplexed.load(Relaxed) {
            true => (self.has_streams(), 0),
            false => (self.has_answer_to_take(), self.head_since.load(Relaxed)),
        };
        let since = head.checked_sub(1);
        let since = since.unwrap_or_else(|| self.progress_at.load(Relaxed));
        (!has_requests).then(|| HeadWait {
            is_idle: head == 0,
            time: self.passed(since),
        })
    }

    /// Returns whether the client has had its answers, and has sent nothing for so long.
    pub(crate) fn is_idle_for(&self, time: Duration) -> bool {
        self.head_wait()
            .is_some_and(|wait| wait.is_idle && wait.time >= time)
    }

    /// Returns whether it has been idle for so long, and in that time the kernel took no bytes that had waited. Before that,
    /// bytes of the last answer may be on their way to the client.
    pub(crate) fn is_quiet_for(&self, time: Duration) -> bool {
        self.is_idle_for(time) && self.passed(self.room_at.load(Relaxed)) >= time
    }

    fn passed(&self, since: u64) -> Duration {
        Duration::from_millis(self.millis(Instant::now()).saturating_sub(since))
    }

    /// Returns whether streams are open. One that has ended since the last look counts as progress now.
    fn has_streams(&self) -> bool {
        let (open, ended) = self.streams.take_ended();
        if ended > 0 {
            self.record_progress(Instant::now());
        }
        open > 0
    }

    /// Checks whether a deadline has passed; else returns how long to wait until the next check.
    pub(crate) fn check(&self, limits: Timeouts) -> Result<Duration, Expiry> {
        match self.multiplexed.load(Relaxed) {
            true => self.check_streams(limits),
            false => self.check_request(limits),
        }
    }

    fn check_streams(&self, limits: Timeouts) -> Result<Duration, Expiry> {
        let now = self.millis(Instant::now());
        let [stall, idle] = [limits.stall, limits.idle].map(in_millis);
        let check = self.streams.check(now, stall);
        self.streams_reset.fetch_add(check.reset as u64, Relaxed);
        if check.open > 0 || check.ended > 0 {
            self.progress_at.store(now, Relaxed);
        } else if now.saturating_sub(self.progress_at.load(Relaxed)) >= idle {
            return Err(Expiry::Idle);
        }
        let draining_since = self.draining_since.load(Relaxed);
        if check.stalled > check.reset && draining_since == 0 && check.open > check.stalled {
            self.draining_since.store(now + 1, Relaxed);
            return Err(Expiry::StreamStalled);
        }
        let is_late = draining_since == 0 || now + 1 - draining_since >= stall;
        if check.stalled > check.reset && is_late {
            return Err(Expiry::Stalled);
        }
        Ok(limits.shortest())
    }

    fn check_request(&self, limits: Timeouts) -> Result<Duration, Expiry> {
        let open = self.requests.load(Relaxed);
        let head = self.head_since.load(Relaxed);
        let progress = self.progress_at.load(Relaxed);
        let (since, limit, why) = if open > 0 && open <= self.waiting_requests.load(Relaxed) {
            return Ok(limits.shortest());
        } else if self.has_answer_to_take() {
            (progress, limits.stall, Expiry::Stalled)
        } else if head > 0 {
            (head - 1, limits.header, Expiry::Header)
        } else {
            (progress, limits.idle, Expiry::Idle)
        };
        match limit.checked_sub(self.passed(since)) {
            None | Some(Duration::ZERO) => Err(why),
            Some(left) => Ok(left.min(limits.shortest())),
        }
    }
}

fn in_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl From<&Settings> for Timeouts {
    fn from(settings: &Settings) -> Self {
        Self {
            header: settings.header_timeout,
            idle: settings.idle_timeout,
            stall: settings.stall_timeout,
        }
    }
}

impl Timeouts {
    pub(crate) fn shortest(self) -> Duration {
        self.header.min(self.idle).min(self.stall)
    }
}

#[cfg(test)]
mod tests;
