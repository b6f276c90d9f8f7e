//! All purges against the simplest model of them: the list of every purge that was ever made.

use std::collections::BTreeMap;

use http::HeaderValue;
use proptest::prelude::*;

use super::*;
use tidegate_plan::{ETag, ObjectKey};

const KEYS: [&str; 4] = ["a", "a/b", "a/c", "b"];
const PREFIXES: [&str; 4] = ["", "a", "a/", "z"];
const TAGS: [&str; 3] = ["x", "y", "z"];
/// The tags of each key's version, in the order of [`KEYS`].
const TAGGED: [&str; 4] = ["x", "x y", "", "y,z"];

fn id(origin: u64, key: &str) -> ObjectId {
    ObjectId {
        origin: OriginId(origin),
        key: ObjectKey::new(key).expect("a valid key"),
    }
}

fn version(tags: &str) -> Version {
    let header = HeaderName::from_static(DEFAULT_TAGS_HEADER);
    Version {
        etag: ETag::parse("\"1\"").expect("an ETag"),
        size: 1,
        last_modified: None,
        version_id: None,
        headers: vec![(header, HeaderValue::from_str(tags).expect("a value"))],
    }
}

#[derive(Debug, Clone, Copy)]
enum Scope {
    Key(usize),
    Prefix(usize),
    Tag(usize),
}

impl Scope {
    fn covers(self, key: usize) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => KEYS[key].starts_with(PREFIXES[prefix]),
            Self::Tag(tag) => TAGGED[key].contains(TAGS[tag]),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Hard(u64, Scope),
    Soft(u64, Scope),
    Pass,
    Reload,
    Everything,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let scope = prop_oneof![
        (0..KEYS.len()).prop_map(Scope::Key),
        (0..PREFIXES.len()).prop_map(Scope::Prefix),
        (0..TAGS.len()).prop_map(Scope::Tag),
    ];
    let op = prop_oneof![
        4 => (0u64..2, scope.clone()).prop_map(|(origin, scope)| Op::Hard(origin, scope)),
        4 => (0u64..2, scope).prop_map(|(origin, scope)| Op::Soft(origin, scope)),
        2 => Just(Op::Pass),
        2 => Just(Op::Reload),
        1 => Just(Op::Everything),
    ];
    proptest::collection::vec(op, 0..60)
}

/// The purges, their stored rows, and what the list of purges says of each key.
struct Pair {
    set: PurgeSet,
    rows: BTreeMap<Vec<u8>, u64>,
    now: u64,
    generations: BTreeMap<(u64, usize), u64>,
    softened: BTreeMap<(u64, usize), u64>,
}

impl Pair {
    fn apply(&mut self, edits: Vec<PurgeEdit>) {
        for edit in edits {
            match edit {
                PurgeEdit::Clear => self.rows.clear(),
                PurgeEdit::Set(row, number) => drop(self.rows.insert(row, number)),
                PurgeEdit::Remove(row) => drop(self.rows.remove(&row)),
            }
        }
    }

    fn covered(origin: u64, scope: Scope) -> impl Iterator<Item = (u64, usize)> {
        let keys = (0..KEYS.len()).filter(move |key| scope.covers(*key));
        keys.map(move |key| (origin, key))
    }

