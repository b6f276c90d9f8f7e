//! One open object: a version, pinned, and where its bytes are.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::core::Core;
use super::fill::{Fill, Terms};
use super::flight::Lease;
use super::reader::Reader;
use crate::origin::Origin;
use crate::plan::readahead::Limits;
use crate::plan::{ByteRange, ObjectId, Timestamp, Version, VersionId};
use crate::store::{ChunkKey, Record, Tier};

/// An object at one version. Every byte read through it belongs to that version.
#[derive(Debug, Clone)]
pub struct Object {
    pub(super) pinned: Arc<Pinned>,
    pub(super) outcome: Outcome,
}

/// What all readers of an open object share.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) core: Arc<Core>,
    pub(super) origin: Arc<dyn Origin>,
    pub(super) id: ObjectId,
    pub(super) record: Arc<Record>,
    pub(super) terms: Terms,
    pub(super) limits: Limits,
    fill: OnceLock<Arc<Fill>>,
    /// Keeps the bytes coming that came with the version, until a reader has boarded: an object
    /// that stays open must not pin them for longer.
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

    /// The version's fill, if there is one.
    pub(super) fn living_fill(&self) -> Option<&Arc<Fill>> {
        if self.fill.get().is_none() {
            let fill = Fill::living(&self.core, self.record.id)?;
            return Some(self.fill.get_or_init(|| fill));
        }
        self.fill.get()
    }

    /// Holds on to the bytes that came with the version, or (`None`) lets go of them.
    pub(super) fn hold(&self, first: Option<Arc<Lease>>) {
        let mut held = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        *held = first;
    }

    /// What came with the version, while it is held on to.
    pub(super) fn brings(&self) -> Option<Arc<Lease>> {
        let held = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// The chunks of that; else none.
    pub(super) fn brought(&self) -> Range<u32> {
        let brings = self.brings();
        brings.map_or(0..0, |lease| lease.part().chunks.clone())
    }

    /// The version's fill; made when memory does not have everything.
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

/// How many chunks of a range are looked up to say whether it is cached. Beyond that many (64 MiB
/// of the default size) the first ones speak for the rest.
const LOCATED: usize = 256;

/// Where some bytes of a version are now.
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
    /// The version this object was opened on.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.pinned.record.version
    }

    /// The identity of that version: the same for as long as no byte of it can differ.
    #[must_use]
    pub fn id(&self) -> VersionId {
        self.pinned.record.id
    }

    /// What came with the version is let go of after this time, if nobody has begun to read by then: others
    /// may want the memory, and the object may stay open for long.
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

    /// When the bucket last confirmed the version.
    pub(super) fn confirmed(&self) -> Timestamp {
        self.pinned.record.confirmed
    }

    /// How the version was found.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Where the bytes of `range` are now: decides hit or miss before they are read.
    #[must_use]
    pub fn locate(&self, range: ByteRange) -> Found {
        locate(&self.pinned.core, self.pinned.record.id, range)
    }

    /// The same for a reader that nobody waits for, and that reads nothing ahead.
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

    /// A reader over `range`, which must lie within the version's size. Cheap; nothing is fetched
    /// before the first poll.
    #[must_use]
    pub fn read_at(&self, range: ByteRange) -> Reader {
        Reader::new(self.pinned.clone(), range)
    }
}

/// How the version of an [`Object`] was found: the material of `Cache-Status` (RFC 9211).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Why the origin was asked for the version; `None`: it was not.
    pub forward: Option<Forward>,
    /// Another request asked, this one waited for its answer.
    pub collapsed: bool,
    /// Whether the object may be kept.
    pub stored: bool,
    /// Time since the origin last confirmed the version.
    pub age: Duration,
    /// Milliseconds of freshness left; negative when stale.
    pub ttl_ms: i64,
}

/// Why the origin was asked (RFC 9211, 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forward {
    /// The key was unknown (`uri-miss`).
    Miss,
    /// It was known and stale, and has another version now (`stale`).
    Stale,
    /// It was known and stale, and the origin confirmed it with 304 (`stale`, `fwd-status=304`).
    Revalidated,
    /// The client asked for confirmation (`request`), and got another version.
    Request,
    /// It was known and stale, and is served so because the origin fails (`stale-if-error`).
    Failed,
}

/// How much of a range is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// All of it; the slowest tier that it lies in.
    All(Tier),
    /// Some of it.
    Some,
    /// None of it.
    Nothing,
}
