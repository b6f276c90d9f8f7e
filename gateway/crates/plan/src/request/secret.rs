//! Comparison of secrets.

use std::hint::black_box;

use subtle::ConstantTimeEq as _;

/// Returns whether two texts are the same, in a time that depends on their lengths alone.
///
/// It compares eight bytes at a time: a hit on a private route compares a hundred bytes, which takes ten times as long byte
/// by byte.
#[must_use]
pub fn is_same_secret(own: &[u8], shown: &[u8]) -> bool {
    if own.len() != shown.len() {
        return false;
    }
    let (own, own_rest) = own.as_chunks();
    let (shown, shown_rest) = shown.as_chunks();
    let mut difference = 0;
    for (own, shown) in own.iter().zip(shown) {
        // No compiler may end this early: it does not know what the difference is.
        difference =
            black_box(difference | (u64::from_ne_bytes(*own) ^ u64::from_ne_bytes(*shown)));
    }
    for (own, shown) in own_rest.iter().zip(shown_rest) {
        difference = black_box(difference | u64::from(own ^ shown));
    }
    difference.ct_eq(&0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_counts_at_every_length() {
        for len in 0..100 {
            let own: Vec<u8> = (0..len).map(|at| at as u8).collect();
            assert!(is_same_secret(&own, &own.clone()), "{len}");
            let longer = [&own[..], &[0]].concat();
            assert!(!is_same_secret(&own, &longer), "{len}");
            assert!(!is_same_secret(&longer, &own), "{len}");
            for at in 0..len {
                for bit in 0..8 {
                    let mut shown = own.clone();
                    shown[at] ^= 1 << bit;
                    assert!(!is_same_secret(&own, &shown), "{len} {at} {bit}");
                }
            }
        }
    }
}
