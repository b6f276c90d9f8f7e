//! The store beside a simple model of it.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use tidegate_cache::{Entry, MetaStore, PurgeEffect, PurgeScope};
use tidegate_plan::Timestamp;

use super::fixture::{ORIGIN, flush, id, open, put_tagged, record, settings, tag};

#[derive(Debug, Clone)]
enum Op {
    Put(u8, u64),
    /// A put of an entry that was read before the last purge.
    Late(u8),
    Missing(u8),
    Remove(u8),
    PurgeKey(u8),
    PurgePrefix(u8),
    /// A soft purge of a key, at the present time or the time of its last confirmation.
    SoftenKey(u8),
    SoftenPrefix(u8),
    PurgeTag(u8),
    SoftenTag(u8),
    Restart,
    /// Right behind a purge, nothing but its answer has been waited for.
    Kill,
}

const KEYS: [&str; 6] = ["a", "a/b", "a/bc", "a/c", "b", "b/x"];
const PREFIXES: [&str; 5] = ["", "a", "a/b", "b/", "z"];

/// The tags of the versions with these numbers.
const TAGS: [&str; 4] = ["red", "blue,red", "", "blue"];

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0..u8::try_from(KEYS.len()).expect("few");
    let prefix = 0..u8::try_from(PREFIXES.len()).expect("few");
    let tag = any::<bool>().prop_map(u8::from);
    let op = prop_oneof![
        8 => (key.clone(), 0u64..4).prop_map(|(k, tag)| Op::Put(k, tag)),
        2 => key.clone().prop_map(Op::Late),
        1 => key.clone().prop_map(Op::Missing),
        1 => key.clone().prop_map(Op::Remove),
        2 => key.clone().prop_map(Op::PurgeKey),
        2 => prefix.clone().prop_map(Op::PurgePrefix),
        2 => key.prop_map(Op::SoftenKey),
        2 => prefix.prop_map(Op::SoftenPrefix),
        2 => tag.clone().prop_map(Op::PurgeTag),
        2 => tag.prop_map(Op::SoftenTag),
        1 => Just(Op::Restart),
        3 => Just(Op::Kill),
    ];
    proptest::collection::vec(op, 1..40)
}

/// The entries of each key, by the plainest means.
#[derive(Debug, Default)]
struct Model {
    entries: HashMap<&'static str, Entry>,
    generations: HashMap<&'static str, u64>,
    /// The generation of a key that no purge covers.
    floor: u64,
    softened: HashMap<&'static str, Timestamp>,
}

impl Op {
    /// Returns whether its answer says that it is durable, with all before it.
    fn is_durable(&self) -> bool {
        let waits = matches!(
            self,
            Self::Put(..) | Self::Late(_) | Self::Missing(_) | Self::Remove(_)
        );
        !waits
    }
}

/// Returns whether this entry is of a version that has the tag.
fn has_tag(entry: &Entry, tag: &str) -> bool {
    let Entry::Present(record) = entry else {
        return false;
    };
    let number = record.version.size - 1000;
    let number = usize::try_from(number).expect("small");
    TAGS[number].split(',').any(|own| own == tag)
}

impl Model {
    /// Notes a soft purge of a tag.
    fn soften_tag(&mut self, at: Timestamp, tag: &str) {
        for (key, entry) in &self.entries {
            if has_tag(entry, tag) {
                self.softened.insert(*key, at);
            }
        }
    }

    /// Notes a purge of a tag, after which the records from before it are put once more.
    fn purge_tag(&mut self, store: &dyn MetaStore, tag: &str) {
        for key in KEYS {
            if let Some(entry) = self.entries.get(key)
                && has_tag(entry, tag)
            {
                store.put(&id(key), entry.clone());
                self.entries.remove(key);
            }
        }
    }

    /// Notes a soft purge, which forgets negative entries.
    fn soften(&mut self, at: Timestamp, covers: impl Fn(&str) -> bool) {
        for key in KEYS.into_iter().filter(|key| covers(key)) {
            self.softened.insert(key, at);
            if let Some(Entry::Missing { .. }) = self.entries.get(key) {
                self.entries.remove(key);
            }
        }
    }

    async fn purged(&mut self, store: &dyn MetaStore, covers: impl Fn(&str) -> bool) {
        for key in KEYS.into_iter().filter(|key| covers(key)) {
            self.entries.remove(key);
            let generation = store.generation(&id(key)).await;
            let before = self.generations.insert(key, generation).unwrap_or(0);
            assert!(generation > before, "{key}");
        }
    }

    /// Drops negative entries, which do not outlive the process.
    fn forget_missing(&mut self) {
        self.entries
            .retain(|_, entry| matches!(entry, Entry::Present(_)));
    }

