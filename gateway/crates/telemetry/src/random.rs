//! Random numbers for pauses, samples and unique names. They are not secret: a value that must not be guessed needs the
//! random generator of a cryptographic library.

use std::hash::{BuildHasher as _, RandomState};

/// Returns a random number: every `RandomState` hashes with keys of its own.
#[must_use]
pub fn number() -> u64 {
    RandomState::new().hash_one(())
}

/// Returns a random number in `0.0..1.0`.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are exact in a float of 64"
)]
pub fn draw() -> f64 {
    (number() >> 11) as f64 / 2_f64.powi(53)
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
