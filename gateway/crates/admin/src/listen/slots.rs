//! The slots of connections, and which connection gives way if none is free.
//!
//! A connection waits for its client until a whole request head is there: after it was accepted, and between two requests.
//! While another client waits for a slot, the connection that waits longest ends. Else a few clients that send nothing would
//! keep all slots.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_telemetry::locks::Recover as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The time for which a connection waits for its client before it gives way.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The pause before the next connection gives way to the same client.
const PAUSE: Duration = Duration::from_millis(100);

/// All slots, and the connections that wait for their clients, longest first.
#[derive(Debug)]
pub(super) struct Slots {
    free: Arc<Semaphore>,
    waiting: Mutex<Vec<WaitingConnection>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct WaitingConnection {
    id: u64,
    since: Instant,
    end: CancellationToken,
}

impl Slots {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Arc::new(Semaphore::new(count)),
            waiting: Mutex::new(Vec::new()),
            next: AtomicU64::new(0),
        })
    }

    /// Takes a slot. While none is free, connections that wait for their clients give way, one after the other.
    pub(super) async fn take(self: &Arc<Self>) -> Arc<Slot> {
        let mut permit = std::pin::pin!(self.free.clone().acquire_owned());
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                permit = &mut permit => {
                    return Slot::new(self.clone(), permit.expect("the semaphore is never closed"));
                }
                () = sleep(pause) => self.end_longest(),
            }
            pause = PAUSE;
        }
    }

    /// Ends the connection that waits longest, if it has waited long enough.
    fn end_longest(&self) {
        let mut waiting = self.waiting.lock().recover();
        let longest = waiting.first();
        if longest.is_some_and(|longest| longest.since.elapsed() >= MIN_WAIT) {
            waiting.remove(0).end.cancel();
        }
    }

    /// Removes a connection from the list; returns whether it has not given way.
    fn remove(&self, slot: &Slot) -> bool {
        let mut waiting = self.waiting.lock().recover();
        waiting.retain(|waiting| waiting.id != slot.id);
        !slot.end.is_cancelled()
    }
}

/// The slot of one connection. It waits for its client at first.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    id: u64,
    has_answered: AtomicBool,
    end: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Slot {
    fn new(slots: Arc<Slots>, permit: OwnedSemaphorePermit) -> Arc<Self> {
        let slot = Self {
            id: slots.next.fetch_add(1, Relaxed),
            slots,
            has_answered: AtomicBool::new(false),
            end: CancellationToken::new(),
            _permit: permit,
        };
        slot.wait();
        Arc::new(slot)
    }

    /// Puts the connection at the end of the list of those that wait for their clients.
    fn wait(&self) {
        let waiting = WaitingConnection {
            id: self.id,
            since: Instant::now(),
            end: self.end.clone(),
        };
        self.slots.waiting.lock().recover().push(waiting);
    }

    /// Begins an answer: a whole head is there, and the connection does not give way until the answer is dropped.
    ///
    /// # Errors
    /// The connection has given way already.
    pub(super) fn begin_answer(self: &Arc<Self>) -> Result<AnswerGuard, LateRequest> {
        if !self.slots.remove(self) {
            return Err(LateRequest);
        }
        self.has_answered.store(true, Relaxed);
        Ok(AnswerGuard(self.clone()))
    }

    /// Returns whether an answer was begun, so that the client may not have all of it.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Relaxed)
    }

    /// Waits until the connection is to give way.
    pub(super) async fn gave_way(&self) {
        self.end.cancelled().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.remove(self);
    }
}

/// An answer of a connection, until its last byte was handed over.
#[derive(Debug)]
pub(super) struct AnswerGuard(Arc<Slot>);

impl Drop for AnswerGuard {
    fn drop(&mut self) {
        self.0.wait();
    }
}

/// A request came on a connection that has given way: it is not carried out.
#[derive(Debug, thiserror::Error)]
#[error("the connection has given way to another client")]
pub(super) struct LateRequest;

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test(start_paused = true)]
    async fn the_connection_that_waits_longest_gives_way_and_a_busy_one_does_not() {
        let slots = Slots::new(3);
        let busy = slots.take().await;
        let answer = busy.begin_answer().expect("it has its slot");
        let (longest, other) = (slots.take().await, slots.take().await);
        let begun = Instant::now();
        {
            let mut next = std::pin::pin!(slots.take());
            tokio::select! {
                _ = &mut next => panic!("there was a slot"),
                () = longest.gave_way() => {}
            }
            assert!(begun.elapsed() >= MIN_WAIT && begun.elapsed() <= MIN_WAIT + 2 * PAUSE);
            assert!(longest.begin_answer().is_err(), "it is not carried out");
            drop(longest);
            assert!(next.now_or_never().is_some());
        }
        for kept in [&busy, &other] {
            assert!(kept.gave_way().now_or_never().is_none());
        }
        drop(answer);
        drop(other.begin_answer().expect("it has its slot"));
        // The busy one waits longer now.
        let _third = slots.take().await;
        tokio::select! {
            _ = slots.take() => panic!("there was a slot"),
            () = busy.gave_way() => {}
        }
        assert!(other.gave_way().now_or_never().is_none());
    }
}
