//! Purges against the simplest model of them: a list that is searched from end to end.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use tidegate_plan::ObjectKey;

fn id(origin: u64, key: &str) -> ObjectId {
    ObjectId {
        origin: OriginId(origin),
        key: ObjectKey::new(key).expect("a valid key"),
    }
}

#[derive(Debug, Clone)]
enum Op {
    Key(u64, String),
    Prefix(u64, String),
    Everything,
    Reload,
}

impl Op {
    fn covers(&self, origin: u64, key: &str) -> bool {
        match self {
            Self::Key(o, k) => (*o, k.as_str()) == (origin, key),
            Self::Prefix(o, p) => *o == origin && key.starts_with(p.as_str()),
            Self::Everything => true,
            Self::Reload => false,
        }
    }
}

fn ops(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let key = "[ab/ü]{1,4}";
    let prefix = "[ab/ü]{0,4}";
    let op = prop_oneof![
        4 => (0u64..2, key).prop_map(|(o, k)| Op::Key(o, k)),
        8 => (0u64..2, prefix).prop_map(|(o, p)| Op::Prefix(o, p)),
        1 => Just(Op::Everything),
        1 => Just(Op::Reload),
    ];
    proptest::collection::vec(op, 0..most)
}

/// Applies edits to stored rows as the database does.
fn apply(rows: &mut BTreeMap<Vec<u8>, u64>, edits: Vec<PurgeEdit>) {
    for edit in edits {
        match edit {
            PurgeEdit::Clear => rows.clear(),
            PurgeEdit::Set(row, number) => drop(rows.insert(row, number)),
            PurgeEdit::Remove(row) => drop(rows.remove(&row)),
        }
    }
}

/// The purges, their stored rows, and the list of all purges ever made.
struct Pair {
    purges: Purges,
    rows: BTreeMap<Vec<u8>, u64>,
    model: Vec<(Op, u64)>,
}

impl Pair {
    fn new(limits: PurgeLimits) -> Self {
        Self {
            purges: Purges::with_limits(limits),
            rows: BTreeMap::new(),
            model: Vec::new(),
        }
    }

    fn carry_out(&mut self, op: Op) {
        let edits = match &op {
            Op::Key(origin, key) => self.purges.purge_key(&id(*origin, key), 0),
            Op::Prefix(origin, prefix) => self.purges.purge_prefix(OriginId(*origin), prefix, 0),
            Op::Everything => self.purges.purge_everything(0),
            Op::Reload => {
                let last = self.purges.last();
                self.purges = Purges::with_limits(self.purges.limits);
                for (row, number) in &self.rows {
                    self.purges.restore(row, *number).expect("a row of ours");
                }
                assert_eq!(self.purges.last(), last);
                Vec::new()
            }
        };
        apply(&mut self.rows, edits);
        self.model.push((op, self.purges.last()));
        let rows: BTreeMap<_, _> = self.purges.rows().into_iter().collect();
        assert_eq!(rows, self.rows);
        assert_eq!(
            self.purges.prefixes.len(),
            self.purges.prefixes.rows().count()
        );
    }

    /// Returns the number of the last purge that covers a key.
    fn expected(&self, origin: u64, key: &str) -> u64 {
        let covering = self.model.iter().filter(|(op, _)| op.covers(origin, key));
        covering.map(|(_, number)| *number).max().unwrap_or(0)
    }
}

/// Levels that are full after a few purges.
const TINY: PurgeLimits = PurgeLimits {
    keys: 3,
    groups: (12, 4),
    coarse: 6,
    prefixes: 6,
};

proptest! {
    #[test]
    fn generation_is_the_last_purge_that_covers(
        ops in ops(24),
        probes in proptest::collection::vec((0u64..2, "[ab/ü]{1,5}"), 8),
    ) {
        let mut pair = Pair::new(PURGE_LIMITS);
        ops.into_iter().for_each(|op| pair.carry_out(op));
        for (origin, key) in probes {
            prop_assert_eq!(pair.purges.generation(&id(origin, &key)), pair.expected(origin, &key));
        }
    }

    /// However many purges there are: a purged key is never found, no generation returns, and the
    /// stored rows are bounded.
    #[test]
    fn a_purged_key_stays_purged_when_purges_are_merged(
        ops in ops(80),
        probes in proptest::collection::vec((0u64..2, "[ab/ü]{1,5}"), 8),
    ) {
        let mut pair = Pair::new(TINY);
        let mut before = vec![0; probes.len()];
        for op in ops {
            pair.carry_out(op);
            for ((origin, key), before) in probes.iter().zip(&mut before) {
                let generation = pair.purges.generation(&id(*origin, key));
                prop_assert!(generation >= pair.expected(*origin, key), "{key}");
                prop_assert!(generation >= *before, "{key}");
                prop_assert!(generation <= pair.purges.last());
                *before = generation;
            }
            prop_assert!(pair.rows.len() <= 3 + 4 + 64 + 6 + 1);
        }
    }
}

