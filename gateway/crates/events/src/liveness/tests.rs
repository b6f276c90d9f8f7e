//! Chains of heartbeats by hand, and against a channel that loses messages.

use super::*;
use proptest::prelude::*;

const EVERY: Duration = Duration::from_secs(10);

fn at(secs: u64) -> Timestamp {
    Timestamp(secs * 1000)
}

fn etag(number: u64) -> ETag {
    ETag::parse(&format!("\"{number}\"")).expect("an ETag")
}

fn alive() -> Liveness {
    let mut liveness = Liveness::new(EVERY, true);
    liveness.written(at(100), etag(0), at(101));
    liveness.seen(etag(0), at(102));
    assert_eq!(liveness.unbroken_since(), Some(at(102)));
    liveness
}

/// Takes the time; returns whether it has ended the chain.
fn ends(liveness: &mut Liveness, now: Timestamp) -> bool {
    let was_alive = liveness.unbroken_since().is_some();
    liveness.tick(now);
    was_alive && liveness.unbroken_since().is_none()
}

#[test]
fn it_is_alive_since_the_first_heartbeat_came_back() {
    let mut liveness = alive();
    for number in 1..5 {
        liveness.written(at(100 + number * 10), etag(number), at(100 + number * 10));
        liveness.seen(etag(number), at(109 + number * 10));
        assert_eq!(liveness.unbroken_since(), Some(at(102)));
    }
}

#[test]
fn an_event_may_come_before_the_answer_to_its_write() {
    let mut liveness = Liveness::new(EVERY, true);
    liveness.seen(etag(7), at(100));
    assert_eq!(
        liveness.unbroken_since(),
        None,
        "it may be another gateway's"
    );
    liveness.written(at(99), etag(7), at(104));
    assert_eq!(liveness.unbroken_since(), Some(at(100)));
}

#[test]
fn a_heartbeat_that_stays_away_ends_the_chain() {
    let mut liveness = alive();
    liveness.written(at(110), etag(1), at(110));
    liveness.written(at(119), etag(2), at(119));
    liveness.seen(etag(2), at(120));
    assert_eq!(liveness.unbroken_since(), Some(at(102)), "it may come yet");
    assert_eq!(liveness.deadline(), Some(Timestamp(120_001)));
    assert!(ends(&mut liveness, Timestamp(120_001)));
    assert_eq!(liveness.unbroken_since(), None);
    liveness.seen(etag(1), at(121));
    assert_eq!(liveness.unbroken_since(), None, "it is too late");
    liveness.written(at(130), etag(3), at(130));
    liveness.seen(etag(3), at(131));
    assert_eq!(liveness.unbroken_since(), Some(at(131)));
}

#[test]
fn writes_that_fail_end_the_chain() {
    let mut liveness = alive();
    assert!(!ends(&mut liveness, at(120)));
    assert_eq!(liveness.deadline(), Some(Timestamp(120_001)));
    assert!(ends(&mut liveness, Timestamp(120_001)));
    assert_eq!(
        (liveness.unbroken_since(), liveness.deadline()),
        (None, None)
    );
}

#[test]
fn a_gap_ends_the_chain_and_what_was_under_way_starts_no_other() {
    let gaps: [fn(&mut Liveness, Timestamp); 2] = [Liveness::gap, Liveness::connected];
    for gap in gaps {
        let mut liveness = alive();
        liveness.written(at(105), etag(1), at(105));
        gap(&mut liveness, at(106));
        assert_eq!(liveness.unbroken_since(), None);
        liveness.seen(etag(1), at(107));
        assert_eq!(liveness.unbroken_since(), None);
        liveness.written(at(106), etag(2), at(108));
        liveness.seen(etag(2), at(108));
        assert_eq!(liveness.unbroken_since(), None, "its write began before");
        liveness.written(at(107), etag(3), at(108));
        liveness.seen(etag(3), at(109));
        assert_eq!(liveness.unbroken_since(), Some(at(109)));
    }
}

#[test]
fn nothing_counts_without_a_connection() {
    let mut liveness = alive();
    liveness.disconnected(at(103));
    liveness.written(at(104), etag(1), at(104));
    liveness.seen(etag(1), at(105));
    assert_eq!(liveness.unbroken_since(), None);
    liveness.connected(at(106));
    liveness.written(at(107), etag(2), at(107));
    liveness.seen(etag(2), at(107));
    assert_eq!(liveness.unbroken_since(), Some(at(107)));
}

#[test]
fn a_clock_that_is_set_back_ends_the_chain() {
    let mut liveness = alive();
    assert!(
        !ends(&mut liveness, Timestamp(101_500)),
        "threads may differ"
    );
    assert!(ends(&mut liveness, at(50)));
    liveness.written(at(51), etag(1), at(51));
    liveness.seen(etag(1), at(52));
    assert_eq!(liveness.unbroken_since(), Some(at(52)));
}

#[test]
fn other_gateways_heartbeats_are_bounded_and_prove_nothing() {
    let mut liveness = Liveness::new(EVERY, true);
    for number in 0..1000 {
        liveness.seen(etag(number), at(100));
    }
    assert_eq!(liveness.early.len(), MAX_WAITING);
    assert_eq!(liveness.unbroken_since(), None);
}

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Write,
    /// The store reports the last writes; all of them arrive, or none.
    Deliver,
    Lose,
    Disconnect,
    Connect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (1_u64..8).prop_map(Step::Wait),
        4 => Just(Step::Write),
        4 => Just(Step::Deliver),
        1 => Just(Step::Lose),
        1 => Just(Step::Disconnect),
        1 => Just(Step::Connect),
    ];
    proptest::collection::vec(step, 1..120)
}

proptest! {
    /// Whatever happens: no lost heartbeat lies in the time that is called unbroken, once its deadline has passed; and
    /// the way was open at the time that is named.
    #[test]
    fn no_loss_lies_in_the_time_that_is_called_unbroken(steps in steps()) {
        let mut liveness = Liveness::new(EVERY, true);
        let (mut now, mut number, mut is_open) = (at(1000), 0_u64, true);
        let mut under_way: Vec<u64> = Vec::new();
        // The begins of the writes that never come back, and the times at which the connection changed.
        let mut lost: Vec<Timestamp> = Vec::new();
        let mut begins = std::collections::HashMap::new();
        let mut breaks: Vec<Timestamp> = Vec::new();
        for step in steps {
            match step {
                Step::Wait(secs) => now = now.plus(Duration::from_secs(secs)),
                Step::Write => {
                    number += 1;
                    begins.insert(number, now);
                    liveness.written(now, etag(number), now);
                    under_way.push(number);
                }
                Step::Deliver if is_open => {
                    for number in under_way.drain(..) {
                        liveness.seen(etag(number), now);
                    }
                }
                Step::Deliver | Step::Lose => {
                    lost.extend(under_way.drain(..).map(|number| begins[&number]));
                }
                Step::Disconnect => {
                    is_open = false;
                    breaks.push(now);
                    liveness.disconnected(now);
                }
                Step::Connect => {
                    is_open = true;
                    breaks.push(now);
                    liveness.connected(now);
                }
            }
            liveness.tick(now);
            prop_assert!(liveness.waiting.len() <= MAX_WAITING);
            let Some(since) = liveness.unbroken_since() else { continue };
            prop_assert!(since <= now && is_open);
            for begin in &lost {
                let is_known = now.since(*begin) > EVERY;
                prop_assert!(!is_known || *begin < since, "lost {begin:?} since {since:?} now {now:?}");
            }
            for change in &breaks {
                prop_assert!(*change <= since, "break {change:?} since {since:?}");
            }
        }
    }
}
