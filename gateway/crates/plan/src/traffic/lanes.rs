//! The order in which many clients get few places.
//!
//! Each client has a lane, and the lanes are served in turn. So a client with a thousand waiting requests delays
//! another client by one request and not by a thousand. In a lane, a request that a reader waits for goes before
//! read-ahead. Between lanes, it goes first for [`HEAD_START_TURNS`] turns. So many readers are served before any
//! read-ahead, and no flood delays one client's read-ahead for ever.

use std::collections::{HashMap, VecDeque};

use crate::Client;

/// The class of requests that a reader waits for.
pub const DEMAND: usize = 0;

/// The class of read-ahead requests.
pub const READ_AHEAD: usize = 1;

/// The number of turns of all lanes for which a reader's request goes before read-ahead.
const HEAD_START_TURNS: u64 = 8;

/// Requests that run or wait, by client.
#[derive(Debug)]
pub struct Lanes<T> {
    lanes: HashMap<Client, Lane<T>>,
    waiting: [usize; 2],
    /// The turn that was served last.
    turn: u64,
    /// The number of requests so far.
    arrived: u64,
}

#[derive(Debug)]
struct Lane<T> {
    running: usize,
    queued: [VecDeque<(u64, T)>; 2],
    /// The turn at which it is served next.
    due: u64,
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self {
            running: 0,
            queued: [VecDeque::new(), VecDeque::new()],
            due: 0,
        }
    }
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self {
            lanes: HashMap::new(),
            waiting: [0; 2],
            turn: 0,
            arrived: 0,
        }
    }
}

impl<T> Lane<T> {
    fn waiting(&self) -> usize {
        self.queued.iter().map(VecDeque::len).sum()
    }

    /// Returns the class that is served next and its rank; the lowest rank goes first.
    fn next(&self, open: [bool; 2]) -> Option<(usize, (u64, u64))> {
        let classes = [(DEMAND, 0), (READ_AHEAD, HEAD_START_TURNS)];
        classes.into_iter().find_map(|(class, late)| {
            let (arrived, _) = self.queued[class].front().filter(|_| open[class])?;
            Some((class, (self.due + late, *arrived)))
        })
    }
}

impl<T> Lanes<T> {
    /// Returns the number of waiting requests by class.
    #[must_use]
    pub fn waiting(&self) -> [usize; 2] {
        self.waiting
    }

    /// Records that a request of the client has a place.
    pub fn begin(&mut self, client: Client) {
        self.lanes.entry(client).or_default().running += 1;
    }

    /// Records that a request of the client has given its place back.
    pub fn end(&mut self, client: Client) {
        if let Some(lane) = self.lanes.get_mut(&client) {
            lane.running = lane.running.saturating_sub(1);
        }
        self.remove_if_idle(client);
    }

    /// Adds a waiting request.
    pub fn push(&mut self, client: Client, class: usize, waiter: T) {
        let lane = self.lanes.entry(client).or_default();
        if lane.waiting() == 0 {
            // A lane saves up no turns while none of its requests waits.
            lane.due = lane.due.max(self.turn);
        }
        self.arrived += 1;
        lane.queued[class].push_back((self.arrived, waiter));
        self.waiting[class] += 1;
    }

    /// Removes the next request of the classes that are `open`; it counts as running from now on.
    pub fn pop(&mut self, open: [bool; 2]) -> Option<(Client, usize, T)> {
        let ranked = self.lanes.iter();
        let ranked = ranked.filter_map(|(client, lane)| Some((*client, lane.next(open)?)));
        let (client, (class, _)) = ranked.min_by_key(|(_, (_, rank))| *rank)?;
        let lane = self.lanes.get_mut(&client)?;
        let (_, waiter) = lane.queued[class].pop_front()?;
        self.turn = self.turn.max(lane.due);
        lane.due += 1;
        lane.running += 1;
        self.waiting[class] -= 1;
        Some((client, class, waiter))
    }

    /// Removes a waiting request to make room for a new one of this client and class. That is the latest of the longest
    /// lane, if that lane is longer than the client's own will be. Otherwise a reader's request replaces a read-ahead
    /// request of a client that has at least as many waiting. `None` means that the new request has to go itself.
    pub fn make_room(&mut self, client: Client, class: usize) -> Option<T> {
        let own = self.lanes.get(&client).map_or(0, Lane::waiting);
        let longest = self.lanes.iter().max_by_key(|(_, lane)| lane.waiting());
        let longest = longest.filter(|(_, lane)| lane.waiting() > own + 1);
        let found = longest.or_else(|| {
            let lanes = self.lanes.iter().filter(|(_, lane)| lane.waiting() >= own);
            let most = lanes.max_by_key(|(_, lane)| lane.queued[READ_AHEAD].len())?;
            (class == DEMAND && !most.1.queued[READ_AHEAD].is_empty()).then_some(most)
        });
        let client = *found?.0;
        let lane = self.lanes.get_mut(&client)?;
        let class = if lane.queued[READ_AHEAD].is_empty() {
            DEMAND
        } else {
            READ_AHEAD
        };
        let (_, waiter) = lane.queued[class].pop_back()?;
        self.waiting[class] -= 1;
        self.remove_if_idle(client);
        Some(waiter)
    }

    /// Removes every waiting request that `keep` rejects.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let waiting = &mut self.waiting;
        self.lanes.retain(|_, lane| {
            for (class, queue) in lane.queued.iter_mut().enumerate() {
                let before = queue.len();
                queue.retain(|(_, waiter)| keep(waiter));
                waiting[class] -= before - queue.len();
            }
            lane.running > 0 || lane.waiting() > 0
        });
    }

    fn remove_if_idle(&mut self, client: Client) {
        let idle = |lane: &Lane<T>| lane.running == 0 && lane.waiting() == 0;
        if self.lanes.get(&client).is_some_and(idle) {
            self.lanes.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests;
