//! Operations, drawn at random.

use proptest::prelude::*;

use super::{Disk, How, KEYS, Op, Range, SMALL, Weather};
use crate::support::*;

fn key() -> impl Strategy<Value = usize> {
    0..KEYS.len()
}

fn range() -> impl Strategy<Value = Range> {
    prop_oneof![
        3 => Just(Range::All),
        1 => (0..256u64).prop_map(Range::From),
        1 => (0..256u64).prop_map(Range::Suffix),
        3 => (0..256u64, 0..256u64).prop_map(|(a, b)| Range::Bounded(a, b)),
    ]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(SMALL),
        Just(SMALL + 1),
        1..20 * SMALL,
        (MIB..MIB + 400 * KIB),
    ]
}

fn weather() -> impl Strategy<Value = Weather> {
    use Weather::*;
    prop::sample::select(vec![
        Fine, Fine, Fine, Fine, Slow, Slow, Truncates, Resets, Stalls, Throttles, Down, WrongTag,
        WrongRange, NoBucket, Careless,
    ])
}

fn how() -> impl Strategy<Value = How> {
    prop::sample::select(vec![
        How::Plain,
        How::Plain,
        How::Plain,
        How::Forced,
        How::OnlyIfCached,
        How::Head,
    ])
}

fn disk() -> impl Strategy<Value = Disk> {
    use Disk::*;
    prop::sample::select(vec![Well, Well, Slow, Loses, Refuses, AndMemoryRefuses])
}

fn during() -> impl Strategy<Value = Op> {
    let read = (0..2usize, range(), how());
    let other = prop_oneof![
        3 => (0..2usize, size()).prop_map(|(key, size)| Op::Write(key, size)),
        1 => (0..2usize).prop_map(Op::WriteBack),
        1 => (0..2usize).prop_map(Op::Delete),
        3 => (0..2usize).prop_map(Op::Purge),
        1 => Just(Op::PurgePrefix("a/")),
        2 => (0..2usize).prop_map(Op::Soften),
        1 => Just(Op::SoftenPrefix("a/")),
        1 => Just(Op::Evict),
        8 => prop::sample::select(vec![0, 1, 20, 100, 320, 1000]).prop_map(Op::Pass),
    ];
    let (reads, others) = (
        prop::collection::vec(read, 1..5),
        prop::collection::vec(other, 0..6),
    );
    (reads, others).prop_map(|(reads, others)| Op::During(reads, others))
}

pub(super) fn op(storms: bool) -> impl Strategy<Value = Op> {
    let calm = prop_oneof![
        8 => (key(), size()).prop_map(|(key, size)| Op::Write(key, size)),
        2 => key().prop_map(Op::WriteBack),
        1 => key().prop_map(Op::Mend),
        2 => key().prop_map(Op::Delete),
        14 => (key(), range(), how()).prop_map(|(key, range, how)| Op::Read(key, range, how)),
        8 => (key(), range(), 0..200_000u64).prop_map(|(key, range, n)| Op::Begin(key, range, n)),
        6 => (0..64usize, 0..100_000u64).prop_map(|(at, n)| Op::GoOn(at, n)),
        5 => (0..64usize).prop_map(Op::Finish),
        3 => (0..64usize).prop_map(Op::Leave),
        8 => during(),
        3 => key().prop_map(Op::Purge),
        2 => prop::sample::select(vec!["a/", "b", "", "a/one"]).prop_map(Op::PurgePrefix),
        3 => key().prop_map(Op::Soften),
        2 => prop::sample::select(vec!["a/", "b", "", "a/one"]).prop_map(Op::SoftenPrefix),
        1 => Just(Op::Restart),
        3 => Just(Op::Evict),
        2 => disk().prop_map(Op::Disk),
        6 => prop::sample::select(vec![1, 100, 2_000, 5_000, 11_000, 31_000, 61_000])
            .prop_map(Op::Pass),
    ];
    match storms {
        true => prop_oneof![6 => calm, 1 => weather().prop_map(Op::Origin)].boxed(),
        false => {
            let mild = prop::sample::select(vec![Weather::Fine, Weather::Slow, Weather::Careless]);
            prop_oneof![12 => calm, 1 => mild.prop_map(Op::Origin)].boxed()
        }
    }
}
