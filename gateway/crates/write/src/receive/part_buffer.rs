//! The part being filled, in memory of its own.

use bytes::Bytes;

/// The maximum size of a block, in bytes.
const BLOCK_BYTES: u64 = 256 << 10;

/// The received bytes of a part. They are copied: a received piece is a slice of its connection's
/// whole buffer, however short it is, and would keep that buffer.
#[derive(Debug, Default)]
pub(super) struct PartBuffer {
    full: Vec<Bytes>,
    block: Vec<u8>,
    held: u64,
}

impl PartBuffer {
    /// Returns the number of bytes held.
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    /// Appends bytes. At most `room` bytes may follow in the part; no block is larger than that.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut room: u64) {
        self.held += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.block.len() == self.block.capacity() {
                self.seal();
                let size = usize::try_from(room.min(BLOCK_BYTES)).expect("a block's");
                self.block = Vec::with_capacity(size.max(1));
            }
            let free = self.block.capacity() - self.block.len();
            let (taken, rest) = bytes.split_at(bytes.len().min(free));
            self.block.extend_from_slice(taken);
            room = room.saturating_sub(taken.len() as u64);
            bytes = rest;
        }
    }

    /// Takes all blocks, and leaves this empty.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        self.seal();
        self.held = 0;
        std::mem::take(&mut self.full)
    }

    fn seal(&mut self) {
        let mut block = std::mem::take(&mut self.block);
        if !block.is_empty() {
            // It may be kept for long.
            block.shrink_to_fit();
            self.full.push(block.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Bytes that others keep, too.
    struct Counted(#[expect(dead_code, reason = "held, not looked at")] Arc<()>);

    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    #[test]
    fn nothing_that_arrived_is_kept_and_no_more_than_is_needed() {
        let kept = Arc::new(());
        let mut filling = PartBuffer::default();
        let length = 2 * BLOCK_BYTES + 77;
        for at in 0..length {
            let arrived = Bytes::from_owner(Counted(kept.clone()));
            filling.push(&arrived, length - at);
        }
        assert_eq!(filling.held(), length);
        assert_eq!(Arc::strong_count(&kept), 1);
        assert_eq!(filling.block.capacity(), 77);
        let sizes: Vec<_> = filling.take().iter().map(Bytes::len).collect();
        assert_eq!(sizes, [BLOCK_BYTES as usize, BLOCK_BYTES as usize, 77]);
        assert_eq!((filling.held(), filling.take().len()), (0, 0));
    }

    #[test]
    fn bytes_stay_in_order_over_blocks() {
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES).map(|at| (at % 251) as u8).collect();
        let mut filling = PartBuffer::default();
        for piece in bytes.chunks(70_001) {
            filling.push(piece, u64::MAX);
        }
        assert!(filling.take().concat() == bytes);
    }
}
