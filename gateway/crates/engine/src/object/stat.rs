//! The cached state of an object: its version, how fresh that is, and which bytes are in which tier.
//!
//! Looking at it sends no request to an origin, and counts as no use.

use std::sync::Arc;
use std::time::Duration;

use crate::{Engine, ReadContext};
use tidegate_cache::{ChunkKey, ChunkTiers, Entry, Record};
use tidegate_plan::freshness::Freshness;
use tidegate_plan::{ByteRange, ObjectKey, Version};

/// The maximum number of listed runs: an object of which every other chunk is cached has as many runs as chunks.
const MAX_RUNS: usize = 10_000;

/// The maximum number of chunks looked at: 64 GiB at the default size. An object of 5 TiB has 20 million, and a caller
/// may ask for many objects.
const MAX_CHUNKS: u32 = 1 << 18;

/// The known state of a key.
#[derive(Debug, Clone)]
pub enum Stat {
    /// The origin said that there is no such object.
    Missing {
        /// The time since then.
        age: Duration,
        /// The time for which this stays valid.
        left: Duration,
    },
    /// The key has a version.
    Present(Box<VersionStat>),
}

/// A known version, and its cached bytes.
#[derive(Debug, Clone)]
pub struct VersionStat {
    /// The version.
    pub version: Arc<Version>,
    /// The time since the origin last confirmed it.
    pub age: Duration,
    /// The version's freshness.
    pub freshness: Freshness,
    /// The whole object in runs of bytes in the same tiers, in order; only the first ones if there are very many.
    pub runs: Vec<Run>,
    /// The number of runs left out.
    pub left_off: usize,
    /// Bytes in memory.
    pub in_memory: u64,
    /// Bytes on disk; some of them may be in memory as well.
    pub on_disk: u64,
    /// Bytes in no tier.
    pub absent: u64,
    /// Bytes on disk that a pin keeps from eviction.
    pub pinned: u64,
    /// Bytes at the end of a very large object that were not looked at; no other sum has them.
    pub unseen: u64,
}

/// A run of bytes in the same tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The range of the bytes.
    pub range: ByteRange,
    /// The tiers that hold them.
    pub held: ChunkTiers,
}

impl Engine {
    /// Returns the cached state of `key`, or `None` if nothing is known of it. Concurrent requests may change the tiers
    /// before the caller uses the result.
    pub async fn stat(&self, source: &ReadContext, key: &ObjectKey) -> Option<Stat> {
        let id = source.object(key);
        let entry = self.core.meta.load(&id).await?;
        let now = self.core.now();
        match entry {
            Entry::Missing { since } => {
                let left = source.missing_left(since, now)?;
                let age = now.since(source.confirmed(since, now));
                Some(Stat::Missing { age, left })
            }
            Entry::Present(record) => {
                let judged = self.core.judge(source, &id, &record, now);
                let counted_age = judged.counted_age;
                let freshness = Freshness::new(&judged.policy, counted_age, judged.must_confirm);
                Some(Stat::Present(Box::new(
                    self.locate_all(&record, judged.age, freshness).await,
                )))
            }
        }
    }

    async fn locate_all(
        &self,
        record: &Record,
        age: Duration,
        freshness: Freshness,
    ) -> VersionStat {
        let size = record.version.size;
        let mut present = VersionStat {
            version: record.version.clone(),
            age,
            freshness,
            runs: Vec::new(),
            left_off: 0,
            in_memory: 0,
            on_disk: 0,
            absent: 0,
            pinned: 0,
            unseen: 0,
        };
        let mut seen = 0;
        let mut run: Option<Run> = None;
        let visit = |index| {
            if index == MAX_CHUNKS {
                return false;
            }
            let held = self.core.chunks.tiers_of(&ChunkKey {
                version: record.id,
                index,
            });
            let range = self.core.geometry.bytes(index, size);
            seen = range.end;
            match &mut run {
                Some(run) if run.held == held => run.range.end = range.end,
                _ => present.add(run.replace(Run { range, held })),
            }
            true
        };
        self.core.each_chunk(size, visit).await;
        present.add(run);
        present.unseen = size - seen;
        present
    }

    /// Checks that the cache is loaded, also if a disk has kept it from that for so long that the engine is ready without
    /// it. Before that, bytes that are not found may still exist.
    ///
    /// # Errors
    /// A text that says which part of the cache is not loaded yet.
    pub fn loaded(&self) -> Result<(), String> {
        self.core.chunks.check_loaded()
    }
}

impl VersionStat {
    fn add(&mut self, run: Option<Run>) {
        let Some(run) = run else { return };
        let len = run.range.len();
        if run.held.memory {
            self.in_memory += len;
        }
        if run.held.disk {
            self.on_disk += len;
        }
        if run.held.pinned {
            self.pinned += len;
        }
        if !run.held.memory && !run.held.disk {
            self.absent += len;
        }
        if self.runs.len() < MAX_RUNS {
            self.runs.push(run);
        } else {
            self.left_off += 1;
        }
    }
}
