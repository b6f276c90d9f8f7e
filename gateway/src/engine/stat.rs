//! What is cached of an object: its version, how fresh that is, and which bytes are in which tier.
//!
//! Nothing is asked of any origin, and nothing counts as used by it.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Source};
use crate::plan::freshness::Policy;
use crate::plan::standing::Standing;
use crate::plan::{ByteRange, ObjectKey, Version};
use crate::store::{ChunkKey, Entry, Held, Record};

/// Runs that are listed at most: an object of which every other chunk is cached has as many as it has
/// chunks.
const LISTED: usize = 10_000;

/// Chunks that are looked at, at most: 64 GiB of the default size. An object of 5 TiB has 20 million, and
/// a caller may ask for many objects.
const MAX_CHUNKS: u32 = 1 << 18;

/// What is known of a key.
#[derive(Debug, Clone)]
pub enum Stat {
    /// The origin said that there is none.
    Missing {
        /// How long ago.
        age: Duration,
        /// For how long that is believed still.
        left: Duration,
    },
    /// It has a version.
    Present(Box<Present>),
}

/// A version that is known, and what is cached of it.
#[derive(Debug, Clone)]
pub struct Present {
    /// The version.
    pub version: Arc<Version>,
    /// Since the origin last confirmed it.
    pub age: Duration,
    /// How fresh it is.
    pub standing: Standing,
    /// The whole object in runs of bytes that lie in the same tiers, in order; the first ones where
    /// there are very many.
    pub runs: Vec<Run>,
    /// How many runs are left off.
    pub left_off: usize,
    /// Bytes in memory.
    pub in_memory: u64,
    /// Bytes on disk; some of them may be in memory as well.
    pub on_disk: u64,
    /// Bytes in no tier.
    pub absent: u64,
    /// Bytes on disk that a pin keeps from eviction.
    pub pinned: u64,
    /// Bytes at the end of a very large object that were not looked at; they are in none of the sums.
    pub unseen: u64,
}

/// Bytes that lie in the same tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Which.
    pub range: ByteRange,
    /// Where they are.
    pub held: Held,
}

impl Engine {
    /// What is cached of `key`, or `None` where nothing is known of it. What the tiers say may be
    /// out of date by the time it is read: other requests go on.
    pub async fn stat(&self, source: &Source, key: &ObjectKey) -> Option<Stat> {
        let id = source.object(key);
        let entry = self.core.meta.load(&id).await?;
        let now = self.core.now();
        match entry {
            Entry::Missing { since } => {
                let age = now.since(since);
                let left = source.profile.load().negative_ttl.checked_sub(age)?;
                Some(Stat::Missing { age, left })
            }
            Entry::Present(record) => {
                let policy = Policy::new(&record.version, &source.profile.load(), record.confirmed);
                let age = now.since(record.confirmed);
                let standing = Standing::new(&policy, age, record.must_confirm);
                Some(Stat::Present(Box::new(
                    self.located(&record, age, standing).await,
                )))
            }
        }
    }

    async fn located(&self, record: &Record, age: Duration, standing: Standing) -> Present {
        let size = record.version.size;
        let mut present = Present {
            version: record.version.clone(),
            age,
            standing,
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
        let look = |index| {
            if index == MAX_CHUNKS {
                return false;
            }
            let held = self.core.chunks.held(&ChunkKey {
                version: record.id,
                index,
            });
            let range = self.core.geometry.bytes(index, size);
            seen = range.end;
            match &mut run {
                Some(run) if run.held == held => run.range.end = range.end,
                _ => present.take(run.replace(Run { range, held })),
            }
            true
        };
        self.core.each_chunk(size, look).await;
        present.take(run);
        present.unseen = size - seen;
        present
    }

    /// What of the cache is not loaded yet, in words: until then, what is not found may be there.
    ///
    /// # Errors
    /// The words.
    pub fn loaded(&self) -> Result<(), String> {
        self.core.chunks.ready()
    }
}

impl Present {
    fn take(&mut self, run: Option<Run>) {
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
        if self.runs.len() < LISTED {
            self.runs.push(run);
        } else {
            self.left_off += 1;
        }
    }
}
