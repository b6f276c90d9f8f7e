//! The streams of an HTTP/2 connection, and the detection of those that their client has stopped reading.
//!
//! A stream lives from the head of its request until its client has taken the last byte of its answer. Only these bytes
//! are progress: hyper and h2 buffer frames, and answer PING and SETTINGS, whatever the client does. [`CountedBytes`]
//! counts them, because h2 advances a frame only as far as the peer's windows and the socket take it. The watchdog
//! compares the counts with those of its last check, so that a frame needs no clock.
//!
//! A stalled stream is reset by ending the task that hyper runs it in. If that task has ended, and only h2's buffer
//! holds the rest of the answer, only the connection can be ended.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use bytes::Buf;
use hyper::rt::Executor;
use prometheus_client::metrics::gauge::Gauge;
use tidegate_telemetry::locks::Recover as _;
use tokio::task::AbortHandle;

use crate::body::pieces::Pieces;

/// The task of a stream, known a moment after it was begun.
type Task = Arc<OnceLock<AbortHandle>>;

tokio::task_local! {
    /// The running task.
    static CURRENT_TASK: Task;
}

/// Runs the streams of HTTP/2 connections, each in a task that can be ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamExecutor;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        let own = Task::default();
        let task = tokio::spawn(CURRENT_TASK.scope(own.clone(), stream));
        own.get_or_init(|| task.abort_handle());
    }
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Http2Stream {
    /// Bytes of the answer that the client has taken.
    taken: AtomicU64,
    /// Whether the client has taken bytes of any stream of the connection since the last check.
    client_takes: Arc<AtomicBool>,
    /// Whether it waits for the server, not for its client.
    waits_for_server: AtomicBool,
    task: Option<Task>,
    /// All open streams, of all connections.
    open: Gauge,
}

impl Http2Stream {
    /// Begins the stream of the calling task, one of its connection's `streams`. It waits for the server.
    pub(crate) fn begin(open: &Gauge, streams: &ConnectionStreams) -> Arc<Self> {
        open.inc();
        Arc::new(Self {
            taken: AtomicU64::new(0),
            client_takes: streams.client_takes.clone(),
            waits_for_server: AtomicBool::new(true),
            task: CURRENT_TASK.try_with(Clone::clone).ok(),
            open: open.clone(),
        })
    }

    /// Records that its wait passes from the client to the server, or back.
    pub(crate) fn set_waiting(&self, for_server: bool) {
        self.waits_for_server.store(for_server, Relaxed);
    }

    /// Records bytes that the client has taken.
    fn take(&self, count: usize) {
        self.taken.fetch_add(count as u64, Relaxed);
        if count > 0 {
            self.client_takes.store(true, Relaxed);
        }
    }

    /// Ends its task; returns whether there was one.
    fn reset(&self) -> bool {
        let task = self.task.as_ref().and_then(|task| task.get());
        let Some(task) = task.filter(|task| !task.is_finished()) else {
            return false;
        };
        task.abort();
        true
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.open.dec();
    }
}

/// Bytes of an answer that are counted in their stream when the client takes them.
#[derive(Debug)]
pub(crate) struct CountedBytes {
    pieces: Pieces,
    stream: Option<Arc<Http2Stream>>,
}

impl CountedBytes {
    pub(crate) fn new(pieces: Pieces, stream: Option<Arc<Http2Stream>>) -> Self {
        Self { pieces, stream }
    }

    #[cfg(test)]
    pub(crate) fn into_bytes(mut self) -> bytes::Bytes {
        self.pieces.copy_to_bytes(self.pieces.remaining())
    }
}

impl Buf for CountedBytes {
    fn remaining(&self) -> usize {
        self.pieces.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.pieces.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.pieces.advance(count);
        if let Some(stream) = &self.stream {
            stream.take(count);
        }
    }
}

/// The streams of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionStreams {
    watched: Mutex<VecDeque<WatchedStream>>,
    /// Whether the client has taken bytes of any stream since the last check. Streams that have ended, or were reset, do not
    /// tell: their counts are gone.
    client_takes: Arc<AtomicBool>,
    /// When the client was last seen to take bytes of any stream, in milliseconds.
    moved_at: AtomicU64,
}

/// A stream, as the watchdog saw it last.
#[derive(Debug)]
struct WatchedStream {
    stream: Weak<Http2Stream>,
    taken: u64,
    /// When it last moved, in milliseconds.
    since: u64,
}

