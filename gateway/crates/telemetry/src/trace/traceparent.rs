//! The header `traceparent` (W3C Trace Context, 3.2).

use std::fmt;

/// A place in a trace, as one server names it to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent {
    /// The trace; never 0.
    pub trace: u128,
    /// The span that asks; never 0.
    pub span: u64,
    /// Whether the asking server records the trace.
    pub sampled: bool,
}

impl Traceparent {
    /// Reads a header. `None`: it has another form, and counts as missing (section 4.3).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace) = (field(parts.next()?, 2)?, field(parts.next()?, 32)?);
        let (span, flags) = (field(parts.next()?, 16)?, field(parts.next()?, 2)?);
        // Later versions may have more fields; 255 is none.
        if version == 0xff || (version == 0 && parts.next().is_some()) || trace == 0 || span == 0 {
            return None;
        }
        Some(Self {
            trace,
            span: u64::try_from(span).ok()?,
            sampled: flags & 1 == 1,
        })
    }
}

/// Reads a field of exactly `length` hexadecimal digits in lower case.
fn field(text: &str, length: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != length || !text.bytes().all(is_digit) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

impl fmt::Display for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_as_it_is_written() {
        let parsed = Traceparent::parse(GOOD).expect("the example of the specification");
        assert_eq!(parsed.trace, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);
        assert_eq!((parsed.span, parsed.sampled), (0x00f0_67aa_0ba9_02b7, true));
        assert_eq!(parsed.to_string(), GOOD);
        let off = Traceparent::parse(&GOOD.replace("-01", "-02")).expect("unknown flags");
        assert!(!off.sampled);
        let later = format!("{}-more", GOOD.replacen("00", "cc", 1));
        assert_eq!(Traceparent::parse(&later), Some(parsed), "a later version");
    }

    #[test]
    fn every_other_form_counts_as_missing() {
        for wrong in [
            "",
            "00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Traceparent::parse(wrong), None, "{wrong}");
        }
    }
}
