//! The order of the changes of one key, by their sequencers.
//!
//! Only changes that were applied are remembered. The memory is bounded: the keys whose changes were applied longest ago are
//! forgotten. A change of a forgotten key is applied again, which is safe.

use tidegate_plan::{Generations, KeyChange, ObjectKey, Sequencer};

/// The place of a change among those that were applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeOrder {
    /// It is the latest that is known of its key, or has no sequencer.
    Latest,
    /// It was applied before.
    Duplicate,
    /// A later change of its key was applied before.
    Late,
}

/// The last applied sequencers, by key.
#[derive(Debug)]
pub struct Order {
    applied: Generations<ObjectKey, Sequencer>,
}

impl Order {
    /// Creates one that remembers at least half of `max_keys` keys, and at most all of them.
    #[must_use]
    pub fn new(max_keys: usize) -> Self {
        Self {
            applied: Generations::new(max_keys / 2),
        }
    }

    /// Returns the place of a change.
    #[must_use]
    pub fn place(&self, change: &KeyChange) -> ChangeOrder {
        match (&change.sequencer, self.applied.get(&change.key)) {
            (Some(own), Some(last)) if last.is_after(own) => ChangeOrder::Late,
            (Some(own), Some(last)) if !own.is_after(last) => ChangeOrder::Duplicate,
            _ => ChangeOrder::Latest,
        }
    }

    /// Remembers a change that was applied.
    pub fn record(&mut self, key: &ObjectKey, sequencer: &Sequencer) {
        let last = self.applied.get(key);
        if !last.is_some_and(|last| last.is_after(sequencer)) {
            self.applied.insert(key.clone(), sequencer.clone());
        }
    }

    /// Returns the number of keys that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.applied.len()
    }

    /// Returns whether no key is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.applied.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;
    use tidegate_plan::ChangeKind;

    fn change(key: &str, sequencer: Option<&str>) -> KeyChange {
        KeyChange {
            sequencer: sequencer.and_then(Sequencer::parse),
            ..KeyChange::of(
                "b",
                &ObjectKey::new(key).expect("a key"),
                ChangeKind::Created,
            )
        }
    }

    fn record(order: &mut Order, change: &KeyChange) {
        order.record(&change.key, change.sequencer.as_ref().expect("a sequencer"));
    }

    #[test]
    fn a_change_is_dropped_only_after_one_of_its_key_that_is_as_late() {
        let mut order = Order::new(8);
        let second = change("a", Some("02"));
        assert_eq!(order.place(&second), ChangeOrder::Latest);
        assert_eq!(
            order.place(&second),
            ChangeOrder::Latest,
            "nothing was applied"
        );
        record(&mut order, &second);
        assert_eq!(order.place(&second), ChangeOrder::Duplicate);
        assert_eq!(
            order.place(&change("a", Some("0200"))),
            ChangeOrder::Duplicate
        );
        assert_eq!(order.place(&change("a", Some("01"))), ChangeOrder::Late);
        assert_eq!(order.place(&change("a", Some("03"))), ChangeOrder::Latest);
        assert_eq!(order.place(&change("a", None)), ChangeOrder::Latest);
        assert_eq!(order.place(&change("b", Some("01"))), ChangeOrder::Latest);
        record(&mut order, &change("a", Some("01")));
        assert_eq!(
            order.place(&second),
            ChangeOrder::Duplicate,
            "the later one stays"
        );
    }

    proptest! {
        /// However changes come, the last one of each key is applied, and memory stays bounded.
        #[test]
        fn the_last_change_of_each_key_is_applied(
            arrivals in proptest::collection::vec((0_u8..12, 0_u8..9), 1..200)
        ) {
            let mut order = Order::new(8);
            let mut applied: HashMap<u8, u8> = HashMap::new();
            let mut sent: HashMap<u8, u8> = HashMap::new();
            for (key, sequencer) in arrivals {
                let change = change(&key.to_string(), Some(&format!("{sequencer:04}")));
                sent.entry(key).and_modify(|most| *most = (*most).max(sequencer)).or_insert(sequencer);
                if order.place(&change) == ChangeOrder::Latest {
                    record(&mut order, &change);
                    applied.entry(key).and_modify(|most| *most = (*most).max(sequencer)).or_insert(sequencer);
                }
                prop_assert!(order.len() <= 8);
            }
            prop_assert_eq!(applied, sent);
        }
    }
}
