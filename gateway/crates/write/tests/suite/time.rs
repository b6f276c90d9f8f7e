//! The time of a version that was written here never moves, however it is asked for; `ctime` never goes back. The
//! bucket's clock is decades from ours, and ours jumps.
//!
//! Everything is drawn from a seed; a failure names it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_engine::names::{Facts, NameKind};
use tidegate_engine::{Clock, OpenOptions};
use tidegate_plan::Timestamp;
use tidegate_write::OpenMode;
use tidegate_write::Writer;
use tokio::time::Instant;

use crate::support::draw::Draw;
use crate::support::engine::{self, valid};
use crate::support::spool::{Desk, Terms, copy_of, down, put, source};

/// The last answers to programs about a key.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    there: bool,
    modified: Option<Timestamp>,
    changed: Option<Timestamp>,
}

struct Model {
    desk: Desk,
    draw: Draw,
    /// The setting of our clock when the test begins.
    base: Arc<AtomicU64>,
    clock: Clock,
    told: BTreeMap<String, Told>,
    /// A counter, so that no two versions have the same bytes.
    version: u64,
}

/// Returns a clock that can be set.
fn clock(base: &Arc<AtomicU64>) -> Clock {
    let (base, start) = (base.clone(), Instant::now());
    Arc::new(move || Timestamp(base.load(Ordering::Relaxed)).plus(start.elapsed()))
}

impl Model {
    async fn new(seed: u64) -> Self {
        let base = Arc::new(AtomicU64::new(1_700_000_000_123));
        let clock = clock(&base);
        let desk = restarted(Desk::plain(), &clock).await;
        Self {
            desk,
            draw: Draw::new(seed),
            base,
            clock,
            told: BTreeMap::new(),
            version: 0,
        }
    }

    fn key(&mut self) -> String {
        format!("folder/{}", self.draw.below(4))
    }

    /// Draws one of the keys with an object.
    fn there(&mut self) -> Option<String> {
        let there = self.told.iter().filter(|(_, told)| told.there);
        let keys: Vec<_> = there.map(|(key, _)| key.clone()).collect();
        let at = self.draw.below(keys.len().max(1) as u64);
        keys.get(usize::try_from(at).expect("few")).cloned()
    }

    /// Looks a name up, as a mount does before anything else.
    async fn look(&self, key: &str, headers: bool) -> NameKind {
        let engine = &self.desk.world.engine;
        let found = engine.look_up(source(&self.desk), key, headers).await;
        found.expect("an answer").entry
    }

    /// Compares a result with the earlier answers.
    fn hold(&mut self, key: &str, way: &str, facts: &Facts) {
        let told = self.told.get_mut(key).expect("it is there");
        assert_eq!(facts.modified, told.modified, "{key}, {way}");
        assert!(facts.changed >= told.changed, "{key}, {way}: ctime");
        assert!(facts.changed >= facts.modified, "{key}, {way}");
        told.changed = facts.changed;
    }

    /// Writes another version of a key through the desk.
    async fn write(&mut self, key: &str, how: OpenMode) {
        let _ = self.look(key, false).await;
        let writer = self.desk.open(key, how).await.expect("opened");
        let before = self.told.get(key).copied().unwrap_or_default();
        if how == OpenMode::Change {
            self.hold_draft(key, &writer);
        }
        self.version += 1;
        let text = format!("version {}", self.version);
        put(&writer, 0, &text.into()).await;
        let seen = writer.snapshot();
        let times = (seen.modified, before.changed);
        assert!(Some(times.0) > times.1, "{key}: {times:?}");
        writer.commit(self.desk.commit).await.expect("committed");
        let told = Told {
            there: true,
            modified: Some(seen.modified),
            changed: Some(seen.changed),
        };
        self.told.insert(key.to_owned(), told);
        self.hold_draft(key, &writer);
    }

    /// Checks that an open handle shows the same time as every other way.
    fn hold_draft(&self, key: &str, writer: &Writer) {
        let (seen, told) = (writer.snapshot(), self.told[key]);
        assert_eq!(Some(seen.modified), told.modified, "{key}, draft");
        assert!(Some(seen.changed) >= told.changed, "{key}, draft");
    }

    async fn rename(&mut self, from: &str, to: &str) {
        let writers = &self.desk.writers;
        let (old, new) = (valid(from), valid(to));
        let renamed = writers.rename(source(&self.desk), &old, &new).await;
        renamed.expect("renamed");
        if from == to {
            return;
        }
        let moved = self.told.get_mut(from).expect("it was there");
        moved.there = false;
        let moved = *moved;
        let over = self.told.get(to).copied().unwrap_or_default();
        let told = Told {
            there: true,
            modified: moved.modified,
            changed: moved.changed.max(over.changed),
        };
        self.told.insert(to.to_owned(), told);
    }

    async fn remove(&mut self, key: &str) {
        // The kernel removes only names that it has looked up.
        let _ = self.look(key, false).await;
        let (source, key_of) = (source(&self.desk), valid(key));
        let removed = self.desk.writers.remove(source, &key_of).await;
        removed.expect("removed");
        self.told.get_mut(key).expect("it was there").there = false;
    }

