//! Versions that were written through this process, and their chunks.
//!
//! Written bytes become chunks of the version that they make, so that a read of it needs no request
//! to the bucket. They are filed under the ETag of the store's answer, before any reader can find
//! the version. Only bytes whose checksum the store has compared are filed, and none if the outcome
//! of a write is in doubt. ADR 0031 has the reasons.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::Core;
use crate::budget::Charge;
use crate::fetch::options::{FetchOptions, admission};
use crate::invalidate::pins;
use crate::open::records;
use tidegate_cache::{ChunkKey, Entry, PinId, Record, WriteSpan};
use tidegate_plan::freshness::Policy;
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteRange, Client, ObjectId, Profile, Timestamp, Version, VersionId};

mod cutter;
mod parts;
pub(crate) mod self_copies;

use cutter::Cutter;
pub use parts::{PartChunks, PartCopy};
pub use self_copies::SelfCopy;

/// The source of the knowledge about a written version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteConfirmation {
    /// The bucket confirmed it in answer to this request, after the write.
    Confirmed(RequestStart),
    /// The answer to the write described it.
    Answered(WriteAnswer),
    /// The bucket has another version by now.
    Superseded,
}

impl WriteConfirmation {
    /// Returns the bounds of the store's time of a version that is known only from the answer to its write. Without a
    /// type the store has chosen one, and must be asked for it.
    fn span(self, version: &Version) -> Option<WriteSpan> {
        let typed = version.header(&http::header::CONTENT_TYPE).is_some();
        match self {
            Self::Answered(WriteAnswer { took, date, .. }) if typed => Some(WriteSpan {
                answered: date?,
                took,
            }),
            _ => None,
        }
    }
}

/// The start of a request whose answer tells the version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestStart {
    /// The time, from which the version is fresh.
    pub at: Timestamp,
    /// The object's generation: a hard purge that comes later also covers the version of the answer.
    generation: u64,
    /// The last purge of a tag: later ones cover the version of the answer as well, if it has the tag.
    tag_purge: u64,
}

impl RequestStart {
    /// Returns the start of a request about an object that is sent now.
    pub async fn now(core: &Core, id: &ObjectId) -> Self {
        Self {
            generation: core.meta.generation(id).await,
            tag_purge: core.meta.last_tag_purge(),
            at: core.now(),
        }
    }

    /// Returns the start of a later request about the same object. A purge since this one covers its answer, too.
    #[must_use]
    pub fn later(self, core: &Core) -> Self {
        Self {
            at: core.now(),
            ..self
        }
    }
}

/// The answer to a write, without its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteAnswer {
    /// The start of the request.
    pub asked: RequestStart,
    took: Duration,
    /// The time of the answer by the store's clock.
    date: Option<Timestamp>,
}

impl WriteAnswer {
    /// Returns an answer that came just now to a request.
    pub fn now(core: &Core, asked: RequestStart, date: Option<Timestamp>) -> Self {
        Self {
            asked,
            took: core.now().since(asked.at),
            date,
        }
    }
}

/// The reason for filing a chunk: the label of its metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilingCause {
    /// The object was sent in one request.
    Put,
    /// The object was sent in parts.
    Part,
    /// The bytes come from the version that was changed.
    Base,
    /// The bytes come from the object under its old name.
    Rename,
}

impl FilingCause {
    fn label(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Part => "part",
            Self::Base => "base",
            Self::Rename => "rename",
        }
    }
}

/// A version that was written just now, during its entry into the cache.
pub struct Filing {
    core: Arc<Core>,
    id: ObjectId,
    record: Arc<Record>,
    options: FetchOptions,
    is_storable: bool,
    pin: PinId,
    /// Chunks of another version on a disk, to be filed once this one is known.
    on_disk: Vec<(ChunkKey, FilingCause)>,
}

impl fmt::Debug for Filing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filing").finish_non_exhaustive()
    }
}

/// The maximum number of looked-up chunks of another version: 1 GiB of the default size. A commit
/// does not wait for more.
const MAX_LOOKED_AT: usize = 4096;

impl Filing {
    /// Begins with a version of an object. Prevents reads that began earlier from restoring an
    /// older one.
    pub(super) fn begin(
        core: &Arc<Core>,
        profile: &Profile,
        id: &ObjectId,
        version: &Arc<Version>,
        (asked, known): (RequestStart, WriteConfirmation),
    ) -> Self {
        records::supersede(core, |other| other == id);
        let purges = (asked.generation, asked.tag_purge);
        let record = Record {
            id: core.meta.address_of_answer(id, version, purges),
            version: version.clone(),
            confirmed: asked.at,
            must_confirm: false,
            written: known.span(version),
        };
        let is_storable = Policy::new(version, profile, asked.at).storable;
        Self {
            core: core.clone(),
            id: id.clone(),
            record: Arc::new(record),
            options: FetchOptions::new(profile, is_storable, Client::Own),
            is_storable,
            pin: core.meta.pin_of(id),
            on_disk: Vec::new(),
        }
    }

