//! Lengths of time for a person: the two largest units.

use std::fmt;
use std::time::Duration;

/// A length of time in human notation: its two largest units, down to seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundedDuration(pub Duration);

const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];

impl fmt::Display for RoundedDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.as_secs();
        let first = UNITS.iter().position(|(_, unit)| left >= *unit);
        let Some(first) = first else {
            return f.write_str("0s");
        };
        for (at, (name, unit)) in UNITS.iter().enumerate().skip(first).take(2) {
            let count = left / unit;
            left %= unit;
            if count > 0 {
                let space = if at > first { " " } else { "" };
                write!(f, "{space}{count}{name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_two_units_at_most() {
        for (secs, words) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3599, "59m 59s"),
            (3600, "1h"),
            (3601, "1h"),
            (90_061, "1d 1h"),
        ] {
            assert_eq!(
                RoundedDuration(Duration::from_secs(secs)).to_string(),
                words
            );
        }
    }
}