#[test]
fn numbers_grow_whatever_the_clock_does() {
    let mut purges = Purges::default();
    purges.purge_key(&id(1, "a"), 100);
    purges.purge_key(&id(1, "a"), 50);
    assert_eq!(purges.generation(&id(1, "a")), 101);
}

/// Returns the share of objects that were never purged, but whose chunks cannot be found any more.
fn lost(purges: &Purges) -> f64 {
    let probes = 100_000;
    let hidden = (0..probes).filter(|n| purges.generation(&id(1, &format!("other/{n}"))) > 0);
    hidden.count() as f64 / f64::from(probes)
}

#[test]
fn a_million_purges_cost_next_to_nothing_and_further_ones_little_by_little() {
    let mut purges = Purges::default();
    let key = |n: u32| id(1, &format!("purged/{n}"));
    let mut rows = 0_i64;
    let mut purge = |purges: &mut Purges, numbers: std::ops::Range<u32>| {
        for n in numbers {
            for edit in purges.purge_key(&key(n), 0) {
                rows += match edit {
                    PurgeEdit::Set(..) => 1,
                    PurgeEdit::Remove(_) => -1,
                    PurgeEdit::Clear => panic!("everything is purged"),
                };
            }
        }
    };
    purge(&mut purges, 0..1_000_000);
    let lost_by_a_million = lost(&purges);
    assert!(lost_by_a_million <= 0.001, "{lost_by_a_million}");
    purge(&mut purges, 1_000_000..1_300_000);
    let further = lost(&purges);
    // 200,000 of them have moved on to the last level: one in 2^21 each.
    assert!(further <= 0.11, "{further}");
    for n in (0..1_300_000).step_by(997) {
        assert!(purges.generation(&key(n)) > u64::from(n), "{n}");
    }
    assert!(rows <= 1_300_000, "{rows}");
    println!("{lost_by_a_million} and {further} of other objects are hidden; {rows} rows");
}

/// If each took a walk over the others, this would be 800 million steps.
#[test]
fn forty_thousand_prefixes_of_one_folder_give_way_in_one_walk() {
    let mut purges = Purges::with_limits(PurgeLimits {
        prefixes: 40_000,
        ..PURGE_LIMITS
    });
    let mut edits = Vec::new();
    for n in 0..=40_000 {
        edits = purges.purge_prefix(OriginId(1), &format!("a/{n}/"), 0);
    }
    assert_eq!(purges.prefixes.len(), 1);
    let is_set = |edit: &&PurgeEdit| matches!(edit, PurgeEdit::Set(..));
    assert_eq!(
        edits.iter().filter(is_set).count(),
        2,
        "the last, and the folder"
    );
    assert_eq!(edits.len(), 40_003);
}

/// Folders of many objects each, one purge a folder: the deepest are replaced first.
#[test]
fn too_many_prefixes_give_way_to_their_folders() {
    let mut purges = Purges::with_limits(PurgeLimits {
        prefixes: 100,
        ..PURGE_LIMITS
    });
    let prefix = |n: usize| format!("a/{}/{}/", n % 7, n);
    for n in 0..101 {
        purges.purge_prefix(OriginId(1), &prefix(n), 0);
    }
    assert_eq!(purges.prefixes.len(), 7, "the folders of all of them");
    for n in 0..101 {
        assert!(purges.generation(&id(1, &format!("{}x", prefix(n)))) > n as u64);
    }
    for other in ["a/x", "a/8/x", "b/1/x"] {
        assert_eq!(purges.generation(&id(1, other)), 0, "{other}");
    }
    assert_eq!(purges.generation(&id(2, "a/1/1/x")), 0);
}