    /// Files a chunk in the tier of a fetched one. Ignores a chunk whose length differs from this
    /// version's.
    pub(super) fn put(&self, index: u32, bytes: Bytes, cause: FilingCause) {
        let version = self.record.id;
        let length = bytes.len() as u64;
        if length != self.chunk(index).len() {
            return;
        }
        let key = ChunkKey { version, index };
        if let Some(admit) = admission(&self.core, key, self.options, self.pin) {
            self.core.chunks.insert_pinned(key, bytes, admit, self.pin);
            self.core.metrics.filed(cause.label(), length);
        }
    }

    /// Files the chunks of another version within `ranges`, in which both have the same bytes at
    /// the same offsets: chunks in memory at once, chunks on a disk once this version is known.
    pub fn put_of(&mut self, other: VersionId, ranges: &[ByteRange], cause: FilingCause) {
        if other == self.record.id {
            return;
        }
        let (mut indices, geometry) = (Vec::new(), self.core.geometry);
        for range in ranges {
            let whole = |index: &u32| {
                let chunk = self.chunk(*index);
                chunk.intersect(*range) == Some(chunk)
            };
            let left = MAX_LOOKED_AT - indices.len();
            indices.extend(geometry.span(*range).filter(whole).take(left));
        }
        for index in indices {
            let key = ChunkKey {
                version: other,
                index,
            };
            match self.core.chunks.copy_memory(&key) {
                Some(bytes) => self.put(index, bytes, cause),
                None if self.core.chunks.locate(&key).is_some() => self.on_disk.push((key, cause)),
                None => {}
            }
        }
    }

    /// Files chunks from a disk, one after another, as long as there is spare memory.
    async fn put_from_disk(self) {
        for (key, cause) in &self.on_disk {
            let length = self.chunk(key.index).len();
            let (Some(_charge), Ok(len)) = (self.core.budget.ahead(length), length.try_into())
            else {
                return;
            };
            if let Some(bytes) = self.core.chunks.copy(key, len).await {
                self.put(key.index, bytes, *cause);
            }
        }
    }

    fn chunk(&self, index: u32) -> ByteRange {
        self.core.geometry.bytes(index, self.record.version.size)
    }

    /// Files all chunks of an object.
    pub fn put_all(&self, chunks: Chunks) {
        for (index, bytes) in chunks.chunks {
            self.put(index, bytes, FilingCause::Put);
        }
    }

    /// Makes the version known to readers.
    pub(super) fn finish(self) {
        let core = &self.core;
        let before = match core.meta.peek(&self.id) {
            Some(Entry::Present(before)) if before.id != self.record.id => Some(before),
            _ => None,
        };
        match self.is_storable {
            true => records::put_written(core, &self.id, self.record.clone()),
            false => records::put(core, &self.id, None),
        }
        pins::release(core, &self.id, before);
        if !self.on_disk.is_empty() {
            let core = self.core.clone();
            let stop = core.stop.clone();
            core.spawn(async move {
                tokio::select! {
                    () = self.put_from_disk() => {}
                    () = stop.cancelled() => {}
                }
            });
        }
    }
}

impl Core {
    /// Returns the current cache address of a version of an object.
    pub async fn version_id(&self, id: &ObjectId, version: &Version) -> VersionId {
        let generation = self.meta.generation(id).await;
        self.meta.address(id, version, generation)
    }
}

/// Makes a version known that was written just now, after `file` has filed its chunks. Returns whether it still counts:
/// the bucket has no other one, and no hard purge has come since the request.
pub async fn install(
    core: &Arc<Core>,
    profile: &Profile,
    id: &ObjectId,
    version: &Arc<Version>,
    known: WriteConfirmation,
    file: impl FnOnce(&mut Filing),
) -> bool {
    let asked = match known {
        WriteConfirmation::Confirmed(asked)
        | WriteConfirmation::Answered(WriteAnswer { asked, .. }) => asked,
        WriteConfirmation::Superseded => {
            records::put(core, id, None);
            return false;
        }
    };
    let mut filing = Filing::begin(core, profile, id, version, (asked, known));
    if filing.is_storable {
        file(&mut filing);
    }
    let filed = filing.record.id;
    filing.finish();
    core.version_id(id, version).await == filed
}

/// The chunks of an object that is in memory as a whole, and the memory that they take.
#[derive(Debug)]
pub struct Chunks {
    /// The chunks by number.
    pub chunks: Vec<(u32, Bytes)>,
    _charge: Charge,
}

impl Chunks {
    /// Cuts an object, which is sent meanwhile, into chunks that own their memory. `None`: no tier
    /// would keep them, or there is no spare memory. `owned`: each piece owns its memory.
    pub async fn cut(
        core: &Core,
        profile: &Profile,
        pieces: &[Bytes],
        owned: bool,
    ) -> Option<Self> {
        if !is_kept(profile) {
            return None;
        }
        let size = pieces.iter().map(|piece| piece.len() as u64).sum();
        let charge = core.budget.ahead(size)?;
        let mut cutter = Cutter::new(core.geometry, ByteRange::new(0, size));
        for piece in pieces {
            cutter.push(piece, owned);
            // The sending task goes first.
            tokio::task::yield_now().await;
        }
        Some(Self {
            chunks: cutter.finish()?,
            _charge: charge,
        })
    }
}

/// Returns whether any tier would keep a chunk that is written under a profile.
fn is_kept(profile: &Profile) -> bool {
    !profile.bulk || profile.disk != DiskUse::Off
}
