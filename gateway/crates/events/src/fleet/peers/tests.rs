use super::*;

#[test]
fn a_missing_message_is_known_by_the_next_or_by_a_heartbeat() {
    let now = Instant::now();
    let mut peers = Peers::default();
    let mut seen = |sequence, is_change| peers.seen(1, sequence, is_change, now);
    assert_eq!(seen(4, false), SequenceCheck::Joined);
    assert_eq!(seen(4, false), SequenceCheck::Next);
    assert_eq!(seen(5, true), SequenceCheck::Next);
    assert_eq!(seen(5, true), SequenceCheck::Again);
    assert_eq!(seen(7, true), SequenceCheck::Gap);
    assert_eq!(seen(6, true), SequenceCheck::Again, "it is late");
    assert_eq!(seen(7, false), SequenceCheck::Next);
    assert_eq!(seen(9, false), SequenceCheck::Gap);
    assert_eq!(seen(10, true), SequenceCheck::Next);
    assert_eq!(seen(u64::MAX, true), SequenceCheck::Gap);
    assert_eq!(
        seen(u64::MAX, true),
        SequenceCheck::Next,
        "it does not wrap"
    );
}

#[test]
fn a_silent_sender_is_lost_once_and_one_that_ends_is_not() {
    let now = Instant::now();
    let mut peers = Peers::default();
    for from in 0..3 {
        peers.seen(from, 0, false, now);
    }
    peers.left(0);
    let late = now + PEER_TIMEOUT;
    assert_eq!(peers.expire(late), 0);
    peers.seen(1, 0, false, late);
    let later = late + Duration::from_millis(1);
    assert_eq!([peers.expire(later), peers.expire(later)], [1, 0]);
    peers.restart(later + PEER_TIMEOUT);
    assert_eq!(peers.expire(later + PEER_TIMEOUT + PEER_TIMEOUT), 0);
    assert_eq!(peers.len(), 1);
}

#[test]
fn senders_are_bounded() {
    let now = Instant::now();
    let mut peers = Peers::default();
    for from in 0..1000 {
        assert_eq!(peers.seen(from, 0, false, now), SequenceCheck::Joined);
    }
    assert_eq!(peers.len(), MAX_PEERS);
}

#[test]
fn one_gateway_is_chosen_for_each_bucket() {
    let now = Instant::now();
    let ids = [3, 5, 8];
    let view = |own: u64| {
        let mut peers = Peers::default();
        for from in ids.iter().filter(|id| **id != own) {
            peers.seen(*from, 0, false, now);
        }
        peers
    };
    let mut shares = [0; 3];
    for bucket in (0..300).map(|n| format!("bucket-{n}")) {
        let chosen: Vec<_> = (0..3)
            .filter(|n| view(ids[*n]).chosen(ids[*n], &bucket) == ids[*n])
            .collect();
        let [one] = chosen[..] else {
            panic!("{bucket}: {chosen:?}")
        };
        shares[one] += 1;
    }
    assert!(shares.iter().all(|share| *share > 50), "{shares:?}");
    assert_eq!(Peers::default().chosen(1, "b"), 1, "it is alone");
}
