//! The head of a variant: its length, and a hash of its bytes.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use tidegate_cache::ChunkKey;
use tidegate_plan::VersionId;

/// The head of a variant, stored in its first chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// 0: the object does not get smaller.
    pub(super) size: u64,
    pub(super) hash: u128,
}

impl Head {
    pub(super) const LEN: usize = 24;

    pub(super) fn of(pieces: &[Bytes]) -> Self {
        let mut hash = Xxh3::new();
        pieces.iter().for_each(|piece| hash.update(piece));
        Self {
            size: pieces.iter().map(|piece| piece.len() as u64).sum(),
            hash: hash.digest128(),
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (size, hash) = bytes.split_first_chunk()?;
        Some(Self {
            size: u64::from_le_bytes(*size),
            hash: u128::from_le_bytes(hash.try_into().ok()?),
        })
    }

    /// Returns the address of the pieces of the variant `id`. An encoder of another release or processor may produce
    /// other bytes; their address differs, so pieces of two runs are never mixed.
    pub(super) fn pieces(self, id: VersionId) -> VersionId {
        id.with_encoding(self.size, self.hash)
    }

    pub(super) fn bytes(self) -> Bytes {
        let mut bytes = Vec::with_capacity(Self::LEN);
        bytes.extend(self.size.to_le_bytes());
        bytes.extend(self.hash.to_le_bytes());
        bytes.into()
    }
}

/// Returns the chunk that holds the head of a variant.
pub(super) fn head_chunk(id: VersionId) -> ChunkKey {
    ChunkKey {
        version: id,
        index: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_plan::Coding;

    #[test]
    fn pieces_of_another_run_have_another_address() {
        let id = VersionId(7).variant(Coding::Gzip);
        let head = |text: &'static [u8]| Head::of(&[Bytes::from_static(text)]);
        let pieces = head(b"one run").pieces(id);
        assert_eq!(head(b"one run").pieces(id), pieces);
        let others = [
            head(b"another").pieces(id),
            head(b"one runs").pieces(id),
            head(b"one run").pieces(VersionId(7).variant(Coding::Brotli)),
            id,
        ];
        assert!(others.iter().all(|other| *other != pieces), "{others:?}");
    }
}
