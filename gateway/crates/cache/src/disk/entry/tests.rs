use super::*;

fn entry() -> (ChunkKey, DiskLocation) {
    let key = ChunkKey {
        version: VersionId(77 << 80 | 3),
        index: 9,
    };
    let location = DiskLocation {
        segment: 5,
        offset: 12 * PAGE_SIZE,
        len: 5,
        sum: checksum(&key, b"hello"),
        pin: PinId::from_number(u16::MAX),
    };
    (key, location)
}

#[test]
fn every_flipped_bit_every_cut_and_another_segment_are_noticed() {
    let (key, location) = entry();
    let encoded = encode(&key, &location);
    assert_eq!(decode(&encoded, 5), Some((key, location)));
    let pin = decode(&encoded, 5).map(|(_, location)| location.pin);
    assert_eq!(pin, Some(location.pin));
    assert_eq!(decode(&encoded, 6), None);
    for bit in 0..ENTRY_SIZE * 8 {
        let mut flipped = encoded;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode(&flipped, 5), None, "bit {bit}");
    }
    for cut in 0..ENTRY_SIZE {
        assert_eq!(decode(&encoded[..cut], 5), None, "cut at {cut}");
    }
}

#[test]
fn what_follows_a_damaged_entry_is_ignored() {
    let (key, location) = entry();
    let mut all = encode(&key, &location).repeat(4);
    all.extend_from_slice(&[1, 2, 3]);
    assert_eq!(decode_all(&all, 5).len(), 4);
    all[2 * ENTRY_SIZE + 7] ^= 1;
    assert_eq!(decode_all(&all, 5).len(), 2);
}

#[test]
fn a_checksum_is_of_key_and_length_too() {
    let (key, location) = entry();
    let other = ChunkKey { index: 10, ..key };
    assert_ne!(checksum(&other, b"hello"), location.sum);
    assert_ne!(checksum(&key, b"hello\0"), location.sum);
    assert_ne!(checksum(&key, b"hullo"), location.sum);
}
