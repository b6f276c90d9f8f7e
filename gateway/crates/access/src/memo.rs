//! Credentials that were verified, so that a repeated one costs a comparison.
//!
//! A player shows one credential with each request. An entry holds it as it was shown, and what was learned of it; the
//! part that proves it is compared in constant time. Only admitted credentials are remembered. An entry counts for the
//! access that has made it: a reload that changes the access begins with an empty table.
//!
//! The table is direct-mapped: its size is bounded, and an entry goes when another one needs its slot. The slot depends
//! on the whole text, so the time of a look-up may reveal that two texts share one: ten bits of a proof of 256 and more.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use tidegate_plan::is_same_secret;

/// The credentials that are remembered at most.
const SLOTS: usize = 1024;

/// The longest credential that is remembered, with what was learned of it, in bytes: a table takes 4 MiB at most.
const MAX_BYTES: usize = 4096;

/// The table.
pub(crate) struct Memo<V> {
    slots: Box<[ArcSwapOption<Entry<V>>]>,
    hasher: SeedableRandomState,
}

/// A verified credential.
struct Entry<V> {
    text: Box<[u8]>,
    /// The part that was computed from a secret.
    proof: Range<usize>,
    learned: V,
}

impl<V> fmt::Debug for Memo<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memo").field(&self.slots.len()).finish()
    }
}

impl<V> Memo<V> {
    /// Returns an empty table; one that is not `used` has no slots.
    pub(crate) fn new(used: bool) -> Self {
        let slots = if used { SLOTS } else { 0 };
        let seed = RandomState::new().hash_one(());
        Self {
            slots: (0..slots).map(|_| ArcSwapOption::empty()).collect(),
            hasher: SeedableRandomState::with_seed(seed, SharedSeed::global_random()),
        }
    }

    /// Returns the answer of `judge` to what was learned of a credential. `None`: it is not remembered.
    pub(crate) fn recall<R>(&self, shown: &[u8], judge: impl FnOnce(&V) -> R) -> Option<R> {
        let entry = self.slot(shown)?.load();
        let entry = entry.as_ref()?;
        entry.is(shown).then(|| judge(&entry.learned))
    }

    /// Remembers a credential that was verified, whose part `proof` was computed from a secret. `size` is that of what
    /// was learned.
    pub(crate) fn remember(&self, shown: &[u8], proof: Range<usize>, (learned, size): (V, usize)) {
        if shown.len() + size > MAX_BYTES || proof.start > proof.end || proof.end > shown.len() {
            return;
        }
        if let Some(slot) = self.slot(shown) {
            slot.store(Some(Arc::new(Entry {
                text: shown.into(),
                proof,
                learned,
            })));
        }
    }

    fn slot(&self, shown: &[u8]) -> Option<&ArcSwapOption<Entry<V>>> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(shown);
        let hash = hasher.finish();
        self.slots.get(usize::try_from(hash % SLOTS as u64).ok()?)
    }
}

impl<V> Entry<V> {
    fn is(&self, shown: &[u8]) -> bool {
        let Range { start, end } = self.proof;
        self.text.len() == shown.len()
            && self.text[..start] == shown[..start]
            && self.text[end..] == shown[end..]
            && is_same_secret(&self.text[start..end], &shown[start..end])
    }
}

#[cfg(test)]
mod tests;
