//! Random numbers that are the same on every machine: a run can be repeated by its seed.

/// Mixes 64 bits so that each of them depends on all of the input (splitmix64's finaliser).
#[must_use]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A splitmix64 generator: small, seedable, good enough to draw test cases from.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Returns a generator that draws the same numbers for the same seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number from 0 to `end`, which is excluded; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next_u64() % end }
    }

    /// Returns a number from 1 to `max` with evenly spread magnitude, not value: short ones are as
    /// likely as long ones.
    pub fn magnitude(&mut self, max: u64) -> u64 {
        let bits = u64::from(max.max(1).ilog2()) + 1;
        let ceiling = 1_u64 << self.below(bits + 1).min(63);
        1 + self.below(ceiling.min(max.max(1)))
    }

    /// Returns one of `items`, all equally likely.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[usize::try_from(self.below(items.len() as u64)).expect("below a usize")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_numbers_and_no_other_seeds() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..8).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn magnitudes_stay_in_bounds_and_reach_both_ends_of_the_scale() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..10_000).map(|_| random.magnitude(50_000_000)).collect();
        assert!(drawn.iter().all(|n| (1..=50_000_000).contains(n)));
        assert!(drawn.iter().filter(|n| **n < 100).count() > 1_000);
        assert!(drawn.iter().filter(|n| **n > 1_000_000).count() > 1_000);
    }
}
