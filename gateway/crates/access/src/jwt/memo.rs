//! Tokens that were verified, so that a repeated one costs a comparison.
//!
//! A player sends one token with each request. An entry holds the whole token; the signature is compared in constant time.
//! It counts for the keys that have verified it, and for no others. The table is direct-mapped: its size is bounded, and
//! an entry goes when another one needs its slot.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use subtle::ConstantTimeEq as _;

use super::{SplitToken, Verified};

/// The tokens that are remembered at most.
const SLOTS: usize = 1024;

/// The longest token that is remembered, in bytes: the table takes 4 MiB at most.
const MAX_BYTES: usize = 4096;

/// The table.
#[derive(Debug)]
pub(super) struct Memo {
    slots: Box<[ArcSwapOption<Entry>]>,
    hasher: RandomState,
}

/// A verified token.
struct Entry {
    message: Box<str>,
    signature: Box<str>,
    generation: u64,
    verified: Arc<Verified>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Entry").field(&self.verified).finish()
    }
}

impl Memo {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| ArcSwapOption::empty()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Returns what a token says, if the keys of this generation have verified it.
    pub(super) fn find(&self, token: &SplitToken<'_>, generation: u64) -> Option<Arc<Verified>> {
        let entry = self.slot(token.message)?.load();
        let entry = entry.as_ref()?;
        let same = entry.generation == generation && *entry.message == *token.message;
        let signed = || entry.signature.as_bytes().ct_eq(token.signature.as_bytes());
        (same && bool::from(signed())).then(|| entry.verified.clone())
    }

    /// Remembers a token that these keys have verified.
    pub(super) fn remember(
        &self,
        token: &SplitToken<'_>,
        generation: u64,
        verified: &Arc<Verified>,
    ) {
        if token.message.len() + token.signature.len() > MAX_BYTES {
            return;
        }
        if let Some(slot) = self.slot(token.message) {
            slot.store(Some(Arc::new(Entry {
                message: token.message.into(),
                signature: token.signature.into(),
                generation,
                verified: verified.clone(),
            })));
        }
    }

    /// Returns the slot of a token. It does not depend on the signature, which nothing but a constant-time comparison
    /// may look at.
    fn slot(&self, message: &str) -> Option<&ArcSwapOption<Entry>> {
        let hash = self.hasher.hash_one(message);
        self.slots.get(usize::try_from(hash % SLOTS as u64).ok()?)
    }
}