    async fn compare(&self, store: &dyn MetaStore) {
        for key in KEYS {
            let found = store.load(&id(key)).await;
            let expected = self.entries.get(key);
            // The store may forget negative entries at any time.
            if found.is_some() || !matches!(expected, Some(Entry::Missing { .. })) {
                assert_eq!(found.as_ref(), expected, "{key}");
            }
            if let Some(Entry::Present(record)) = &found {
                let expected = self.softened.get(key).copied();
                let expected = expected.filter(|at| *at >= record.confirmed);
                assert_eq!(store.softened(&id(key), record), expected, "{key}");
            }
            let generation = self.generations.get(key).copied().unwrap_or(self.floor);
            assert_eq!(store.generation(&id(key)).await, generation, "{key}");
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one step for each kind of operation")]
async fn run(ops: Vec<Op>, front: u64) {
    let dir = TempDir::new().expect("a directory");
    let mut settings = settings(Some(dir.path()));
    settings.meta_memory = front;
    let mut store = open(&settings);
    let mut model = Model {
        floor: store.generation(&id("a")).await,
        ..Model::default()
    };
    let mut confirmed = 0;
    // Whether all that was put is durable.
    let mut is_durable = false;
    for op in ops {
        confirmed += 400_000;
        let was_durable = std::mem::replace(&mut is_durable, op.is_durable());
        match op {
            Op::Put(key, number) => {
                let key = KEYS[usize::from(key)];
                let tags = TAGS[usize::try_from(number).expect("small")];
                let record = put_tagged(&store, key, (number, tags), confirmed).await;
                model.entries.insert(key, Entry::Present(Arc::new(record)));
            }
            Op::Late(key) => {
                let key = KEYS[usize::from(key)];
                if model.generations.contains_key(key) {
                    let late = record(&id(key), 9, 0, confirmed);
                    store.put(&id(key), Entry::Present(Arc::new(late)));
                }
            }
            Op::Missing(key) => {
                let key = KEYS[usize::from(key)];
                let since = Timestamp(confirmed);
                store.put(&id(key), Entry::Missing { since });
                model.entries.insert(key, Entry::Missing { since });
            }
            Op::Remove(key) => {
                let key = KEYS[usize::from(key)];
                store.remove(&id(key));
                model.entries.remove(key);
            }
            Op::PurgeKey(key) => {
                let key = KEYS[usize::from(key)];
                store.purge_key(&id(key)).await.expect("durable");
                model.purged(&store, |other| other == key).await;
            }
            Op::PurgePrefix(prefix) => {
                let prefix = PREFIXES[usize::from(prefix)];
                store.purge_prefix(ORIGIN, prefix).await.expect("durable");
                model.purged(&store, |key| key.starts_with(prefix)).await;
            }
            Op::SoftenKey(key) => {
                let (key, at) = (KEYS[usize::from(key)], Timestamp(confirmed));
                let id = id(key);
                let purge = store.purge(PurgeScope::Key(&id), PurgeEffect::Soften(at));
                purge.await.expect("durable");
                model.soften(at, |other| other == key);
            }
            Op::SoftenPrefix(prefix) => {
                let (prefix, at) = (PREFIXES[usize::from(prefix)], Timestamp(confirmed));
                let scope = PurgeScope::Prefix(ORIGIN, prefix);
                let purge = store.purge(scope, PurgeEffect::Soften(at));
                purge.await.expect("durable");
                model.soften(at, |key| key.starts_with(prefix));
            }
            Op::PurgeTag(name) => {
                let name = ["red", "blue"][usize::from(name)];
                let tag = tag(name);
                let purge = store.purge(PurgeScope::Tag(ORIGIN, &tag), PurgeEffect::Remove);
                purge.await.expect("durable");
                model.purge_tag(&store, name);
            }
            Op::SoftenTag(name) => {
                let name = ["red", "blue"][usize::from(name)];
                let (tag, at) = (tag(name), Timestamp(confirmed));
                let purge = store.purge(PurgeScope::Tag(ORIGIN, &tag), PurgeEffect::Soften(at));
                purge.await.expect("durable");
                model.soften_tag(at, name);
            }
            Op::Restart => {
                store.close().await;
                drop(store);
                store = open(&settings);
                model.forget_missing();
            }
            Op::Kill => {
                if !was_durable {
                    flush(&store).await;
                }
                drop(store);
                store = open(&settings);
                model.forget_missing();
                for entry in model.entries.values_mut() {
                    if let Entry::Present(record) = entry {
                        Arc::make_mut(record).must_confirm = true;
                    }
                }
            }
        }
        model.compare(&store).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_store_does_what_a_simple_model_does(ops in ops(), small: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(run(ops, if small { 1 } else { 4 << 20 }));
    }
}
