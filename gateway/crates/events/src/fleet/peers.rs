//! The other gateways of a fleet: which are there, and whether one of their messages is missing.
//!
//! Each sender counts its changes, and says the count in a heartbeat. So a receiver knows of each lost message: from the
//! next one that comes, or from the silence of its sender.

use std::collections::HashMap;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use tokio::time::Instant;

use super::message::Presence;

/// The most gateways that are told apart. Messages of further ones are applied, and each is taken for a new one's.
const MAX_PEERS: usize = 64;

/// A gateway that is silent for so long while NATS is connected is lost.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// The conclusion from a message about those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceCheck {
    /// It follows the last one of its sender.
    Next,
    /// It came before.
    Again,
    /// Messages between the last one and this one are missing.
    Gap,
    /// Its sender was not known: messages before it may be missing.
    Joined,
}

/// The last message of a sender.
#[derive(Debug)]
struct Peer {
    sequence: u64,
    at: Instant,
    presence: Presence,
}

/// Another gateway of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetGateway {
    /// Its number, which is random for each process.
    pub id: u64,
    /// The name that it gives itself.
    pub name: Option<String>,
    /// The time since its last message.
    pub heard: Duration,
}

/// The senders that are there.
#[derive(Debug, Default)]
pub(super) struct Peers(HashMap<u64, Peer>);

impl Peers {
    /// Takes a message. `is_change` says whether it has a number of its own; others repeat the last number.
    pub(super) fn seen(
        &mut self,
        from: u64,
        sequence: u64,
        is_change: bool,
        now: Instant,
    ) -> SequenceCheck {
        let Some(peer) = self.0.get_mut(&from) else {
            if self.0.len() < MAX_PEERS {
                let peer = Peer {
                    sequence,
                    at: now,
                    presence: Presence::default(),
                };
                self.0.insert(from, peer);
            }
            return SequenceCheck::Joined;
        };
        peer.at = now;
        let next = peer.sequence.saturating_add(u64::from(is_change));
        let seen = match sequence.cmp(&next) {
            std::cmp::Ordering::Less => SequenceCheck::Again,
            std::cmp::Ordering::Equal => SequenceCheck::Next,
            std::cmp::Ordering::Greater => SequenceCheck::Gap,
        };
        peer.sequence = peer.sequence.max(sequence);
        seen
    }

    /// Takes that a sender has ended in order.
    pub(super) fn left(&mut self, from: u64) {
        self.0.remove(&from);
    }

    /// Removes the senders that were silent for too long; returns their number.
    pub(super) fn expire(&mut self, now: Instant) -> usize {
        let before = self.0.len();
        self.0
            .retain(|_, peer| now.duration_since(peer.at) <= PEER_TIMEOUT);
        before - self.0.len()
    }

    /// Takes that no message could come until now: silence counts from here.
    pub(super) fn restart(&mut self, now: Instant) {
        self.0.values_mut().for_each(|peer| peer.at = now);
    }

    /// Takes what a sender says of itself; returns whether its buckets are others than before.
    pub(super) fn present(&mut self, from: u64, presence: Presence) -> bool {
        let Some(peer) = self.0.get_mut(&from) else {
            return false;
        };
        let old = std::mem::replace(&mut peer.presence, presence);
        let new = &mut peer.presence;
        new.name = new.name.take().or(old.name);
        new.buckets != old.buckets
    }

    /// Returns the senders, in the order of their names.
    pub(super) fn gateways(&self, now: Instant) -> Vec<FleetGateway> {
        let gateway = |(id, peer): (&u64, &Peer)| FleetGateway {
            id: *id,
            name: peer.presence.name.clone(),
            heard: now.duration_since(peer.at),
        };
        let mut all: Vec<_> = self.0.iter().map(gateway).collect();
        all.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        all
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the gateway that calls a bucket's hooks: `own`, which has the bucket, or one of the senders. A sender without
    /// the bucket is no choice. All gateways that see the same senders answer alike, and one that leaves moves only the
    /// buckets that were its own.
    pub(super) fn chosen(&self, own: u64, bucket: &str) -> u64 {
        let weight = |id: &u64| {
            let text = [&id.to_be_bytes()[..], bucket.as_bytes()].concat();
            let digest = digest(&SHA256, &text);
            <[u8; 32]>::try_from(digest.as_ref()).unwrap_or_default()
        };
        let has_it = |peer: &Peer| match &peer.presence.buckets {
            Some(buckets) => buckets.iter().any(|one| one == bucket),
            None => true,
        };
        let others = self.0.iter().filter(|(_, peer)| has_it(peer));
        let all = others.map(|(id, _)| *id).chain([own]);
        all.max_by_key(weight).unwrap_or(own)
    }
}

#[cfg(test)]
mod tests;
