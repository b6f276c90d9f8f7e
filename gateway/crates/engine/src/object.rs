//! An open object: a pinned version, and the tiers in which its bytes lie.

use std::sync::Arc;
use std::time::Duration;

use bytes::Buf as _;

use crate::fetch::FIRST_REQUEST;
use crate::fetch::flight::Piece;
use crate::fetch::options::FetchOptions;
use crate::open::outcome::OpenOutcome;
use tidegate_cache::ChunkKey;
use tidegate_plan::readahead::Limits;
use tidegate_plan::{ByteRange, ObjectKey, Timestamp, Version, VersionId};

pub(crate) mod coverage;
pub(crate) mod object_state;
pub(crate) mod reader;
pub mod stat;
pub mod streams;
mod trail;
pub(crate) mod wait;

use coverage::{Coverage, locate};
use object_state::ObjectState;
use reader::Reader;
use streams::{StreamGuard, StreamInfo, StreamKind};

/// An object at one version. Every byte read through it belongs to that version.
#[derive(Debug, Clone)]
pub struct Object {
    pub(crate) pinned: Arc<ObjectState>,
    pub(crate) outcome: OpenOutcome,
}

impl Object {
    /// The most bytes of memory that what [`Object::held`] returns keeps alive.
    pub const MAX_HELD: u64 = FIRST_REQUEST;

    /// Returns the version this object was opened on.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.pinned.record.version
    }

    /// Returns the key that it was opened under.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.pinned.id.key
    }

    /// Returns the identity of that version; no byte can differ while it is the same.
    #[must_use]
    pub fn id(&self) -> VersionId {
        self.pinned.record.id
    }

    /// Releases the bytes that came with the version after `time`, unless a reader has begun by then: other readers may
    /// need the memory, and the object may stay open for long.
    pub fn release_after(&self, time: Duration) {
        if self.pinned.first_lease().is_none() {
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
                pinned.hold_first(None);
            }
        });
    }

    /// Returns the time at which the bucket last confirmed the version.
    #[must_use]
    pub fn confirmed(&self) -> Timestamp {
        self.pinned.record.confirmed
    }

    /// Returns the way in which the version was found.
    #[must_use]
    pub fn outcome(&self) -> OpenOutcome {
        self.outcome
    }

    /// Tells how much of `range` is cached: decides hit or miss before the bytes are read.
    #[must_use]
    pub fn locate(&self, range: ByteRange) -> Coverage {
        locate(&self.pinned.core, self.pinned.record.id, range)
    }

    /// Returns `range`, which must lie within the version's size, if it needs no reader: it is part of one chunk, memory
    /// holds it, and the object is too small to be read ahead. Otherwise a reader has it.
    #[must_use]
    pub fn held(&self, range: ByteRange) -> Option<Piece> {
        let core = &self.pinned.core;
        let span = core.geometry.span(range);
        if self.version().size > FIRST_REQUEST || span.len() != 1 {
            return None;
        }
        let mut bytes = core.chunks.get_held(&ChunkKey {
            version: self.id(),
            index: span.start,
        })?;
        let offset = usize::try_from(range.start - core.geometry.start(span.start)).ok()?;
        let len = usize::try_from(range.len()).ok()?;
        let keeps = bytes.len();
        if offset + len > keeps {
            return None;
        }
        core.count_delivered(range.len());
        // Cut in place: a second reference would be counted at a place that all processors share.
        bytes.truncate(offset + len);
        bytes.advance(offset);
        Some(Piece { bytes, keeps })
    }

    /// Returns the same object for a background reader, without read-ahead.
    pub(crate) fn for_background(&self) -> Self {
        let own = &*self.pinned;
        let options = FetchOptions {
            quiet: true,
            ..own.options
        };
        let limits = Limits {
            window: 0,
            ..own.limits
        };
        let pinned = ObjectState::new(
            own.core.clone(),
            own.origin.clone(),
            own.id.clone(),
            own.record.clone(),
            options,
            limits,
        );
        Self {
            pinned: Arc::new(pinned),
            outcome: self.outcome,
        }
    }

    /// Registers a stream of this object for the operator.
    #[must_use]
    pub fn stream(&self, kind: StreamKind, client: String) -> StreamGuard {
        self.pinned.core.streams.register(StreamInfo {
            kind,
            client,
            object: self.pinned.id.clone(),
            size: self.version().size,
            chunk: self.pinned.core.geometry.chunk(),
        })
    }

    /// Returns a reader over `range`, which must lie within the version's size. Cheap; nothing is fetched before the
    /// first poll.
    #[must_use]
    pub fn read_at(&self, range: ByteRange) -> Reader {
        Reader::new(self.pinned.clone(), range)
    }
}
