//! Random draws for rules that take randomness as an argument.

use std::hash::{BuildHasher, RandomState};

/// Returns a random number in `0.0..1.0`, good enough to spread retries: every `RandomState` hashes
/// with its own keys.
pub(crate) fn draw() -> f64 {
    let random = RandomState::new().hash_one(()) >> 32;
    random as f64 / 2_f64.powi(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_over_the_unit_interval() {
        let draws: Vec<f64> = (0..1000).map(|_| draw()).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        for tenth in 0..10 {
            let low = f64::from(tenth) / 10.0;
            let here = draws.iter().filter(|d| (low..low + 0.1).contains(*d));
            // 100 are expected; fewer than 30 has a chance below one in 10^15.
            assert!(here.count() >= 30, "few draws from {low} on");
        }
    }
}
