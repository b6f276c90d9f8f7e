//! The slots of connections, and which connections give way if none is free.
//!
//! A client whose connection is idle between two requests loses nothing if it ends: both sides may close it at any time
//! (RFC 9112, section 9.8). A client that owes the head of a request has no answer to lose. So both give way while another
//! client waits for a slot. Else one client could keep all slots, with silence or with a byte now and then.
//!
//! Only the accept loops touch the list of open connections: a request and the end of a connection do not.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

use super::timeouts::{ConnectionActivity, HeadWait};
use tidegate_plan::Client;
use tidegate_telemetry::locks::Recover as _;

/// The time for which a connection is idle or owes a head before it gives way: a page's next request comes sooner.
pub(super) const MIN_IDLE: Duration = Duration::from_secs(1);

/// The pause between two calls for the same client.
const CALL_PERIOD: Duration = Duration::from_millis(100);

/// One of so many open connections gives way at a call, and one at least. The next clients find their slots then.
const CALLED_PART: usize = 256;

/// The most connections of one client that are few. A browser opens six to a site.
const FEW: usize = 16;

/// The least number of connections at which the list forgets those that have ended.
const MIN_LISTED: usize = 64;

/// The open connections, and the calls to some of them to give way.
#[derive(Debug, Default)]
pub(super) struct Crowding {
    places: Mutex<PlaceList>,
}

/// The places of all open connections. Those of ended ones are forgotten when there are as many of them.
#[derive(Debug, Default)]
struct PlaceList {
    all: Vec<Weak<Place>>,
    forgets_at: usize,
}

/// The place of an open connection among the others.
#[derive(Debug)]
pub(super) struct Place {
    /// Its client; `Local`: a proxy, whose connections are those of many clients.
    client: Client,
    taken_at: Instant,
    /// Unset before the handshake is done.
    activity: OnceLock<Arc<ConnectionActivity>>,
    call: Notify,
    is_called: AtomicBool,
}

impl Crowding {
    /// Takes a slot. While none is free, calls for connections to give way.
    pub(super) async fn take(&self, slots: &Arc<Semaphore>) -> OwnedSemaphorePermit {
        if let Ok(slot) = slots.clone().try_acquire_owned() {
            return slot;
        }
        let mut slot = std::pin::pin!(slots.clone().acquire_owned());
        loop {
            self.call();
            tokio::select! {
                slot = &mut slot => return slot.expect("the semaphore is never closed"),
                () = sleep(CALL_PERIOD) => {}
            }
        }
    }

    /// Adds a connection that was accepted now. It may be called until its place is dropped.
    pub(super) fn add(&self, client: Client) -> Arc<Place> {
        let place = Arc::new(Place {
            client,
            taken_at: Instant::now(),
            activity: OnceLock::new(),
            call: Notify::new(),
            is_called: AtomicBool::new(false),
        });
        self.places.lock().recover().add(&place);
        place
    }

    /// Calls some of the connections that may give way, see [`Rank`].
    fn call(&self) {
        let open = self.places.lock().recover().open();
        let mut counts = HashMap::new();
        for place in &open {
            *counts.entry(place.client).or_insert(0) += 1;
        }
        let ranked = open
            .iter()
            .filter_map(|place| Some((Rank::of(place, &counts)?, place)));
        let mut ranked: Vec<_> = ranked.collect();
        let called = (open.len() / CALLED_PART).max(1);
        if called < ranked.len() {
            ranked.select_nth_unstable_by_key(called, |(rank, _)| Reverse(*rank));
        }
        for (_, place) in ranked.iter().take(called) {
            place.is_called.store(true, Relaxed);
            place.call.notify_one();
        }
    }
}

impl PlaceList {
    fn add(&mut self, place: &Arc<Place>) {
        if self.all.len() >= self.forgets_at {
            self.all.retain(|place| place.strong_count() > 0);
            self.forgets_at = MIN_LISTED.max(2 * self.all.len());
        }
        self.all.push(Arc::downgrade(place));
    }

    fn open(&self) -> Vec<Arc<Place>> {
        self.all.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Place {
    /// Sets the record of the connection after its handshake.
    pub(super) fn set_activity(&self, activity: Arc<ConnectionActivity>) {
        // It has one handshake.
        let _ = self.activity.set(activity);
    }

    /// Waits until the connection is called to give way.
    pub(super) async fn called(&self) {
        self.call.notified().await;
    }

    /// Records that the connection goes on, for a request came. It may be called again.
    pub(super) fn stay(&self) {
        self.is_called.store(false, Relaxed);
    }

    /// Returns how long the connection has waited for a head, if it was not called and may be.
    fn head_wait(&self) -> Option<HeadWait> {
        if self.is_called.load(Relaxed) {
            return None;
        }
        let wait = match self.activity.get() {
            Some(activity) => activity.head_wait(),
            None => Some(HeadWait {
                is_idle: false,
                time: self.taken_at.elapsed(),
            }),
        };
        wait.filter(|wait| wait.time >= MIN_IDLE)
    }
}

/// The rank of a connection among those that may give way; the highest is called first.
///
/// The first are those of a client that has many, the most first: that is a flood. Then idle ones, whose clients lose
/// nothing. The last are those that owe a head of a client that has few: its link may be slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// The number of its client's connections if they are many, else 0.
    many: usize,
    is_idle: bool,
    count: usize,
    waits: Duration,
}

impl Rank {
    fn of(place: &Place, counts: &HashMap<Client, usize>) -> Option<Self> {
        let wait = place.head_wait()?;
        let count = match place.client {
            Client::Local => 1,
            client => counts.get(&client).copied().unwrap_or(1),
        };
        Some(Self {
            many: if count > FEW { count } else { 0 },
            is_idle: wait.is_idle,
            count,
            waits: wait.time,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_ended_connections_are_forgotten() {
        let crowding = Crowding::default();
        let kept: Vec<_> = (0..100).map(|_| crowding.add(Client::Local)).collect();
        for _ in 0..10_000 {
            crowding.add(Client::Local);
        }
        let list = crowding.places.lock().recover();
        assert_eq!(list.open().len(), kept.len());
        assert!(list.all.len() <= 2 * kept.len());
    }
}
