//! The open handles on a draft, and what it holds for their close.

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct OpenHandles {
    count: usize,
    /// Whether closes return before the draft is in the bucket.
    closes_behind: bool,
    /// The only part whose bytes are in memory while the draft waits for its close.
    part_in_memory: u32,
}

impl OpenHandles {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn is_open(&self) -> bool {
        self.count > 0
    }

    pub(crate) fn closes_behind(&self) -> bool {
        self.closes_behind
    }

    pub(crate) fn open(&mut self) {
        self.count += 1;
    }

    /// Closes one. Returns whether it was the last one.
    pub(crate) fn close(&mut self) -> bool {
        self.count -= 1;
        !self.is_open()
    }

    /// Notes whether the closes of one handle return early. All handles must say so.
    pub(crate) fn announce(&mut self, closes_behind: bool) {
        let is_alone = self.count <= 1;
        self.closes_behind = closes_behind && (is_alone || self.closes_behind);
    }

    /// Keeps another part in memory. Returns the one before.
    pub(crate) fn keep_in_memory(&mut self, part: u32) -> u32 {
        std::mem::replace(&mut self.part_in_memory, part)
    }
}
