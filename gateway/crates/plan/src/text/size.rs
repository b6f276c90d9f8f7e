//! Sizes in human notation: `"256KiB"`, `"100GiB"`, `4096`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes. Written as a whole number or as text with a unit: `KiB`, `MiB`, `GiB`, `TiB`
/// (powers of 1,024), `KB`, `MB`, `GB`, `TB` (powers of 1,000), `B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| text.strip_suffix(name).map(|n| (n.trim_end(), *unit)))
            .unwrap_or((text, 1));
        let number: u64 = number.parse().map_err(|_| {
            format!("`{text}` is no size; write a whole number with a unit, such as 256KiB")
        })?;
        number
            .checked_mul(unit)
            .map(Self)
            .ok_or_else(|| format!("`{text}` is too large"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |unit: u64| self.0 != 0 && self.0.is_multiple_of(unit);
        match UNITS.iter().find(|(_, unit)| whole(*unit)) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(bytes: u64) {
            prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }

        #[test]
        fn whole_units_read_back_the_same(number in 0..1u64 << 20, unit in 0..UNITS.len()) {
            let size = ByteSize(number * UNITS[unit].1);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
            prop_assert_eq!(format!("{number}{}", UNITS[unit].0).parse(), Ok(size));
        }
    }

    #[test]
    fn reads_and_writes_units() {
        for (text, bytes) in [
            ("256KiB", 256 << 10),
            ("1 GiB", 1 << 30),
            ("5MB", 5_000_000),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        assert_eq!(ByteSize(256 << 10).to_string(), "256KiB");
        assert_eq!(ByteSize(0).to_string(), "0");
        for bad in ["", "x", "1.5GiB", "-1", "99999999TiB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }
}
