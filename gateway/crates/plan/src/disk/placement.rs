//! The choice of the disk for a chunk: rendezvous hashing, weighted by capacity.
//!
//! Every place draws a number for the key, and the highest wins. If a place goes, only its own keys
//! move; if one comes, it takes its share from each. With the draw `-weight / ln(u)`, `u` uniform
//! in (0, 1), shares are in proportion to the weights (Schindelhauer and Schomaker, "Weighted
//! distributed hash tables", 2005).

use xxhash_rust::xxh3::xxh3_64;

/// A disk among which keys are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskShare {
    /// Its identity: stable across restarts and unique.
    pub id: u64,
    /// Its share, in any unit; a disk with 0 gets no keys.
    pub weight: u64,
}

/// Returns the index of the place that `key` belongs to; `None` if no place has a weight.
#[must_use]
pub fn choose_disk(key: u64, places: &[DiskShare]) -> Option<usize> {
    places
        .iter()
        .enumerate()
        .filter(|(_, place)| place.weight > 0)
        .map(|(index, place)| (index, place.id, draw(key, *place)))
        .max_by(|(_, a_id, a), (_, b_id, b)| a.total_cmp(b).then(a_id.cmp(b_id)))
        .map(|(index, _, _)| index)
}

fn draw(key: u64, place: DiskShare) -> f64 {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&key.to_le_bytes());
    seed[8..].copy_from_slice(&place.id.to_le_bytes());
    #[expect(clippy::cast_precision_loss, reason = "a share needs no last digit")]
    let weight = place.weight as f64;
    -weight / unit(xxh3_64(&seed)).ln()
}

/// Returns a number above 0 and below 1, evenly spread over all hashes.
fn unit(hash: u64) -> f64 {
    // 53 bits, the precision of an f64, shifted so that 0 cannot occur. The largest is rounded up to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let shifted = (hash >> 11) as f64 + 0.5;
    #[expect(clippy::cast_precision_loss, reason = "a power of two")]
    let all = (1u64 << 53) as f64;
    (shifted / all).min(1.0_f64.next_down())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places() -> impl Strategy<Value = Vec<DiskShare>> {
        proptest::collection::btree_map(any::<u64>(), 0u64..1 << 50, 1..6).prop_map(|map| {
            map.into_iter()
                .map(|(id, weight)| DiskShare { id, weight })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn losing_a_place_moves_its_own_keys_only(all in places(), gone: prop::sample::Index, key: u64) {
            let gone = gone.index(all.len());
            let mut left = all.clone();
            left.remove(gone);
            let before = choose_disk(key, &all).map(|i| all[i]);
            let after = choose_disk(key, &left).map(|i| left[i]);
            if before != Some(all[gone]) {
                prop_assert_eq!(before, after);
            }
        }

        #[test]
        fn order_does_not_matter(all in places(), key: u64) {
            let mut turned = all.clone();
            turned.reverse();
            prop_assert_eq!(
                choose_disk(key, &all).map(|i| all[i]),
                choose_disk(key, &turned).map(|i| turned[i])
            );
        }

        #[test]
        fn shares_follow_the_weights(ids in proptest::collection::btree_set(any::<u64>(), 3)) {
            let weights = [1, 2, 5];
            let all: Vec<_> = ids.into_iter().zip(weights).map(|(id, weight)| DiskShare { id, weight }).collect();
            let mut counts = [0u32; 3];
            for key in 0..8000 {
                counts[choose_disk(key, &all).expect("weights above 0")] += 1;
            }
            for (count, weight) in counts.into_iter().zip(weights) {
                let share = f64::from(count) / (1000.0 * f64::from(u32::try_from(weight).expect("small")));
                prop_assert!((0.8..1.2).contains(&share), "{counts:?}");
            }
        }
    }

    #[test]
    fn no_hash_draws_zero_or_one() {
        for hash in [0, 1, u64::MAX / 2, u64::MAX] {
            let drawn = unit(hash);
            assert!(0.0 < drawn && drawn < 1.0, "{hash}: {drawn}");
        }
    }

    #[test]
    fn nothing_takes_nothing() {
        assert_eq!(choose_disk(1, &[]), None);
        assert_eq!(choose_disk(1, &[DiskShare { id: 1, weight: 0 }]), None);
    }
}