    fn carry_out(&mut self, op: Op) {
        match op {
            Op::Hard(origin, scope) => {
                let of = OriginId(origin);
                let edits = match scope {
                    Scope::Key(key) => self.set.purge_key(&id(origin, KEYS[key]), 0),
                    Scope::Prefix(prefix) => self.set.purge_prefix(of, PREFIXES[prefix], 0),
                    Scope::Tag(tag) => {
                        let tag = Tag::new(TAGS[tag]).expect("a tag");
                        self.set.purge_tag(of, &tag, 0)
                    }
                };
                self.apply(edits);
                for key in Self::covered(origin, scope) {
                    let before = self.generations.get(&key).copied().unwrap_or(0);
                    let now = self.generation(key);
                    assert!(now > before, "{op:?} renews {key:?}");
                    self.generations.insert(key, now);
                }
            }
            Op::Soft(origin, scope) => {
                let (of, at) = (OriginId(origin), Timestamp(self.now));
                let edits = match scope {
                    Scope::Key(key) => self.set.soften_key(&id(origin, KEYS[key]), at),
                    Scope::Prefix(prefix) => self.set.soften_prefix(of, PREFIXES[prefix], at),
                    Scope::Tag(tag) => {
                        let tag = Tag::new(TAGS[tag]).expect("a tag");
                        self.set.soften_tag(of, &tag, at)
                    }
                };
                self.apply(edits);
                for key in Self::covered(origin, scope) {
                    self.softened.insert(key, self.now);
                }
            }
            Op::Pass => self.now += 10,
            Op::Reload => {
                self.set = PurgeSet::default();
                for (row, number) in &self.rows {
                    self.set.restore(row, *number).expect("a row of ours");
                }
            }
            Op::Everything => {
                let edits = self.set.purge_everything(0);
                self.apply(edits);
                for origin in 0..2 {
                    for key in 0..KEYS.len() {
                        let now = self.generation((origin, key));
                        let before = self.generations.insert((origin, key), now);
                        assert!(before.unwrap_or(0) < now);
                    }
                }
                self.softened.clear();
            }
        }
    }

    fn generation(&self, (origin, key): (u64, usize)) -> u64 {
        let version = version(TAGGED[key]);
        self.set
            .version_generation(&id(origin, KEYS[key]), &version)
    }

    fn compare(&self) {
        let rows: BTreeMap<_, _> = self.set.rows().into_iter().collect();
        assert_eq!(rows, self.rows);
        assert_eq!(rows.len(), self.set.len());
        for origin in 0..2 {
            for (number, key) in KEYS.iter().enumerate() {
                let at = (origin, number);
                let wanted = self.generations.get(&at).copied().unwrap_or(0);
                assert_eq!(self.generation(at), wanted, "{key} of {origin}");
                let version = version(TAGGED[number]);
                let softened = self.set.softened(&id(origin, key), Some(&version));
                let wanted = self.softened.get(&at).copied().unwrap_or(0);
                assert_eq!(softened, Timestamp(wanted), "{key} of {origin}");
            }
        }
        assert!(self.set.has_soft() || self.softened.is_empty());
    }
}

proptest! {
    #[test]
    fn purges_compose_in_any_order_and_survive_a_restart(ops in ops()) {
        let mut pair = Pair {
            set: PurgeSet::default(),
            rows: BTreeMap::new(),
            now: 1_000,
            generations: BTreeMap::new(),
            softened: BTreeMap::new(),
        };
        for op in ops {
            pair.carry_out(op);
            pair.compare();
        }
    }
}

#[test]
fn a_version_with_too_many_tags_is_covered_by_each() {
    let of = OriginId(1);
    let many: Vec<_> = (0..=MAX_TAGS).map(|tag| format!("t{tag}")).collect();
    let many = version(&many.join(" "));
    let mut set = PurgeSet::default();
    assert_eq!(set.tag_generation(of, &many), 0);
    set.purge_tag(of, &Tag::new("other").expect("a tag"), 7);
    assert_eq!(set.tag_generation(of, &many), 7);
    assert_eq!(set.tag_generation(of, &version("few")), 0);
}

#[test]
fn tags_beyond_the_limits_are_told_apart_less_and_never_lost() {
    let of = OriginId(1);
    let mut set = PurgeSet {
        tags: Purges::with_limits(super::super::PurgeLimits {
            keys: 4,
            groups: (8, 8),
            coarse: 2,
            prefixes: 1,
        }),
        ..PurgeSet::default()
    };
    let mut rows = BTreeMap::new();
    for number in 0..200 {
        let tag = Tag::new(&format!("t{number}")).expect("a tag");
        for edit in set.purge_tag(of, &tag, 0) {
            match edit {
                PurgeEdit::Set(row, number) => drop(rows.insert(row, number)),
                PurgeEdit::Remove(row) => drop(rows.remove(&row)),
                PurgeEdit::Clear => rows.clear(),
            }
        }
        assert!(rows.len() <= 4 + 8 + 4, "{} rows", rows.len());
        for before in 0..=number {
            let version = version(&format!("t{before}"));
            assert!(set.tag_generation(of, &version) > 0, "{before}");
        }
    }
}
