//! Purges, as far as they make answers about names old.

use tidegate_plan::OriginId;

/// The number of purges told apart; requests from before older ones count as purged.
pub(super) const MAX_PURGES: usize = 64;

/// A purge of a key, or of all keys with a prefix.
#[derive(Debug)]
pub(super) struct Purge {
    pub(super) epoch: u64,
    pub(super) origin: OriginId,
    pub(super) prefix: String,
}

impl Purge {
    /// Returns whether it may change the meaning of a path: one of the two lies at or below the other.
    pub(super) fn touches(&self, path: &str) -> bool {
        path.starts_with(&self.prefix) || self.prefix.starts_with(path)
    }
}
