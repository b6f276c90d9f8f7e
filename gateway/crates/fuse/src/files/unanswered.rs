//! Requests of the kernel that are not answered yet, and what the kernel holds for them.
//!
//! The kernel holds a folder's lock while it waits for the answer to a change or a look-up in it, and a page while it
//! waits for its bytes. A notification of that name or page waits for the lock, within a system call that no signal ends. If
//! the process is killed then, the call does not return, so the device does not close, so the request is never failed:
//! process and mount hang until an operator aborts the connection (`umount -f`). So a notification is sent once the requests
//! that it would wait for are answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use tidegate_telemetry::locks::Recover as _;

/// The wait for a moment in which no request holds a node: look-ups that queued behind a change come all at once after it.
const CALM_TIMEOUT: Duration = Duration::from_millis(50);

/// How the kernel holds a node for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// With others at the same time: a look-up, a listing, a page that is read.
    Shared,
    /// Alone: a change of a folder, which may take as long as a rename of all that is in it.
    Alone,
}

/// The unanswered requests of one kind, by node.
#[derive(Debug, Default)]
pub(crate) struct UnansweredRequests {
    table: Mutex<RequestTable>,
    ended: Notify,
    /// The callers of [`Self::until_free`] that wait.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct RequestTable {
    /// The number of the next request. Those before it have smaller ones.
    next: u64,
    nodes: HashMap<u64, Vec<(u64, Hold)>>,
}

/// A request that is not answered as long as this lives.
#[derive(Debug)]
pub(crate) struct UnansweredRequest {
    all: Arc<UnansweredRequests>,
    ino: u64,
    number: u64,
}

impl UnansweredRequests {
    fn table(&self) -> MutexGuard<'_, RequestTable> {
        self.table.lock().recover()
    }

    /// Records a request for which the kernel holds a node.
    pub(crate) fn begin(self: &Arc<Self>, ino: u64, hold: Hold) -> UnansweredRequest {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.nodes.entry(ino).or_default().push((number, hold));
        UnansweredRequest {
            all: self.clone(),
            ino,
            number,
        }
    }

    /// Returns whether a request holds a node.
    pub(crate) fn is_held(&self, ino: u64) -> bool {
        self.table().nodes.contains_key(&ino)
    }

    /// Waits until no request holds a node, for [`CALM_TIMEOUT`] at most; then until all are answered that began by then,
    /// and none holds it alone. Look-ups that begin later are not waited for: in a busy folder there is always one.
    pub(crate) async fn until_free(&self, ino: u64) {
        let calm = self.until_answered(ino, u64::MAX);
        if timeout(CALM_TIMEOUT, calm).await.is_err() {
            let now = self.table().next;
            self.until_answered(ino, now).await;
        }
    }

    /// Waits until no request holds a node that has a number below `before`, or that holds it alone.
    async fn until_answered(&self, ino: u64, before: u64) {
        let _waiting = Waiting::count(&self.waiting);
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if !self.holds(ino, before) {
                return;
            }
            ended.await;
        }
    }

    fn holds(&self, ino: u64, before: u64) -> bool {
        let table = self.table();
        let requests = table.nodes.get(&ino);
        requests.is_some_and(|all| {
            all.iter()
                .any(|(number, hold)| *number < before || *hold == Hold::Alone)
        })
    }
}

/// A caller that waits, until this is dropped.
struct Waiting<'c>(&'c AtomicUsize);

impl<'c> Waiting<'c> {
    fn count(all: &'c AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(all)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for UnansweredRequest {
    fn drop(&mut self) {
        let mut table = self.all.table();
        if let Some(requests) = table.nodes.get_mut(&self.ino) {
            requests.retain(|(number, _)| *number != self.number);
            if requests.is_empty() {
                table.nodes.remove(&self.ino);
            }
        }
        drop(table);
        // It counted itself before it looked into the table.
        if self.all.waiting.load(Ordering::SeqCst) > 0 {
            self.all.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_began_before_is_waited_for_and_what_holds_alone() {
        let all = Arc::new(UnansweredRequests::default());
        assert_eq!(all.until_free(1).now_or_never(), Some(()));
        let early = all.begin(1, Hold::Shared);
        let mut free = Box::pin(all.until_free(1));
        assert_eq!(free.as_mut().now_or_never(), None);
        assert_eq!(all.until_free(2).now_or_never(), Some(()));
        tokio::time::advance(2 * CALM_TIMEOUT).await;
        assert_eq!(free.as_mut().now_or_never(), None);
        let late = all.begin(1, Hold::Shared);
        let change = all.begin(1, Hold::Alone);
        drop(early);
        assert_eq!(free.as_mut().now_or_never(), None, "a change is under way");
        drop(change);
        assert_eq!(free.now_or_never(), Some(()));
        drop(late);
        assert!(all.table().nodes.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_calm_moment_is_waited_for_a_while() {
        let all = Arc::new(UnansweredRequests::default());
        let mut looking = all.begin(1, Hold::Shared);
        let mut free = Box::pin(all.until_free(1));
        for _ in 0..3 {
            assert_eq!(free.as_mut().now_or_never(), None);
            // The next look-up is there before this one is answered.
            drop(std::mem::replace(&mut looking, all.begin(1, Hold::Shared)));
        }
        drop(looking);
        assert_eq!(free.now_or_never(), Some(()));
    }
}
