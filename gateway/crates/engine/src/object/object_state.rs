//! A pinned version: the state that all readers of an open object share.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use crate::Core;
use crate::fetch::FIRST_REQUEST;
use crate::fetch::options::FetchOptions;
use crate::fetch::part::Lease;
use crate::fetch::version_fetches::{FetchesId, VersionFetches};
use crate::object::coverage::{Coverage, locate};
use crate::object::trail::Trail;
use tidegate_cache::Record;
use tidegate_origin::Origin;
use tidegate_plan::readahead::Limits;
use tidegate_plan::{ByteRange, Client, ObjectId};
use tidegate_telemetry::locks::Recover as _;

/// The state that all readers of an open object share.
#[derive(Debug)]
pub(crate) struct ObjectState {
    pub(crate) core: Arc<Core>,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) id: ObjectId,
    pub(crate) record: Arc<Record>,
    pub(crate) options: FetchOptions,
    pub(crate) limits: Limits,
    fetches: OnceLock<Arc<VersionFetches>>,
    trail: Trail,
    /// The lease on the bytes that came with the version, held until a reader has its first chunk: an object that stays
    /// open must not pin them longer.
    first: Mutex<Option<Arc<Lease>>>,
}

impl ObjectState {
    pub(crate) fn new(
        core: Arc<Core>,
        origin: Arc<dyn Origin>,
        id: ObjectId,
        record: Arc<Record>,
        options: FetchOptions,
        limits: Limits,
    ) -> Self {
        Self {
            core,
            origin,
            id,
            record,
            options,
            limits,
            fetches: OnceLock::new(),
            trail: Trail::default(),
            first: Mutex::default(),
        }
    }

    /// Returns the version's fetches, if there are any.
    pub(crate) fn living_fetches(&self) -> Option<&Arc<VersionFetches>> {
        if self.fetches.get().is_none() {
            let record = &self.record;
            let fetches_id = FetchesId::new(&self.origin, &record.version, record.id);
            let fetches = VersionFetches::get_live(&self.core, &fetches_id)?;
            return Some(self.fetches.get_or_init(|| fetches));
        }
        self.fetches.get()
    }

    /// Holds the bytes that came with the version; `None` releases them.
    pub(crate) fn hold_first(&self, first: Option<Arc<Lease>>) {
        let mut held = self.first.lock().recover();
        *held = first;
    }

    /// Records that a reader begins to read `range`, and returns the beginning of its sequence. A mount's first read after
    /// the beginning goes on from there if that is cached: the kernel has its pages.
    pub(crate) fn follow(&self, range: ByteRange) -> u64 {
        let is_head = range.start <= FIRST_REQUEST && self.options.client == Client::Own;
        self.trail.follow(range, || {
            let head = ByteRange::new(0, range.start);
            is_head && matches!(locate(&self.core, self.record.id, head), Coverage::All(_))
        })
    }

    /// Returns whether `range` was the first read through a mount's open file, and lies behind a head that was cached. It
    /// does so once.
    pub(crate) fn is_return(&self, range: ByteRange) -> bool {
        self.trail.take_joined(range.start)
    }

    /// Releases the bytes that came with the version to their first reader. A mount's reader leaves after each read of the
    /// kernel, so those of a small object are held until they have come.
    pub(crate) fn release_first(&self) {
        let is_small = self.record.version.size <= FIRST_REQUEST;
        let keeps = is_small && self.options.client == Client::Own;
        let mut held = self.first.lock().recover();
        held.take_if(|lease| !keeps || lease.part().has_landed());
    }

    /// Returns the lease on the bytes that came with the version, while it is held.
    pub(crate) fn first_lease(&self) -> Option<Arc<Lease>> {
        let held = self.first.lock().recover();
        held.clone()
    }

    /// Returns the chunks of that lease; an empty range if none is held.
    pub(crate) fn first_chunks(&self) -> Range<u32> {
        let first = self.first_lease();
        first.map_or(0..0, |lease| lease.part().chunks.clone())
    }

    /// Returns the version's fetches; created when memory lacks a chunk.
    pub(crate) fn fetches(&self) -> &Arc<VersionFetches> {
        self.fetches.get_or_init(|| {
            VersionFetches::get_or_create(
                &self.core,
                &self.origin,
                &self.id,
                &self.record.version,
                self.record.id,
            )
        })
    }
}