/// The number of listed streams from which ended ones are removed before the next check.
const MAX_ENDED_STREAMS: usize = 256;

/// The most streams that one may wait for. h2 sends 16 KiB of each in turn, and a client opens the window of a connection for
/// all of them together: 128 streams on a link of 50 KB/s wait 42 s for each turn.
const MAX_TURNS: usize = 16;

/// The result of a check of the streams.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamCheck {
    /// Streams that are open, and the stalled ones among them.
    pub(crate) open: usize,
    pub(crate) stalled: usize,
    /// The stalled streams that could be reset.
    pub(crate) reset: usize,
    /// Streams that ended since the last check, and were still listed.
    pub(crate) ended: usize,
}

impl ConnectionStreams {
    fn watched(&self) -> MutexGuard<'_, VecDeque<WatchedStream>> {
        self.watched.lock().recover()
    }

    /// Adds a stream that begins now.
    pub(crate) fn add(&self, stream: &Arc<Http2Stream>, now: u64) {
        let mut watched = self.watched();
        if watched.len() >= MAX_ENDED_STREAMS {
            watched.retain(|it| it.stream.strong_count() > 0);
        }
        watched.push_back(WatchedStream {
            stream: Arc::downgrade(stream),
            taken: 0,
            since: now,
        });
    }

    /// Returns whether more than `count` are open.
    pub(crate) fn has_more_than(&self, count: usize) -> bool {
        let watched = self.watched();
        let open = |it: &&WatchedStream| it.stream.strong_count() > 0;
        watched.len() > count && watched.iter().filter(open).nth(count).is_some()
    }

    /// Forgets the streams that have ended; returns how many are open, and how many have ended since the last look.
    pub(crate) fn take_ended(&self) -> (usize, usize) {
        let mut watched = self.watched();
        let before = watched.len();
        watched.retain(|it| it.stream.strong_count() > 0);
        (watched.len(), before - watched.len())
    }

    /// Resets the streams whose client took no bytes for `limit` milliseconds, though they wait for it. While it takes bytes
    /// of other streams, they may wait for their turn: the limit is then as many times as long as streams are open.
    pub(crate) fn check(&self, now: u64, limit: u64) -> StreamCheck {
        let mut check = self.look(now);
        let moves = now.saturating_sub(self.moved_at.load(Relaxed)) < limit;
        let turns = if moves { check.open.min(MAX_TURNS) } else { 1 };
        let limit = limit.saturating_mul(turns as u64);
        for it in self.watched().iter() {
            if now.saturating_sub(it.since) >= limit
                && let Some(stream) = it.stream.upgrade()
            {
                check.stalled += 1;
                check.reset += usize::from(stream.reset());
            }
        }
        check
    }

    /// Notes which streams have moved since the last look; returns how many are open, and how many have ended.
    fn look(&self, now: u64) -> StreamCheck {
        let mut watched = self.watched();
        let before = watched.len();
        watched.retain_mut(|it| {
            let Some(stream) = it.stream.upgrade() else {
                return false;
            };
            let taken = stream.taken.load(Relaxed);
            if taken != it.taken || stream.waits_for_server.load(Relaxed) {
                (it.taken, it.since) = (taken, now);
            }
            true
        });
        let (open, ended) = (watched.len(), before - watched.len());
        if self.client_takes.swap(false, Relaxed) {
            self.moved_at.store(now, Relaxed);
        }
        StreamCheck {
            open,
            ended,
            ..StreamCheck::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn handed(
        streams: &ConnectionStreams,
        open: &Gauge,
        now: u64,
    ) -> (Arc<Http2Stream>, CountedBytes) {
        let stream = Http2Stream::begin(open, streams);
        streams.add(&stream, now);
        stream.set_waiting(false);
        let bytes = CountedBytes::new(Bytes::from_static(&[7; 100]).into(), Some(stream.clone()));
        (stream, bytes)
    }

    #[test]
    fn only_bytes_that_are_taken_are_progress() {
        let (streams, open) = (ConnectionStreams::default(), Gauge::default());
        let (stream, mut bytes) = handed(&streams, &open, 0);
        let check = |now| streams.check(now, 30);
        assert_eq!((check(29).stalled, check(30).stalled), (0, 1));
        bytes.advance(1);
        assert_eq!((check(31).stalled, check(60).stalled), (0, 0));
        assert_eq!(check(61).stalled, 1);
        stream.set_waiting(true);
        assert_eq!(check(1000).stalled, 0, "we are slow, not the client");
        stream.set_waiting(false);
        assert_eq!((check(1029).stalled, check(1030).stalled), (0, 1));
        drop(stream);
        assert_eq!(check(1030).open, 1, "the client has not taken the rest");
        drop(bytes);
        let ended = StreamCheck {
            ended: 1,
            ..StreamCheck::default()
        };
        assert_eq!((check(1031), check(1032)), (ended, StreamCheck::default()));
    }

    #[test]
    fn a_stream_waits_for_its_turn_while_others_move() {
        for stops in [false, true] {
            let (streams, open) = (ConnectionStreams::default(), Gauge::default());
            let mut all: Vec<_> = (0..4).map(|_| handed(&streams, &open, 0)).collect();
            let mut check = |now, moves: bool| {
                all[0].1.advance(usize::from(moves));
                streams.check(now, 30).stalled
            };
            for now in [20, 40, 60, 80] {
                assert_eq!(check(now, true), 0);
            }
            let stalled = match stops {
                true => [check(109, false), check(110, false)],
                false => [check(100, true), check(120, true)],
            };
            assert_eq!(stalled, [0, if stops { 4 } else { 3 }]);
        }
    }

    #[test]
    fn a_stream_waits_for_its_turn_while_others_are_taken_to_their_end() {
        for (takes, is_looked_at) in [(true, true), (true, false), (false, true), (false, false)] {
            let (streams, open) = (ConnectionStreams::default(), Gauge::default());
            let _waiting: Vec<_> = (0..4).map(|_| handed(&streams, &open, 0)).collect();
            for now in [10, 20, 30, 40] {
                let (stream, mut bytes) = handed(&streams, &open, now - 5);
                // A body of no byte, or a cancelled one, ends as well.
                bytes.advance(if takes { 100 } else { 0 });
                drop((stream, bytes));
                // A client that waits for a place has all connections looked at.
                if is_looked_at {
                    assert_eq!(streams.take_ended(), (4, 1));
                }
                let stalled = if takes || now < 30 { 0 } else { 4 };
                assert_eq!(streams.check(now, 30).stalled, stalled, "{now}");
            }
        }
    }

    #[test]
    fn ended_streams_are_forgotten_and_open_ones_counted() {
        let (streams, open) = (ConnectionStreams::default(), Gauge::default());
        let kept: Vec<_> = (0..3).map(|_| handed(&streams, &open, 0)).collect();
        for _ in 0..10 * MAX_ENDED_STREAMS {
            handed(&streams, &open, 0);
        }
        assert!(streams.watched().len() <= MAX_ENDED_STREAMS);
        assert_eq!(open.get(), 3);
        assert!(streams.has_more_than(2) && !streams.has_more_than(3));
        drop(kept);
        assert!(!streams.has_more_than(0));
    }

    /// Begins a stream in a task of its own, whose client takes nothing.
    async fn untaken(streams: &Arc<ConnectionStreams>, open: &Gauge, now: u64) {
        let (begun, begins) = tokio::sync::oneshot::channel();
        let (streams, open) = (streams.clone(), open.clone());
        StreamExecutor.execute(async move {
            let stream = handed(&streams, &open, now);
            begun.send(()).expect("it is waited for");
            std::future::pending::<()>().await;
            drop(stream);
        });
        begins.await.expect("it runs");
    }

    /// Waits until no more than `count` streams are open.
    async fn open_at_most(open: &Gauge, count: i64) {
        while open.get() > count {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_stalled_stream_is_reset_with_its_task() {
        let (streams, open) = (Arc::new(ConnectionStreams::default()), Gauge::default());
        untaken(&streams, &open, 0).await;
        let check = streams.check(30, 30);
        assert_eq!((check.stalled, check.reset), (1, 1));
        open_at_most(&open, 0).await;
        assert_eq!(streams.check(30, 30).open, 0);
    }

    #[tokio::test]
    async fn a_reset_is_no_sign_of_a_client_that_takes_bytes() {
        let (streams, open) = (Arc::new(ConnectionStreams::default()), Gauge::default());
        for now in [0, 20, 20, 20] {
            untaken(&streams, &open, now).await;
        }
        assert_eq!(streams.check(30, 30).reset, 1);
        open_at_most(&open, 3).await;
        let check = streams.check(50, 30);
        assert_eq!((check.ended, check.reset), (1, 3));
    }
}
