//! Answers of a server that may be kept, by the digest of all that it was sent. Credentials are not kept.
//!
//! The table is direct-mapped: its size is bounded, and an answer goes when another one needs its slot.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::time::Instant;

/// The SHA-256 of a question.
pub(crate) type Digest = [u8; 32];

/// The table.
#[derive(Debug)]
pub(crate) struct Memo<T>(Box<[ArcSwapOption<MemoEntry<T>>]>);

#[derive(Debug)]
struct MemoEntry<T> {
    digest: Digest,
    until: Instant,
    answer: T,
}

impl<T: Clone> Memo<T> {
    /// Returns a table for this many answers.
    pub(crate) fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| ArcSwapOption::empty()).collect())
    }

    pub(crate) fn find(&self, digest: &Digest, now: Instant) -> Option<T> {
        let kept = self.slot(digest)?.load();
        let kept = kept.as_ref()?;
        let counts = kept.digest == *digest && now < kept.until;
        counts.then(|| kept.answer.clone())
    }

    pub(crate) fn keep(&self, digest: Digest, until: Instant, answer: T) {
        if let Some(slot) = self.slot(&digest) {
            slot.store(Some(Arc::new(MemoEntry {
                digest,
                until,
                answer,
            })));
        }
    }

    fn slot(&self, digest: &Digest) -> Option<&ArcSwapOption<MemoEntry<T>>> {
        let (first, _) = digest.split_first_chunk::<8>()?;
        let slots = self.0.len() as u64;
        let slot = u64::from_le_bytes(*first).checked_rem(slots)?;
        self.0.get(usize::try_from(slot).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_answer_is_kept_for_its_time_and_its_question_alone() {
        let memo = Memo::new(16);
        let now = Instant::now();
        let until = now + Duration::from_secs(1);
        memo.keep([1; 32], until, 'a');
        assert_eq!(memo.find(&[1; 32], now), Some('a'));
        assert_eq!(memo.find(&[1; 32], until), None);
        let mut other = [1; 32];
        other[31] = 2;
        assert_eq!(memo.find(&other, now), None);
        memo.keep(other, until, 'b');
        assert_eq!(memo.find(&[1; 32], now), None, "the slot is taken");
        let none = Memo::new(0);
        none.keep([1; 32], until, 'a');
        assert_eq!(none.find(&[1; 32], now), None);
    }
}
