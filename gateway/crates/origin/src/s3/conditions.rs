//! Conditions that a store may not know.

use std::sync::atomic::{AtomicU32, Ordering};

/// The refusals in a row after which no more conditions are sent.
const MAX_REFUSED: u32 = 2;

/// Whether a store compares in requests of one kind. A store that refuses the condition (501, or 400) is asked without.
/// After two refusals in a row it is not asked with one again: a proxy or a busy node may say that once.
#[derive(Debug, Default)]
pub(super) struct KnownConditions {
    /// The refusals in a row.
    refused: AtomicU32,
}

impl KnownConditions {
    /// Returns whether a condition is worth a request.
    pub(super) fn are_sent(&self) -> bool {
        self.refused.load(Ordering::Relaxed) < MAX_REFUSED
    }

    /// Notes that the store has refused a condition, and has carried out the same request without.
    pub(super) fn note_refused(&self, bucket: &str, requests: &str) {
        if self.refused.fetch_add(1, Ordering::Relaxed) + 1 == MAX_REFUSED {
            tracing::info!(bucket, "the store has no conditional {requests}");
        }
    }

    /// Notes that the store has compared.
    pub(super) fn note_compared(&self) {
        self.refused.store(0, Ordering::Relaxed);
    }
}
