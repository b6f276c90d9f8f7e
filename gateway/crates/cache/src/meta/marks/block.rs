//! A block of marks: the keys of rows, one after the other, sealed.

use crate::meta::record::{seal, unseal};

/// Bytes of a block, as the page cache and most disks write it.
pub(super) const BLOCK_SIZE: usize = 4096;

/// The key of the seal.
const SEAL_KEY: &[u8] = b"marks";

/// Bytes before the keys: the length of the sealed part, and the seal.
const HEAD_SIZE: usize = 4 + 9;

/// The bytes of a block without the zeros at its end, and the number of marks in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkBlock {
    pub(super) bytes: Vec<u8>,
    pub(super) marks: usize,
}

/// Packs keys into as few blocks as their order allows.
pub(super) fn pack<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<MarkBlock> {
    let (mut blocks, mut payload, mut marks) = (Vec::new(), Vec::new(), 0);
    for key in keys {
        let length = u16::try_from(key.len()).expect("a key has 1,024 bytes at most");
        if HEAD_SIZE + payload.len() + 2 + key.len() > BLOCK_SIZE {
            blocks.push(sealed(&std::mem::take(&mut payload), marks));
            marks = 0;
        }
        payload.extend_from_slice(&length.to_le_bytes());
        payload.extend_from_slice(key);
        marks += 1;
    }
    blocks.push(sealed(&payload, marks));
    blocks
}

fn sealed(payload: &[u8], marks: usize) -> MarkBlock {
    let sealed = seal(SEAL_KEY, payload);
    let length = u32::try_from(sealed.len()).expect("shorter than a block");
    let bytes = [&length.to_le_bytes()[..], &sealed].concat();
    MarkBlock { bytes, marks }
}

/// Returns the keys in a block; none if it is incomplete.
pub(super) fn unpack(block: &[u8]) -> Vec<Vec<u8>> {
    keys(block).unwrap_or_default()
}

fn keys(block: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (length, rest) = block.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let mut payload = unseal(SEAL_KEY, rest.get(..length)?)?;
    let mut keys = Vec::new();
    while let Some((length, rest)) = payload.split_first_chunk() {
        let (key, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        keys.push(key.to_vec());
        payload = rest;
    }
    Some(keys)
}
