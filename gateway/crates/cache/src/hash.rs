//! Hashing of keys, as fast as each kind of key allows. The default of the standard library
//! (SipHash) would cost more than the look-up itself.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A hasher for keys that are hashes already ([`super::ChunkKey`]): it folds their words together.
///
/// The result decides which of several disks holds a chunk, so it must not change within one version
/// of the disk layout, and takes no seed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FoldHasher(u64);

/// An odd number with evenly spread bits: the golden ratio in 64 bits.
const SPREAD_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl FoldHasher {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ SPREAD_FACTOR) * u128::from(SPREAD_FACTOR);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the two halves are taken apart"
        )]
        let (low, high) = (product as u64, (product >> 64) as u64);
        self.0 = low ^ high.rotate_left(32);
    }
}

impl BuildHasher for FoldHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self::default()
    }
}

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.fold(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.fold(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.fold(word);
    }

    fn write_u128(&mut self, word: u128) {
        let [low, high] = [word, word >> 64].map(|half| (half & u128::from(u64::MAX)) as u64);
        self.fold(low);
        self.fold(high);
    }
}

/// Returns a number that differs from call to call, and from process to process.
pub(crate) fn random_number() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// A hasher for keys that clients choose ([`tidegate_plan::ObjectId`]): xxh3 with a seed of this
/// process, so that no client can prepare keys that collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeededHasher(u64);

impl SeededHasher {
    /// Returns a hasher whose seed differs from process to process.
    #[must_use]
    pub(crate) fn random() -> Self {
        Self(random_number())
    }
}

impl BuildHasher for SeededHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

impl Hasher for SeededHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(SPREAD_FACTOR);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::ChunkKey;
    use tidegate_plan::VersionId;

    /// The value is part of the disk layout: changing it needs a new layout version.
    #[test]
    fn folded_is_stable_and_spreads_the_chunks_of_one_version() {
        let key = |version, index| ChunkKey {
            version: VersionId(version),
            index,
        };
        let hash = |version, index| FoldHasher::default().hash_one(key(version, index));
        assert_eq!(hash(1 << 70, 7), hash(1 << 70, 7));
        assert_eq!(hash(0x1234_5678, 9), 5_256_338_035_871_040_977);

        let mut seen = HashSet::new();
        let mut shards = [0u32; 16];
        for version in 0..64 {
            for index in 0..256 {
                let h = hash(version, index);
                assert!(seen.insert(h), "{version} {index}");
                shards[usize::try_from(h % 16).expect("below 16")] += 1;
            }
        }
        assert!(shards.iter().all(|n| (800..1250).contains(n)), "{shards:?}");
    }
}
