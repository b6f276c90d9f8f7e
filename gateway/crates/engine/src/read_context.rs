//! The origin and profile with which a route or a mount reads.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};

use tidegate_cache::Record;
use tidegate_origin::Origin;
use tidegate_plan::freshness::{EventProof, Policy};
use tidegate_plan::{ObjectId, ObjectKey, Profile, Timestamp};

/// An origin, and the rules for its objects here. Routes with the same origin share its cache
/// whatever their profiles.
#[derive(Debug)]
pub struct ReadContext {
    /// The bucket.
    pub origin: Arc<dyn Origin>,
    /// The rules; they can be exchanged at run time.
    pub profile: ArcSwap<Profile>,
    /// The events that confirm its versions, which can be exchanged at run time; `None`: only the bucket's answers do.
    pub events: ArcSwapOption<EventCoverage>,
}

/// The events of a bucket, as a route uses them.
#[derive(Debug, Clone)]
pub struct EventCoverage {
    /// The proof of the subscription.
    pub subscription: Arc<SubscriptionProof>,
    /// The time after which the bucket is asked although no event came: a store may lose one.
    pub max_age: Duration,
}

/// The present proof of a subscription to the events of a bucket.
#[derive(Debug)]
pub struct SubscriptionProof(ArcSwap<EventProof>);

impl PartialEq for EventCoverage {
    /// Compares the subscriptions themselves, not what they prove.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.subscription, &other.subscription) && self.max_age == other.max_age
    }
}

impl Default for SubscriptionProof {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(EventProof::NONE))
    }
}

impl SubscriptionProof {
    /// Replaces what it proves.
    pub fn set(&self, proof: EventProof) {
        self.0.store(Arc::new(proof));
    }
}

/// The proof of events at one time, and the longest age that they confirm.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventSpan {
    proof: EventProof,
    max_age: Duration,
}

impl EventSpan {
    /// Events that prove nothing.
    pub(crate) const NONE: Self = Self {
        proof: EventProof::NONE,
        max_age: Duration::ZERO,
    };

    /// See [`ReadContext::confirmed`].
    pub(crate) fn confirms(&self, told: Timestamp, now: Timestamp) -> Timestamp {
        self.proof.confirms(told, self.max_age, now)
    }
}

impl ReadContext {
    /// Returns a context in which only the bucket's answers confirm a version.
    #[must_use]
    pub fn new(origin: Arc<dyn Origin>, profile: Profile) -> Self {
        Self {
            origin,
            profile: ArcSwap::from_pointee(profile),
            events: ArcSwapOption::empty(),
        }
    }

    /// Returns the object of this key in the bucket.
    #[must_use]
    pub fn object(&self, key: &ObjectKey) -> ObjectId {
        ObjectId {
            origin: self.origin.id(),
            key: key.clone(),
        }
    }

    /// Returns the time at which something counts as confirmed that the bucket told at `told`; later if events cover it.
    pub(crate) fn confirmed(&self, told: Timestamp, now: Timestamp) -> Timestamp {
        self.event_span().confirms(told, now)
    }

    /// Returns what events prove at present.
    pub(crate) fn event_span(&self) -> EventSpan {
        self.events
            .load()
            .as_ref()
            .map_or(EventSpan::NONE, |events| EventSpan {
                proof: **events.subscription.0.load(),
                max_age: events.max_age,
            })
    }

    /// Returns for how long a key that was missing at `since` still counts as missing; `None`: it does not any more.
    pub(crate) fn missing_left(&self, since: Timestamp, now: Timestamp) -> Option<Duration> {
        let confirmed = self.confirmed(since, now);
        if confirmed.is_after_a_step(now) {
            return None;
        }
        let ttl = self.profile.load().negative_ttl;
        ttl.checked_sub(now.since(confirmed))
            .filter(|left| !left.is_zero())
    }

    /// Returns the rules for the version of a record that counts as confirmed at `confirmed`; later than the bucket's own
    /// word if events cover it.
    pub(crate) fn policy(&self, record: &Record, confirmed: Timestamp) -> Policy {
        let profile = self.profile.load();
        match confirmed > record.confirmed {
            true => Policy::covered(&record.version, &profile, confirmed),
            false => Policy::new(&record.version, &profile, confirmed),
        }
    }
}
