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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [bool; 2] = [true, true];

    fn client(number: u32) -> Client {
        Client::V4(number)
    }

    #[derive(Debug, Clone, Copy)]
    enum Op {
        Push(u32, usize),
        Pop([bool; 2]),
        End,
        Room(u32, usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0u32..4, 0usize..2).prop_map(|(client, class)| Op::Push(client, class)),
            3 => proptest::array::uniform2(any::<bool>()).prop_map(Op::Pop),
            2 => Just(Op::End),
            1 => (0u32..4, 0usize..2).prop_map(|(client, class)| Op::Room(client, class)),
        ]
    }

    proptest! {
        /// No request is lost or served twice, a client's requests keep their order, and an idle client leaves no lane.
        #[test]
        fn every_request_is_served_once_in_its_clients_order(ops in proptest::collection::vec(op(), 0..200)) {
            let mut lanes = Lanes::default();
            let mut waiting: Vec<(u32, usize, u32)> = Vec::new();
            let mut running = Vec::new();
            for (number, op) in (0u32..).zip(ops) {
                match op {
                    Op::Push(of, class) => {
                        lanes.push(client(of), class, number);
                        waiting.push((of, class, number));
                    }
                    Op::Pop(open) => {
                        let due = waiting.iter().any(|(_, class, _)| open[*class]);
                        let popped = lanes.pop(open);
                        prop_assert_eq!(popped.is_some(), due);
                        if let Some((of, class, number)) = popped {
                            let first = waiting.iter().position(|(by, in_class, _)| client(*by) == of && *in_class == class);
                            let (_, _, oldest) = waiting.remove(first.expect("it waited"));
                            prop_assert_eq!(oldest, number);
                            prop_assert!(open[class]);
                            running.push(of);
                        }
                    }
                    Op::End => {
                        if let Some(of) = running.pop() {
                            lanes.end(of);
                        }
                    }
                    Op::Room(of, class) => {
                        let own = waiting.iter().filter(|(by, ..)| *by == of).count();
                        if let Some(gone) = lanes.make_room(client(of), class) {
                            let at = waiting.iter().position(|(_, _, number)| *number == gone).expect("it waited");
                            let (by, gone_class, _) = waiting.remove(at);
                            let left = waiting.iter().filter(|(other, ..)| *other == by).count();
                            // Never a request of a client with fewer waiting, and among equals never a reader's.
                            prop_assert!(left > own || (class == DEMAND && gone_class == READ_AHEAD && left + 1 >= own));
                        }
                    }
                }
                let count = |class| waiting.iter().filter(|(_, own, _)| *own == class).count();
                prop_assert_eq!(lanes.waiting(), [count(DEMAND), count(READ_AHEAD)]);
            }
            lanes.retain(|_| false);
            for of in running {
                lanes.end(of);
            }
            prop_assert!(lanes.lanes.is_empty());
        }

        /// Clients that always have a waiting request are served equally, however many they have.
        #[test]
        fn those_that_wait_all_the_time_are_served_equally(depths in proptest::collection::vec(1usize..50, 2..6), turns in 1usize..200) {
            let mut lanes = Lanes::default();
            for (of, depth) in (0u32..).zip(&depths) {
                (0..*depth).for_each(|_| lanes.push(client(of), DEMAND, of));
            }
            let mut served = vec![0usize; depths.len()];
            for _ in 0..turns {
                let (_, _, of) = lanes.pop(ALL).expect("all have more");
                served[of as usize] += 1;
                lanes.push(client(of), DEMAND, of);
                let (least, most) = (served.iter().min(), served.iter().max());
                prop_assert!(most.expect("some") - least.expect("some") <= 1, "{:?}", served);
            }
        }
    }

    /// A client that comes while another has a thousand waiting requests is served second at the latest.
    #[test]
    fn a_newcomer_waits_for_one_request_of_a_flood() {
        let mut lanes = Lanes::default();
        (0..1000).for_each(|_| lanes.push(client(0), DEMAND, 0));
        (0..300).for_each(|_| assert!(lanes.pop(ALL).is_some()));
        lanes.push(client(1), DEMAND, 1);
        lanes.push(client(2), READ_AHEAD, 2);
        let order: Vec<_> = (0..20)
            .filter_map(|_| lanes.pop(ALL))
            .map(|(.., of)| of)
            .collect();
        assert!(order[..2].contains(&1), "{order:?}");
        let ahead = order.iter().position(|of| *of == 2).expect("served");
        assert!(ahead <= 10, "{order:?}");
    }

    #[test]
    fn a_client_with_a_running_request_keeps_its_lane() {
        let mut lanes = Lanes::default();
        lanes.begin(client(1));
        lanes.push(client(2), DEMAND, 2);
        lanes.retain(|of| *of != 2);
        assert_eq!(lanes.waiting(), [0, 0]);
        assert_eq!(Vec::from_iter(lanes.lanes.keys()), [&client(1)]);
        lanes.end(client(1));
        assert!(lanes.lanes.is_empty());
    }

    /// One client's read-ahead waits for the readers of all others.
    #[test]
    fn readers_go_before_what_others_fetch_ahead() {
        let mut lanes = Lanes::default();
        lanes.push(client(100), READ_AHEAD, 100);
        for of in 0..50 {
            lanes.push(client(of), DEMAND, of);
        }
        let order: Vec<_> = (0..51)
            .filter_map(|_| lanes.pop(ALL))
            .map(|(.., of)| of)
            .collect();
        assert_eq!(order.last(), Some(&100));
    }

    /// The client that fills the queue makes room for the others.
    #[test]
    fn a_full_queue_sheds_the_one_that_filled_it() {
        let mut lanes = Lanes::default();
        (0..9).for_each(|number| lanes.push(client(0), DEMAND, number));
        lanes.push(client(1), READ_AHEAD, 100);
        assert_eq!(lanes.make_room(client(0), DEMAND), None);
        assert_eq!(lanes.make_room(client(2), READ_AHEAD), Some(8));
        assert_eq!(lanes.make_room(client(1), DEMAND), Some(7));
        assert_eq!(lanes.waiting(), [7, 1]);
    }
}
