use super::*;

#[test]
fn knows_the_very_slow() {
    let rows = [
        (256 << 10, 3_900, false),
        (256 << 10, 4_100, true),
        (256 << 10, 10, false),
        (1, 200, false),
        (1, 300, true),
        (COPY_BYTES, 249, false),
        (COPY_BYTES, 251, true),
    ];
    for (bytes, millis, slow) in rows {
        let took = Duration::from_millis(millis);
        assert_eq!(
            ClientSpeed { bytes, took }.is_very_slow(),
            slow,
            "{bytes} in {millis}"
        );
    }
}

#[test]
fn charges_until_the_last_reference_is_gone() {
    let memory = Arc::new(ClientMemory::new(100));
    let bytes = Bytes::from(vec![7; 60]);
    let pinned = ChargedBytes::charge(bytes.clone(), 60, &memory).expect("within");
    assert_eq!((&pinned, pinned.as_ptr()), (&bytes, bytes.as_ptr()));
    assert!(ChargedBytes::charge(bytes.clone(), 60, &memory).is_none());
    let part = pinned.slice(3..5);
    drop(pinned);
    assert_eq!(memory.used(), 60);
    let forced = ChargedBytes::force_charge(&bytes, 60, &memory);
    assert_eq!(memory.used(), 120);
    drop((part, forced));
    assert_eq!(memory.used(), 0);
}

#[test]
fn another_limit_holds_for_the_next_reservation() {
    let memory = Arc::new(ClientMemory::new(100));
    let bytes = Bytes::from(vec![7; 60]);
    let first = ChargedBytes::charge(bytes.clone(), 60, &memory).expect("within");
    memory.resize(120);
    let second = ChargedBytes::charge(bytes.clone(), 60, &memory).expect("within");
    memory.resize(70);
    assert_eq!((memory.used(), memory.is_overdrawn()), (120, true));
    drop(first);
    assert!(ChargedBytes::charge(bytes.clone(), 60, &memory).is_none());
    drop(second);
    assert_eq!(memory.used(), 0);
}

#[test]
fn charges_what_is_kept_alive_or_copies() {
    let memory = Arc::new(ClientMemory::new(1 << 20));
    let chunk = Bytes::from(vec![7; 256 << 10]);
    let rows = [(1, true), (COPY_BYTES, true), (COPY_BYTES + 1, false)];
    for (length, copied) in rows {
        let part = chunk.slice(9..9 + length);
        for forced in [false, true] {
            let charged = match forced {
                true => ChargedBytes::force_charge(&part, chunk.len(), &memory),
                false => ChargedBytes::charge(part.clone(), chunk.len(), &memory).expect("within"),
            };
            let kept = if copied { length } else { chunk.len() };
            assert_eq!((&charged, memory.used()), (&part, kept));
            assert_eq!(charged.as_ptr() != part.as_ptr(), copied, "{length}");
        }
    }
    assert_eq!(memory.used(), 0);
}

#[test]
fn copies_are_small_and_single_while_the_memory_is_overdrawn() {
    let memory = Arc::new(ClientMemory::new(COPY_BYTES));
    let copies = CopiesInFlight::new(memory.clone());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let first = copies.copy(&[1; COPY_BYTES]);
    assert!(copies.poll_room(&mut cx).is_ready());
    assert_eq!(copies.size(), COPY_BYTES);
    let second = copies.copy(&[2; COPY_BYTES]);
    assert!(copies.poll_room(&mut cx).is_pending());
    assert_eq!(
        (copies.size(), memory.used()),
        (SMALL_COPY_BYTES, 2 * COPY_BYTES)
    );
    drop(first);
    assert!(copies.poll_room(&mut cx).is_ready(), "no longer overdrawn");
    drop(second);
    memory.force_reserve(2 * COPY_BYTES);
    assert!(copies.poll_room(&mut cx).is_ready(), "others are to blame");
}