    /// Writes another version of a key past us: it has the bucket's time.
    async fn write_elsewhere(&mut self, key: &str) {
        self.version += 1;
        let bucket = self.desk.bucket();
        let stored = bucket.put(key, format!("elsewhere {}", self.version));
        self.desk.world.purge(key).await;
        let told = self.told.entry(key.to_owned()).or_default();
        told.there = true;
        told.modified = stored.last_modified;
    }

    async fn list(&mut self) {
        let engine = &self.desk.world.engine;
        let page = engine.list(source(&self.desk), "folder/", None).await;
        for (name, entry) in page.expect("listed").names {
            let NameKind::File(facts) = entry else {
                panic!("no folder is in it");
            };
            self.hold(&format!("folder/{name}"), "listing", &facts);
        }
    }

    async fn ask(&mut self, way: u64, key: &str) {
        match way {
            0 | 1 => match self.look(key, way == 1).await {
                NameKind::File(facts) => self.hold(key, "look-up", &facts),
                other => panic!("{key}: {other:?}"),
            },
            2 => {
                let object = self.desk.world.get(key).await.expect("opened");
                self.hold(key, "GET", &object.facts());
            }
            3 => {
                let object = self.desk.world.open(key, OpenOptions::default()).await;
                self.hold(key, "HEAD", &object.expect("opened").facts());
            }
            4 => {
                let writer = self.desk.change(key).await;
                self.hold_draft(key, &writer);
            }
            _ => self.list().await,
        }
    }

    async fn step(mut self) -> Self {
        match self.draw.below(16) {
            0 | 1 => {
                let key = self.key();
                self.write(&key, OpenMode::Create).await;
            }
            2 => {
                if let Some(key) = self.there() {
                    self.write(&key, OpenMode::Change).await;
                }
            }
            3 => {
                let to = self.key();
                if let Some(from) = self.there() {
                    for key in [&from, &to] {
                        let _ = self.look(key, false).await;
                    }
                    self.rename(&from, &to).await;
                }
            }
            4 => {
                if let Some(key) = self.there() {
                    self.remove(&key).await;
                }
            }
            5 => {
                let key = self.key();
                self.write_elsewhere(&key).await;
            }
            // The cached knowledge of it is evicted.
            6 => {
                if let Some(key) = self.there() {
                    self.desk.world.purge(&key).await;
                }
            }
            7 => engine::pass(Duration::from_millis(self.draw.below(100_000))).await,
            8 => self.desk = restarted(self.desk, &self.clock).await,
            9 => {
                let hour = 3_600_000;
                let ours = [0, hour, 1_700_000_000_123 - hour, 1_700_000_000_123];
                let at = usize::try_from(self.draw.below(4)).expect("small");
                self.base.store(ours[at], Ordering::Relaxed);
            }
            _ => {
                let way = self.draw.below(6);
                if let Some(key) = self.there() {
                    self.ask(way, &key).await;
                }
            }
        }
        self
    }
}

/// Ends the process, and starts the next one with its spool.
async fn restarted(desk: Desk, clock: &Clock) -> Desk {
    let copy = copy_of(&desk.spool);
    let mut world = desk.world.clone();
    desk.world.engine.close(engine::secs(5)).await;
    world.restart(clock.clone());
    Desk::over(world, copy, &Terms::default())
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_version_never_moves() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut model = Model::new(seed).await;
        for _ in 0..60 {
            model = model.step().await;
        }
        let there: Vec<_> = model.told.iter().filter(|(_, told)| told.there).collect();
        let keys: Vec<_> = there.into_iter().map(|(key, _)| key.clone()).collect();
        for key in keys {
            for way in 0..6 {
                model.ask(way, &key).await;
            }
        }
    }
}

/// `close` has returned, and the bucket is down: `stat` shows the same from then on.
#[tokio::test(start_paused = true)]
async fn what_waits_for_the_bucket_keeps_its_time_over_a_restart() {
    let terms = Terms::background();
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    let writer = desk.create("folder/a").await;
    put(&writer, 0, &"bytes".into()).await;
    writer.commit(desk.commit).await.expect("durable");
    let told = writer.snapshot().modified;
    engine::pass(Duration::from_secs(30)).await;
    let again = desk.switched_off([writer], &terms).await;
    let waiting = again.writers.snapshot(source(&again), &valid("folder/a"));
    assert_eq!(waiting.expect("it waits").modified, told);
    engine::pass(Duration::from_secs(300)).await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    let listed = again.world.engine.list(source(&again), "folder/", None);
    let (_, entry) = listed.await.expect("listed").names.remove(0);
    assert!(matches!(entry, NameKind::File(facts) if facts.modified == Some(told)));
}

/// The same bytes, and so the same ETag, put past the spool are another write.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_and_put_again_elsewhere_has_the_buckets_time() {
    let desk = Desk::plain();
    desk.write("folder/a", &"bytes".into()).await;
    let key = valid("folder/a");
    let removed = desk.writers.remove(source(&desk), &key).await;
    removed.expect("removed");
    let stored = desk.bucket().put("folder/a", "bytes");
    desk.world.purge("folder/a").await;
    let object = desk.world.get("folder/a").await.expect("there");
    assert_eq!(object.facts().modified, stored.last_modified);
    assert!(object.facts().changed > stored.last_modified);
}
