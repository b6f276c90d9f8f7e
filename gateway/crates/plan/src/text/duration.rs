//! Lengths of time in human notation: `"200ms"`, `"60s"`, `"10m"`, `"24h"`, `"1d"`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time, in whole milliseconds. Written as a whole number with a unit: `ms`, `s`, `m`,
/// `h`, `d`; only zero needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Period(pub Duration);

/// Units in milliseconds. `ms` stands before `m` and `s`, because `s` is also the end of `ms`.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("ms", 1),
    ("m", 60_000),
    ("s", 1_000),
];

impl Period {
    /// Creates a period of whole seconds.
    #[must_use]
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// Returns whether the period is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self::default());
        }
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((trimmed.strip_suffix(name)?.trim_end(), *unit)))
            .unwrap_or(("", 1));
        let number: u64 = number.parse().map_err(|_| {
            format!("`{text}` is no length of time; write a whole number with a unit, such as 60s")
        })?;
        number
            .checked_mul(unit)
            .map(|millis| Self(Duration::from_millis(millis)))
            .ok_or_else(|| format!("`{text}` is too long"))
    }
}

impl fmt::Display for Period {
    /// Writes the period in the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.millis();
        let best = UNITS
            .iter()
            .filter(|(_, unit)| millis != 0 && millis.is_multiple_of(*unit))
            .max_by_key(|(_, unit)| *unit);
        match best {
            Some((name, unit)) => write!(f, "{}{name}", millis / unit),
            None => f.write_str("0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_writes_units() {
        for (text, millis, again) in [
            ("200ms", 200, "200ms"),
            ("60s", 60_000, "1m"),
            ("90 s", 90_000, "90s"),
            ("10m", 600_000, "10m"),
            ("24h", 86_400_000, "1d"),
            ("1d", 86_400_000, "1d"),
            ("0", 0, "0"),
            ("0s", 0, "0"),
        ] {
            let period: Period = text.parse().expect(text);
            assert_eq!(period.0, Duration::from_millis(millis), "{text}");
            assert_eq!(period.to_string(), again);
        }
    }

    #[test]
    fn refuses_what_has_no_unit_or_no_whole_number() {
        for bad in ["", "s", "60", "1.5s", "-1s", "60 seconds", "1m30s", "5M"] {
            let error = bad.parse::<Period>().expect_err(bad);
            let expected = format!(
                "`{bad}` is no length of time; write a whole number with a unit, such as 60s"
            );
            assert_eq!(error, expected);
        }
        let huge = format!("{}d", u64::MAX);
        assert_eq!(huge.parse::<Period>(), Err(format!("`{huge}` is too long")));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(millis: u64) {
            let period = Period(Duration::from_millis(millis));
            prop_assert_eq!(period.to_string().parse(), Ok(period));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,12}") {
            let _ = text.parse::<Period>();
        }
    }
}
