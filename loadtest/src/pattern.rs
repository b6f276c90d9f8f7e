//! The expected bytes of every object.
//!
//! An object's content follows from a seed alone: the 8 bytes at offset `8 * i` are a hash of seed
//! and `i`. So any answer can be checked at any offset without a copy. Bytes of another object,
//! version or place differ from the right ones within 8 bytes.

use bytes::Bytes;

use crate::random::mix;

/// The content of one version of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The seed of the bytes.
    pub seed: u64,
    /// The length in bytes.
    pub len: u64,
}

impl Pattern {
    /// Returns `len` bytes from `start` on, even past the object's end.
    #[must_use]
    pub fn bytes(&self, start: u64, len: usize) -> Bytes {
        let mut out = vec![0_u8; len];
        self.for_each_word(start, len, |at, word| {
            out[at.clone()].copy_from_slice(word);
            true
        });
        out.into()
    }

    /// Returns all of the object.
    ///
    /// # Panics
    /// If the object does not fit into the address space.
    #[must_use]
    pub fn all(&self) -> Bytes {
        self.bytes(
            0,
            usize::try_from(self.len).expect("an object of this machine"),
        )
    }

    /// Tells whether `found` equals the object's bytes from `start` on.
    #[must_use]
    pub fn matches(&self, start: u64, found: &[u8]) -> bool {
        if start + found.len() as u64 > self.len {
            return false;
        }
        // Compares bytes up to the first whole word and after the last one, and words in between.
        // The check must not slow down the streams that are timed.
        let head = ((8 - start % 8) % 8).min(found.len() as u64) as usize;
        let (head, rest) = found.split_at(head);
        let (words, tail) = rest.as_chunks::<8>();
        let first = (start + head.len() as u64) / 8;
        let tail_at = (first + words.len() as u64) * 8;
        self.matches_slowly(start, head)
            && (first..)
                .zip(words)
                .all(|(index, word)| u64::from_le_bytes(*word) == self.word(index))
            && self.matches_slowly(tail_at, tail)
    }

    fn matches_slowly(&self, start: u64, found: &[u8]) -> bool {
        self.for_each_word(start, found.len(), |at, word| found[at.clone()] == *word)
    }

    /// Visits `len` bytes from `start` in pieces that end at word boundaries, until `visit` returns
    /// false. Returns whether every visit returned true.
    fn for_each_word(
        &self,
        start: u64,
        len: usize,
        mut visit: impl FnMut(&std::ops::Range<usize>, &[u8]) -> bool,
    ) -> bool {
        let mut done = 0;
        while done < len {
            let offset = start + done as u64;
            let word = self.word(offset / 8).to_le_bytes();
            let skip = (offset % 8) as usize;
            let end = (done + 8 - skip).min(len);
            if !visit(&(done..end), &word[skip..skip + (end - done)]) {
                return false;
            }
            done = end;
        }
        true
    }

    fn word(&self, index: u64) -> u64 {
        mix(mix(self.seed) ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERN: Pattern = Pattern { seed: 5, len: 1000 };

    #[test]
    fn any_piece_of_an_object_matches_where_it_was_cut_out() {
        let whole = PATTERN.all();
        for (start, end) in [
            (0, 1000),
            (0, 1),
            (999, 1000),
            (3, 11),
            (8, 16),
            (7, 9),
            (500, 500),
        ] {
            let piece = &whole[start..end];
            assert!(PATTERN.matches(start as u64, piece));
            assert_eq!(PATTERN.bytes(start as u64, end - start), piece);
        }
    }

    #[test]
    fn another_place_another_seed_and_one_wrong_byte_are_told_apart() {
        let whole = PATTERN.all();
        assert!(!PATTERN.matches(1, &whole[..100]));
        assert!(!Pattern { seed: 6, ..PATTERN }.matches(0, &whole[..100]));
        let mut wrong = whole.to_vec();
        wrong[777] ^= 1;
        assert!(!PATTERN.matches(0, &wrong));
    }

    #[test]
    fn bytes_past_the_end_never_match() {
        assert!(!PATTERN.matches(999, &PATTERN.bytes(999, 2)));
    }
}
