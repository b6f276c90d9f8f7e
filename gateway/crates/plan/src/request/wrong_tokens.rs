//! Wrong tokens: the delay of the answer to each, and the choice of those that are logged.
//!
//! Each wrong token of a client makes the next answer to one wait twice as long. A right token never waits, whatever
//! other clients behind the same address have tried. Memory, waiting answers and log lines are bounded. Beyond the
//! bound of waiting answers a wrong token is answered at once with 429, and only the token's length still protects
//! ([`MIN_TOKEN`](crate::MIN_TOKEN)).

use std::collections::HashMap;
use std::time::Duration;

use super::log_rate::LogRate;
use crate::Client;

/// The wait after a client's first wrong token; it doubles with each further one.
pub const FIRST_DELAY: Duration = Duration::from_millis(250);

/// The longest wait.
pub const MAX_DELAY: Duration = Duration::from_secs(8);

/// The time without a wrong token after which a client's earlier ones are forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(600);

/// The most clients remembered at once; the one that was quiet for longest makes room.
pub const MAX_CLIENTS: usize = 1024;

/// The most answers that wait at once, of all clients.
pub const MAX_WAITING: usize = 64;

/// The most answers that wait at once, of one client.
pub const MAX_WAITING_OF_CLIENT: usize = 8;

/// Clients that have lately shown wrong tokens.
#[derive(Debug, Default)]
pub struct WrongTokens {
    clients: HashMap<Client, ClientTries>,
    waiting: usize,
    log: LogRate,
}

#[derive(Debug, Clone, Copy, Default)]
struct ClientTries {
    wrong: u32,
    last: Duration,
    waiting: usize,
}

/// The treatment of one wrong token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongTokenAnswer {
    /// The delay of its answer; after it the caller calls [`WrongTokens::end_wait`]. `None` means that too many wait
    /// already, and the answer is 429 at once.
    pub delay: Option<Duration>,
    /// The number of wrong tokens since the last log line, if one is due.
    pub log: Option<u64>,
}

impl WrongTokens {
    /// Records a wrong token of `client` at `now`, a time since any fixed moment.
    pub fn record(&mut self, client: Client, now: Duration) -> WrongTokenAnswer {
        if !self.clients.contains_key(&client) {
            self.make_room(now);
        }
        let has_place = self.waiting < MAX_WAITING;
        let tries = self.clients.entry(client).or_default();
        if now.saturating_sub(tries.last) > FORGET_AFTER {
            tries.wrong = 0;
        }
        let doubled = FIRST_DELAY.saturating_mul(1 << tries.wrong.min(16));
        tries.wrong = tries.wrong.saturating_add(1);
        tries.last = now;
        let waits = has_place && tries.waiting < MAX_WAITING_OF_CLIENT;
        if waits {
            tries.waiting += 1;
            self.waiting += 1;
        }
        WrongTokenAnswer {
            delay: waits.then_some(doubled.min(MAX_DELAY)),
            log: self.log.record(now),
        }
    }

    /// Gives back the place of an answer of `client` that has waited, or whose client has gone.
    pub fn end_wait(&mut self, client: Client) {
        self.waiting = self.waiting.saturating_sub(1);
        if let Some(tries) = self.clients.get_mut(&client) {
            tries.waiting = tries.waiting.saturating_sub(1);
        }
    }

    /// Forgets clients until there is room for one more. Clients with waiting answers are few, and stay.
    fn make_room(&mut self, now: Duration) {
        if self.clients.len() < MAX_CLIENTS {
            return;
        }
        self.clients
            .retain(|_, tries| tries.waiting > 0 || now.saturating_sub(tries.last) <= FORGET_AFTER);
        if self.clients.len() < MAX_CLIENTS {
            return;
        }
        let idle = self.clients.iter().filter(|(_, tries)| tries.waiting == 0);
        let oldest = idle.min_by_key(|(_, tries)| tries.last);
        if let Some(client) = oldest.map(|(client, _)| *client) {
            self.clients.remove(&client);
        }
    }
}

#[cfg(test)]
mod tests;
