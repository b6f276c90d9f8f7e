//! The rule of admission: which use of a chunk justifies a write to disk.

/// An approximate memory of fixed size of the hashes that were seen: a direct-mapped table of
/// fingerprints. A new fingerprint overwrites the old one in its slot. Errors go towards "not
/// seen", which delays a write and never gives a wrong byte.
#[derive(Debug)]
pub struct AdmissionFilter {
    slots: Vec<u64>,
}

impl AdmissionFilter {
    /// Creates a memory of `slots` fingerprints of 8 bytes each, rounded up to a power of two.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            slots: vec![0; slots.next_power_of_two()],
        }
    }

    /// Returns whether this hash was seen before, and remembers it.
    pub fn record_use(&mut self, hash: u64) -> bool {
        let mask = self.slots.len() - 1;
        let at = usize::try_from(hash & mask as u64).unwrap_or(0);
        // 0 marks an empty slot.
        let print = hash.max(1);
        std::mem::replace(&mut self.slots[at], print) == print
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_time_is_known_and_memory_is_bounded() {
        let mut seen = AdmissionFilter::new(4);
        assert!(!seen.record_use(5));
        assert!(seen.record_use(5));
        assert!(!seen.record_use(9), "another in the same slot");
        assert!(!seen.record_use(5), "was overwritten");
        assert!(!seen.record_use(0));
        assert!(seen.record_use(0));
    }
}
