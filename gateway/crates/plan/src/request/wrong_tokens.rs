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
mod tests {
    use core::net::IpAddr;

    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn client(text: &str) -> Client {
        Client::from(Some(text.parse().expect("an address")))
    }

    #[test]
    fn answers_wait_longer_and_longer_and_each_client_for_itself() {
        let mut wrong = WrongTokens::default();
        let mut delays = Vec::new();
        for n in 0..8 {
            let verdict = wrong.record(client("203.0.113.1"), S(n));
            delays.push(verdict.delay.expect("a place").as_millis());
            wrong.end_wait(client("203.0.113.1"));
        }
        assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        let other = wrong.record(client("203.0.113.2"), S(9));
        assert_eq!(other.delay, Some(FIRST_DELAY));
        let later = wrong.record(client("203.0.113.1"), S(7) + FORGET_AFTER + S(1));
        assert_eq!(later.delay, Some(FIRST_DELAY), "forgotten");
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_ne!(client("203.0.113.1"), client("203.0.113.2"));
    }

    #[test]
    fn memory_and_waiting_answers_are_bounded() {
        let mut wrong = WrongTokens::default();
        let one = client("203.0.113.1");
        for n in 0..20 {
            let waits = wrong.record(one, S(n)).delay.is_some();
            assert_eq!(waits, n < MAX_WAITING_OF_CLIENT as u64, "{n}");
        }
        let mut waiting = MAX_WAITING_OF_CLIENT;
        // More clients than are remembered, and more answers than may wait.
        for n in 0..100_000_u32 {
            let address = IpAddr::from((n + 7).to_be_bytes());
            let verdict = wrong.record(Client::from(Some(address)), S(30));
            waiting += usize::from(verdict.delay.is_some());
            assert!(wrong.clients.len() <= MAX_CLIENTS);
        }
        assert_eq!((waiting, wrong.waiting), (MAX_WAITING, MAX_WAITING));
        wrong.end_wait(one);
        assert!(wrong.record(one, S(31)).delay.is_some(), "a place is free");
    }

    #[test]
    fn room_is_made_by_forgetting_quiet_clients_before_recent_ones() {
        let numbered = |n: u32| Client::from(Some(IpAddr::from(n.to_be_bytes())));
        let mut wrong = WrongTokens::default();
        for n in 0..MAX_CLIENTS as u32 {
            // One half was quiet for too long by then, the other was not.
            let late = u64::from(n % 2) * 10;
            wrong.record(numbered(n), S(late));
            wrong.end_wait(numbered(n));
        }
        let now = FORGET_AFTER + S(5);
        assert_eq!(
            wrong.record(numbered(1 << 20), now).delay,
            Some(FIRST_DELAY)
        );
        assert_eq!(wrong.clients.len(), MAX_CLIENTS / 2 + 1);
        for n in (1..MAX_CLIENTS as u32).step_by(2) {
            assert_eq!(wrong.clients[&numbered(n)].wrong, 1, "{n}");
        }
    }

    #[test]
    fn log_lines_are_bounded_and_count_what_they_leave_out() {
        let mut wrong = WrongTokens::default();
        let lines: Vec<_> = (0..1000)
            .filter_map(|n| wrong.record(client("203.0.113.1"), S(n) / 50).log)
            .collect();
        assert_eq!(lines, [1, 500]);
    }
}
