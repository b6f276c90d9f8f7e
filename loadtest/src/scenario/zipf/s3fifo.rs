//! S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), weighed in
//! bytes, as a reference model. It has no concurrency, no shards and no expiry.
//!
//! The parameters are the memory tier's. The small queue has a tenth of the capacity, and the ghost
//! queue is as large as the cache. One use moves an object from the small queue to the main one.

use std::collections::{HashMap, HashSet, VecDeque};

const MOST_USES: u8 = 3;

/// The model.
#[derive(Debug)]
pub(super) struct S3Fifo {
    capacity: u64,
    held: HashMap<usize, Entry>,
    small: Queue,
    main: Queue,
    ghost: Queue,
    remembered: HashSet<usize>,
}

#[derive(Debug)]
struct Entry {
    uses: u8,
}

#[derive(Debug, Default)]
struct Queue {
    order: VecDeque<(usize, u64)>,
    weight: u64,
}

impl Queue {
    fn push(&mut self, object: usize, weight: u64) {
        self.order.push_back((object, weight));
        self.weight += weight;
    }

    fn pop(&mut self) -> Option<(usize, u64)> {
        let oldest = self.order.pop_front()?;
        self.weight -= oldest.1;
        Some(oldest)
    }
}

impl S3Fifo {
    /// Returns an empty cache of `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            held: HashMap::new(),
            small: Queue::default(),
            main: Queue::default(),
            ghost: Queue::default(),
            remembered: HashSet::new(),
        }
    }

    /// Requests an object, and admits it if it is absent; returns whether it was there.
    pub(super) fn ask(&mut self, object: usize, weight: u64) -> bool {
        if let Some(entry) = self.held.get_mut(&object) {
            entry.uses = (entry.uses + 1).min(MOST_USES);
            return true;
        }
        while self.small.weight + self.main.weight + weight > self.capacity && self.evict() {}
        self.held.insert(object, Entry { uses: 0 });
        if self.remembered.contains(&object) {
            self.main.push(object, weight);
        } else {
            self.small.push(object, weight);
        }
        false
    }

    /// Evicts one object; returns `false` if there is none.
    fn evict(&mut self) -> bool {
        if self.small.weight > self.capacity / 10 && self.evict_small() {
            return true;
        }
        if self.evict_main() {
            return true;
        }
        let last = self.small.pop();
        last.is_some_and(|(object, _)| self.held.remove(&object).is_some())
    }

    fn evict_small(&mut self) -> bool {
        while let Some((object, weight)) = self.small.pop() {
            if self.held.get(&object).is_some_and(|entry| entry.uses > 0) {
                self.main.push(object, weight);
            } else {
                self.held.remove(&object);
                self.remember(object, weight);
                return true;
            }
        }
        false
    }

    fn evict_main(&mut self) -> bool {
        while let Some((object, weight)) = self.main.pop() {
            match self.held.get_mut(&object) {
                Some(entry) if entry.uses > 0 => {
                    entry.uses -= 1;
                    self.main.push(object, weight);
                }
                _ => {
                    self.held.remove(&object);
                    return true;
                }
            }
        }
        false
    }

    fn remember(&mut self, object: usize, weight: u64) {
        while self.ghost.weight + weight > self.capacity {
            match self.ghost.pop() {
                Some((forgotten, _)) => self.remembered.remove(&forgotten),
                None => break,
            };
        }
        self.ghost.push(object, weight);
        self.remembered.insert(object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_twice_outlives_a_scan() {
        let mut cache = S3Fifo::new(100);
        assert!(!cache.ask(0, 1));
        assert!(cache.ask(0, 1));
        for object in 1..1000 {
            assert!(!cache.ask(object, 1));
        }
        assert!(cache.ask(0, 1));
        assert!(!cache.ask(1, 1));
    }

    #[test]
    fn it_never_holds_more_than_it_may() {
        let mut cache = S3Fifo::new(100);
        for turn in 0..10_000_usize {
            cache.ask(turn * 7 % 97, 3 + turn as u64 % 5);
            assert!(cache.small.weight + cache.main.weight <= 100);
            assert_eq!(
                cache.held.len(),
                cache.small.order.len() + cache.main.order.len()
            );
        }
    }
}
