//! An open object: a pinned version, and the tiers in which its bytes lie.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::Core;
use super::fill::{Fill, Terms};
use super::flight::Lease;
use super::reader::Reader;
use tidegate_cache::{ChunkKey, Record, Tier};
use tidegate_origin::Origin;
use tidegate_plan::readahead::Limits;
use tidegate_plan::{ByteRange, ObjectId, Timestamp, Version, VersionId};

/// An object at one version. Every byte read through it belongs to that version.
#[derive(Debug, Clone)]
pub struct Object {
    pub(super) pinned: Arc<Pinned>,
    pub(super) outcome: Outcome,
}

/// The state that all readers of an open object share.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) core: Arc<Core>,
    pub(super) origin: Arc<dyn Origin>,
    pub(super) id: ObjectId,
    pub(super) record: Arc<Record>,
    pub(super) terms: Terms,
    pub(super) limits: Limits,
    fill: OnceLock<Arc<Fill>>,
    /// The lease on the bytes that came with the version, held until a reader has its first chunk: an object that stays
    /// open must not pin them longer.
    first: Mutex<Option<Arc<Lease>>>,
}

impl Pinned {
    pub(super) fn new(
        core: Arc<Core>,
        origin: Arc<dyn Origin>,
        id: ObjectId,
        record: Arc<Record>,
        terms: Terms,
        limits: Limits,
    ) -> Self {
        Self {
            core,
            origin,
            id,
            record,
            terms,
            limits,
            fill: OnceLock::new(),
            first: Mutex::default(),
        }
    }

    /// Returns the version's fetches, if there are any.
    pub(super) fn living_fill(&self) -> Option<&Arc<Fill>> {
        if self.fill.get().is_none() {
            let fill = Fill::living(&self.core, self.record.id)?;
            return Some(self.fill.get_or_init(|| fill));
        }
        self.fill.get()
    }

    /// Holds the bytes that came with the version; `None` releases them.
    pub(super) fn hold(&self, first: Option<Arc<Lease>>) {
        let mut held = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        *held = first;
    }

    /// Returns the lease on the bytes that came with the version, while it is held.
    pub(super) fn brings(&self) -> Option<Arc<Lease>> {
        let held = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// Returns the chunks of that lease; an empty range if none is held.
    pub(super) fn brought(&self) -> Range<u32> {
        let brings = self.brings();
        brings.map_or(0..0, |lease| lease.part().chunks.clone())
    }

    /// Returns the version's fetches; created when memory lacks a chunk.
    pub(super) fn fill(&self) -> &Arc<Fill> {
        self.fill.get_or_init(|| {
            Fill::of(
                &self.core,
                &self.origin,
                &self.id,
                &self.record.version,
                self.record.id,
            )
        })
    }
}

/// The maximum number of chunks looked up to tell whether a range is cached. Beyond them (64 MiB at the default size)
/// the first ones stand for the rest.
const LOCATED: usize = 256;

/// Tells how much of a range of a version is cached, and in which tier.
pub(super) fn locate(core: &Core, version: VersionId, range: ByteRange) -> Found {
    let (mut found, mut missing, mut tier) = (false, false, Tier::Memory);
    for index in core.geometry.span(range).take(LOCATED) {
        match core.chunks.locate(&ChunkKey { version, index }) {
            Some(at) => {
                found = true;
                tier = if at == Tier::Disk { at } else { tier };
            }
            None => missing = true,
        }
    }
    match (found, missing) {
        (_, false) => Found::All(tier),
        (true, true) => Found::Some,
        (false, true) => Found::Nothing,
    }
}

impl Object {
    /// Returns the version this object was opened on.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.pinned.record.version
    }

    /// Returns the identity of that version; no byte can differ while it is the same.
    #[must_use]
    pub fn id(&self) -> VersionId {
        self.pinned.record.id
    }

    /// Releases the bytes that came with the version after `time`, unless a reader has begun by then: other readers may
    /// need the memory, and the object may stay open for long.
    pub fn let_go_after(&self, time: Duration) {
        if self.pinned.brings().is_none() {
            return;
        }
        let (core, pinned) = (&self.pinned.core, Arc::downgrade(&self.pinned));
        let stop = core.stop.clone();
        core.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(time) => {}
                () = stop.cancelled() => {}
            }
            if let Some(pinned) = pinned.upgrade() {
                pinned.hold(None);
            }
        });
    }

    /// Returns the time at which the bucket last confirmed the version.
    pub(super) fn confirmed(&self) -> Timestamp {
        self.pinned.record.confirmed
    }

    /// Returns the way in which the version was found.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Tells how much of `range` is cached: decides hit or miss before the bytes are read.
    #[must_use]
    pub fn locate(&self, range: ByteRange) -> Found {
        locate(&self.pinned.core, self.pinned.record.id, range)
    }

    /// Returns the same object for a background reader, without read-ahead.
    pub(super) fn quietly(&self) -> Self {
        let own = &*self.pinned;
        let terms = Terms {
            quiet: true,
            ..own.terms
        };
        let limits = Limits {
            window: 0,
            ..own.limits
        };
        let pinned = Pinned::new(
            own.core.clone(),
            own.origin.clone(),
            own.id.clone(),
            own.record.clone(),
            terms,
            limits,
        );
        Self {
            pinned: Arc::new(pinned),
            outcome: self.outcome,
        }
    }

    /// Returns a reader over `range`, which must lie within the version's size. Cheap; nothing is fetched before the
    /// first poll.
    #[must_use]
    pub fn read_at(&self, range: ByteRange) -> Reader {
        Reader::new(self.pinned.clone(), range)
    }
}

/// The way in which the version of an [`Object`] was found: the data of `Cache-Status` (RFC 9211).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// The reason for asking the origin; `None` if it was not asked.
    pub forward: Option<Forward>,
    /// Whether this request waited for the answer to another one's question.
    pub collapsed: bool,
    /// Whether the object may be kept.
    pub stored: bool,
    /// Time since the origin last confirmed the version.
    pub age: Duration,
    /// Milliseconds of freshness left; negative when stale.
    pub ttl_ms: i64,
}

/// The reason for asking the origin (RFC 9211, 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    /// The key was unknown (`uri-miss`).
    Miss,
    /// The key was known and stale, and has another version now (`stale`).
    Stale,
    /// The key was known and stale, and the origin confirmed it with 304 (`stale`, `fwd-status=304`).
    Revalidated,
    /// The client asked for confirmation (`request`), and the origin sent another version.
    Request,
    /// The key was known and stale, and is served stale because the origin failed (`stale-if-error`).
    Failed,
}

/// The cached share of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// All of it; holds the slowest tier in which it lies.
    All(Tier),
    /// Some of it.
    Some,
    /// None of it.
    Nothing,
}
