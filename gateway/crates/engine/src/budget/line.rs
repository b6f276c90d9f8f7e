//! The line for memory: serves clients in turn, one request at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use tidegate_origin::client;
use tidegate_plan::Client;
use tidegate_plan::lanes::{DEMAND, Lanes};
use tidegate_telemetry::locks::Recover as _;

/// The line of requests for memory.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: Mutex<LineState>,
    /// The number of requests in line, the first one included; read without the lock.
    length: AtomicUsize,
}

#[derive(Debug, Default)]
struct LineState {
    taken: bool,
    lanes: Lanes<oneshot::Sender<Turn>>,
}

/// The right to take memory before all others; passed on to the next request when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    line: Arc<Line>,
    client: Client,
}

/// A request in line.
struct LineEntry<'a>(&'a Line);

impl Drop for LineEntry<'_> {
    fn drop(&mut self) {
        self.0.length.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A turn, and the place in line that belongs to it.
pub(super) struct HeldTurn<'a> {
    _turn: Turn,
    _in_line: LineEntry<'a>,
}

impl Line {
    /// Returns whether a request waits for memory.
    pub(super) fn is_waited_in(&self) -> bool {
        self.length.load(Ordering::SeqCst) > 0
    }

    /// Waits until this request is the first in line.
    pub(super) async fn turn(self: &Arc<Self>) -> HeldTurn<'_> {
        self.length.fetch_add(1, Ordering::SeqCst);
        let in_line = LineEntry(self);
        let client = client::current();
        let told = {
            let mut state = self.state();
            if state.taken {
                let (tell, told) = oneshot::channel();
                state.lanes.push(client, DEMAND, tell);
                Some(told)
            } else {
                state.taken = true;
                state.lanes.begin(client);
                None
            }
        };
        let turn = match told {
            Some(told) => told.await.expect("a turn is dropped by its holder alone"),
            None => Turn {
                line: self.clone(),
                client,
            },
        };
        HeldTurn {
            _turn: turn,
            _in_line: in_line,
        }
    }

    fn state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().recover()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.line.state();
        state.lanes.end(self.client);
        let next = loop {
            let Some((client, _, waiter)) = state.lanes.pop([true, false]) else {
                state.taken = false;
                return;
            };
            if !waiter.is_closed() {
                break (client, waiter);
            }
            state.lanes.end(client);
        };
        drop(state);
        let (client, waiter) = next;
        // If the waiter has just left, the turn is dropped here, which passes it on again.
        drop(waiter.send(Self {
            line: self.line.clone(),
            client,
        }));
    }
}
