//! Requests of the kernel that are not answered yet, and what the kernel holds for them.
//!
//! The kernel holds a folder's lock while it waits for the answer to a change or a look-up in it, and a page while it
//! waits for its bytes. A notification of that name or page waits for the lock, within a system call that no signal ends. If
//! the process is killed then, the call does not return, so the device does not close, so the request is never failed:
//! process and mount hang until an operator aborts the connection (`umount -f`). So a notification is sent once the requests
//! that it would wait for are answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use tidegate_telemetry::locks::Recover as _;

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

    /// Waits until all requests on a node are answered that began before the call, and none holds it alone. Look-ups that
    /// begin meanwhile are not waited for: in a busy folder there is always one.
    pub(crate) async fn until_free(&self, ino: u64) {
        let now = self.table().next;
        loop {
            let mut ended = std::pin::pin!(self.ended.notified());
            ended.as_mut().enable();
            if !self.holds(ino, now) {
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
        self.all.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn what_began_before_is_waited_for_and_what_holds_alone() {
        let all = Arc::new(UnansweredRequests::default());
        assert_eq!(all.until_free(1).now_or_never(), Some(()));
        let early = all.begin(1, Hold::Shared);
        let mut free = Box::pin(all.until_free(1));
        assert_eq!(free.as_mut().now_or_never(), None);
        assert_eq!(all.until_free(2).now_or_never(), Some(()));
        let late = all.begin(1, Hold::Shared);
        let change = all.begin(1, Hold::Alone);
        drop(early);
        assert_eq!(free.as_mut().now_or_never(), None, "a change is under way");
        drop(change);
        assert_eq!(free.now_or_never(), Some(()));
        drop(late);
        assert!(all.table().nodes.is_empty());
    }
}
