//! Freshness by events: the time at which a subscription to a bucket's events confirms a version.

use std::time::Duration;

use crate::Timestamp;

/// The proof of a subscription: a heartbeat that came back through it shows that no event before it was lost.
///
/// A version that the bucket confirmed since the subscription began is confirmed anew as long as the subscription is
/// alive and reports no change of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventProof {
    /// The time since which the subscription is unbroken.
    pub since: Timestamp,
    /// The time at which the last heartbeat that came back was written.
    pub proven: Timestamp,
    /// The time at which the subscription counts as broken unless another heartbeat comes back.
    pub alive_until: Timestamp,
}

impl EventProof {
    /// The proof of a subscription that is broken, or has not begun: it confirms nothing.
    pub const NONE: Self = Self {
        since: Timestamp(u64::MAX),
        proven: Timestamp(0),
        alive_until: Timestamp(0),
    };

    /// Returns the time at which a version counts as confirmed that the bucket confirmed at `confirmed`: now while the
    /// subscription is alive, after that the last proof.
    ///
    /// A store may lose an event all the same. `max_age` bounds how long the bucket itself is not asked.
    #[must_use]
    pub fn confirms(&self, confirmed: Timestamp, max_age: Duration, now: Timestamp) -> Timestamp {
        if confirmed < self.since || now.since(confirmed) >= max_age {
            return confirmed;
        }
        let proven = if now < self.alive_until {
            now
        } else {
            self.proven
        };
        proven.max(confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn proof() -> EventProof {
        EventProof {
            since: Timestamp(1_000),
            proven: Timestamp(9_000),
            alive_until: Timestamp(12_000),
        }
    }

    #[test]
    fn it_confirms_what_the_bucket_confirmed_since_it_began() {
        for (confirmed, now, expected) in [
            (999, 10_000, 999),
            (1_000, 10_000, 10_000),
            (1_000, 11_999, 11_999),
            (1_000, 12_000, 9_000),
            (9_500, 12_000, 9_500),
        ] {
            let at = proof().confirms(Timestamp(confirmed), DAY, Timestamp(now));
            assert_eq!(at, Timestamp(expected), "{confirmed} at {now}");
        }
    }

    #[test]
    fn the_bucket_is_asked_again_after_the_longest_age() {
        let alive = EventProof {
            alive_until: Timestamp(u64::MAX),
            ..proof()
        };
        let end = 1_000 + 86_400_000;
        let at = |now| alive.confirms(Timestamp(1_000), DAY, Timestamp(now));
        assert_eq!(at(end - 1), Timestamp(end - 1));
        assert_eq!(at(end), Timestamp(1_000));
    }

    proptest! {
        #[test]
        fn a_broken_one_confirms_nothing_and_none_confirms_the_future(
            confirmed in 0u64..100_000, since in 0u64..100_000, proven in 0u64..100_000,
            alive in 0u64..100_000, now in 0u64..100_000,
        ) {
            let (confirmed, now) = (Timestamp(confirmed), Timestamp(now));
            prop_assert_eq!(EventProof::NONE.confirms(confirmed, DAY, now), confirmed);
            let proof = EventProof {
                since: Timestamp(since),
                proven: Timestamp(proven),
                alive_until: Timestamp(alive),
            };
            let at = proof.confirms(confirmed, DAY, now);
            prop_assert!(at >= confirmed);
            prop_assert!(at <= now.max(confirmed).max(proof.proven));
        }
    }
}
