//! Limits of a route (`[limits.NAME]`): requests a second, bytes a second, and requests at once, by client address, by
//! key or for all clients together. The time since any fixed start is an argument.
//!
//! Memory is bounded, however many addresses come: two tables of 65,536 slots, and at most
//! two entries for each request under way.

use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use tidegate_plan::Client;

mod bytes;
mod places;
mod requests;
mod table;

use bytes::ByteLimit;
use places::PlaceTable;
pub use places::RequestPermit;
use requests::RequestLimit;

/// The longest time in which a whole burst may come again.
const MAX_BURST_TIME: Duration = Duration::from_secs(365 * 86_400);

/// The clients that share one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitScope {
    /// Those of one IPv4 address, or of one IPv6 network of 64 bits.
    #[default]
    Address,
    /// Those that were admitted by one key or token; without one, those of one address.
    Key,
    /// All clients of the routes that name the limits.
    Route,
}

/// A number of requests in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The requests.
    pub requests: NonZeroU32,
    /// The time in which they may come.
    pub time: Duration,
}

impl Rate {
    /// Returns the largest burst at this rate: it comes again within a year. A larger one would limit nothing, and could
    /// not be counted in 64 bits of nanoseconds.
    #[must_use]
    pub fn max_burst(self) -> u32 {
        let most = MAX_BURST_TIME.as_nanos() / self.each().as_nanos();
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Returns the time between two requests, from 1 ns to a year.
    fn each(self) -> Duration {
        let each = self.time / self.requests.get();
        each.clamp(Duration::from_nanos(1), MAX_BURST_TIME)
    }
}

/// The rules of limits, from which [`Limits::new`] makes them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LimitRules {
    /// The requests that may come.
    pub requests: Option<Rate>,
    /// The requests that may come at once, if the client was quiet before. It is cut to at least one and at most
    /// [`Rate::max_burst`].
    pub burst: u32,
    /// The bytes of bodies a second.
    pub bytes: Option<NonZeroU64>,
    /// The requests that may be under way at once.
    pub connections: Option<NonZeroU32>,
    /// The clients that share a limit.
    pub per: LimitScope,
}

/// The clients that share one count, and their hash: it is computed once a request, and serves all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitKey {
    sharer: Sharer,
    hash: u64,
}

impl Hash for LimitKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Takes the hash of a [`LimitKey`] as it is.
#[derive(Debug, Default)]
struct KnownHash(u64);

impl Hasher for KnownHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key writes its hash alone");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharer {
    Client(Client),
    /// The hash of a name, whose length is not bounded.
    Name(u64),
    All,
}

impl Sharer {
    /// Returns it as two numbers, which no other sharer has.
    fn numbers(self) -> (u64, u64) {
        match self {
            Self::Client(Client::Own) => (0, 0),
            Self::Client(Client::Warm) => (1, 0),
            Self::Client(Client::Local) => (2, 0),
            Self::Client(Client::V4(address)) => (3, address.into()),
            Self::Client(Client::V6(network)) => (4, network),
            Self::Name(name) => (5, name),
            Self::All => (6, 0),
        }
    }
}

/// A limit that a request has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReachedLimit {
    /// Too many requests came.
    Requests {
        /// The time after which the next one is admitted.
        retry_after: Duration,
    },
    /// Too many requests are under way.
    Connections,
}

impl ReachedLimit {
    /// The names of all limits that refuse, in metrics.
    pub const NAMES: [&'static str; 2] = ["requests", "connections"];

    /// Returns the index of its name in [`Self::NAMES`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Requests { .. } => 0,
            Self::Connections => 1,
        }
    }

    /// Returns its name in metrics and `Cache-Status`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// The compiled limits, and their counts so far. All routes that name them share them.
#[derive(Debug)]
pub struct Limits {
    per: LimitScope,
    requests: Option<RequestLimit>,
    bytes: Option<ByteLimit>,
    connections: Option<NonZeroU32>,
    places: PlaceTable,
    hasher: RandomState,
}

impl Limits {
    /// Compiles the rules.
    #[must_use]
    pub fn new(rules: LimitRules) -> Self {
        let shared = rules.per == LimitScope::Route;
        let requests = rules.requests;
        Self {
            per: rules.per,
            requests: requests.map(|rate| RequestLimit::new(rate, rules.burst, shared)),
            bytes: rules.bytes.map(|rate| ByteLimit::new(rate, shared)),
            connections: rules.connections,
            places: PlaceTable::default(),
            hasher: RandomState::new(),
        }
    }

    /// Returns whether the limits are looked at after the access, because they count by its keys.
    #[must_use]
    pub fn counts_by_key(&self) -> bool {
        self.per == LimitScope::Key
    }

    /// Returns the clients that share the limits with a request of `client`, which the key or token `name` admitted.
    #[must_use]
    pub fn key(&self, client: Client, name: Option<&str>) -> LimitKey {
        let sharer = match (self.per, name) {
            (LimitScope::Route, _) => Sharer::All,
            (LimitScope::Key, Some(name)) => Sharer::Name(self.hasher.hash_one(name)),
            (LimitScope::Key, None) | (LimitScope::Address, _) => Sharer::Client(client),
        };
        let hash = self.hasher.hash_one(sharer.numbers());
        LimitKey { sharer, hash }
    }

    /// Counts a request at `now`. Returns its place among those under way, if they are limited.
    ///
    /// # Errors
    /// The limit that it has reached; it is then not counted by the rate of requests.
    pub fn enter(
        &self,
        key: LimitKey,
        now: Duration,
    ) -> Result<Option<RequestPermit>, ReachedLimit> {
        let place = match self.connections {
            None => None,
            Some(most) => Some(
                self.places
                    .take(key, most)
                    .ok_or(ReachedLimit::Connections)?,
            ),
        };
        if let Some(requests) = &self.requests {
            requests
                .check(key, now)
                .map_err(|retry_after| ReachedLimit::Requests { retry_after })?;
        }
        Ok(place)
    }

    /// Returns whether the bytes of bodies are limited.
    #[must_use]
    pub fn limits_bytes(&self) -> bool {
        self.bytes.is_some()
    }

    /// Returns the most bytes that go out in one piece, so that waits are short.
    #[must_use]
    pub fn piece(&self) -> usize {
        self.bytes.as_ref().map_or(usize::MAX, ByteLimit::piece)
    }

    /// Counts `bytes` that go out at `now`, or returns the time to wait before they may; they are then not counted.
    ///
    /// # Errors
    /// The time to wait, which is never zero.
    pub fn send(&self, key: LimitKey, now: Duration, bytes: usize) -> Result<(), Duration> {
        match &self.bytes {
            None => Ok(()),
            Some(limit) => limit.send(key, now, bytes),
        }
    }
}

#[cfg(test)]
mod tests;
