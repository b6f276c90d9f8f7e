//! Variants: a version in a content coding, encoded once and kept as chunks.
//!
//! A variant is addressed by its version and its coding, so a purge or a new version makes it unreachable, like the
//! version's own chunks. This address has one chunk, its *head*: the length and a hash of the variant's bytes. The
//! address of its pieces is derived from both. A head with a length of 0 records that encoding does not make the object
//! smaller.
//!
//! Encoders are few. Before an encoder begins, it takes a place and reserves its maximum memory; if no place or no
//! memory is free, the answer is identity. Encoders run on the runtime for origin requests, on blocking threads.
//! Concurrent readers of one variant wait for one *flight*, for [`EncodingTimes::wait`] at most.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Shared;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::Core;
use crate::Object;
use crate::budget::Charge;
use crate::fetch::options::FetchOptions;
use tidegate_cache::{Admit, ChunkKey, Tier};
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteRange, Coding, VersionId};
use tidegate_telemetry::locks::Recover as _;

mod encoder;
mod head;
mod reader;

pub use reader::VariantReader;

use encoder::{BLOCK_BYTES, Encoder};
use head::{Head, head_chunk};

/// The largest object that is encoded. At some 40 MB/s that takes a tenth of a second of one processor.
pub const MAX_ENCODED_SIZE: u64 = 4 << 20;

/// The waits for an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodingTimes {
    /// The time that an answer waits for the encoder of its variant.
    pub wait: Duration,
    /// The timeout of an encoder, reading its object included: a slow one blocks others.
    pub timeout: Duration,
}

impl Default for EncodingTimes {
    fn default() -> Self {
        Self {
            wait: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
        }
    }
}

/// The minimum and maximum number of concurrent encoders; between them, one for each processor.
const ENCODER_COUNTS: (usize, usize) = (2, 4);

/// The encoders of an engine, and the variants being encoded.
pub(super) struct Variants {
    times: EncodingTimes,
    permits: Arc<Semaphore>,
    flights: Mutex<HashMap<VersionId, Encoding>>,
}

/// A variant being encoded. `None`: the encoder failed; failures are not cached.
type Encoding = Shared<oneshot::Receiver<Option<Arc<EncodedVariant>>>>;

impl Variants {
    pub(super) fn new(times: EncodingTimes) -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        let permits = processors.clamp(ENCODER_COUNTS.0, ENCODER_COUNTS.1);
        Self {
            times,
            permits: Arc::new(Semaphore::new(permits)),
            flights: Mutex::default(),
        }
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<VersionId, Encoding>> {
        self.flights.lock().recover()
    }
}

/// The stored state of a variant.
#[derive(Debug, Clone)]
pub enum VariantState {
    /// It is stored.
    Variant(Variant),
    /// It would be no smaller than the object.
    Identity,
    /// Its state is not stored.
    Nothing,
}

/// A version in a content coding.
#[derive(Debug, Clone)]
pub struct Variant(Arc<OpenVariant>);

#[derive(Debug)]
struct OpenVariant {
    object: Object,
    coding: Coding,
    /// The address of its pieces.
    pieces: VersionId,
    head: Head,
    /// Its bytes, unless the store has all of them in memory.
    made: Option<Arc<EncodedVariant>>,
}

/// The output of an encoder.
#[derive(Debug)]
struct EncodedVariant {
    head: Head,
    pieces: Vec<Bytes>,
    _charge: Charge,
}

/// Returns the tiers that store the variants of an object; `None`: no variant is made, because no tier may store it.
fn admission(options: FetchOptions) -> Option<Admit> {
    match (options.storable, options.bulk, options.disk) {
        (false, ..) | (true, true, DiskUse::Off) => None,
        (true, true, _) => Some(Admit::Disk),
        (true, false, DiskUse::Off) => Some(Admit::Memory),
        (true, false, DiskUse::First) => Some(Admit::MemoryAndDisk),
        (true, false, DiskUse::Second) => Some(Admit::MemoryFirst),
    }
}

/// A place among the encoders, and the memory for one encoder.
struct EncoderPermit(OwnedSemaphorePermit, Charge);

/// The outcome of a request for a flight.
enum EncodingStart {
    /// The variant is being encoded.
    UnderWay(Encoding),
    /// It was stored a moment ago.
    Stored,
    /// No encoder or no memory is free.
    Full,
}

impl Object {
    /// Returns whether variants of this version are made: it is not too large, and may be stored.
    #[must_use]
    pub fn may_be_encoded(&self) -> bool {
        self.version().size <= MAX_ENCODED_SIZE && admission(self.pinned.options).is_some()
    }

    /// Returns the stored state of a variant without encoding it.
    pub async fn variant_state(&self, coding: Coding) -> VariantState {
        let (chunks, id) = (&self.pinned.core.chunks, self.id().variant(coding));
        let key = head_chunk(id);
        let bytes = match chunks.get_memory(&key) {
            Some(bytes) => Some(bytes),
            None if chunks.locate(&key).is_none() => None,
            None => {
                let rules = self.pinned.options.lookup(false);
                let found = chunks.look_up(&key, Head::LEN, rules).await;
                found.map(|(bytes, _)| bytes)
            }
        };
        match bytes.as_deref().and_then(Head::read) {
            None => VariantState::Nothing,
            Some(Head { size: 0, .. }) => VariantState::Identity,
            Some(head) => {
                let variant = Variant::new(self, coding, head, None);
                if variant.is_cached(ByteRange::new(0, head.size)) {
                    return VariantState::Variant(variant);
                }
                // Some of it was evicted: it is encoded again, as if it had never been stored.
                chunks.remove(&key);
                VariantState::Nothing
            }
        }
    }

    /// Returns the variant, encoding it if necessary. `None` means identity: the variant is no smaller, no encoder or
    /// memory is free, or encoding takes too long.
    pub async fn variant(&self, coding: Coding) -> Option<Variant> {
        // Twice, in case the variant is stored between the look and the flight. If its head is unreadable even then, it
        // is encoded again.
        for again in [false, true] {
            match self.variant_state(coding).await {
                VariantState::Variant(variant) => return Some(variant),
                VariantState::Identity => return None,
                VariantState::Nothing => {}
            }
            match self.start_encoding(coding, None, again) {
                EncodingStart::Stored => {}
                EncodingStart::Full => return None,
                EncodingStart::UnderWay(flight) => {
                    let wait = self.pinned.core.variants.times.wait;
                    let made = timeout(wait, flight).await.ok()?.ok()??;
                    return (made.head.size > 0)
                        .then(|| Variant::new(self, coding, made.head, Some(made)));
                }
            }
        }
        None
    }

    /// Joins the flight of a variant, or begins one with `permit` or with free resources. If the store has the variant,
    /// it begins one only if `again` is set.
    fn start_encoding(
        &self,
        coding: Coding,
        permit: Option<EncoderPermit>,
        again: bool,
    ) -> EncodingStart {
        let core = &self.pinned.core;
        let id = self.id().variant(coding);
        let mut flights = core.variants.flights();
        if let Some(flight) = flights.get(&id) {
            return EncodingStart::UnderWay(flight.clone());
        }
        if !again && core.chunks.locate(&head_chunk(id)).is_some() {
            return EncodingStart::Stored;
        }
        let Some(permit) = permit.or_else(|| self.encoder_permit(coding)) else {
            return EncodingStart::Full;
        };
        let (tell, told) = oneshot::channel();
        let flight = told.shared();
        flights.insert(id, flight.clone());
        let guard = EncodingGuard {
            core: core.clone(),
            id,
        };
        core.spawn(self.clone().run_encoder(coding, permit, guard, tell));
        EncodingStart::UnderWay(flight)
    }

    /// Takes a place and memory, if both are free now.
    fn encoder_permit(&self, coding: Coding) -> Option<EncoderPermit> {
        let core = &self.pinned.core;
        let permits = core.variants.permits.clone();
        let Ok(place) = permits.try_acquire_owned() else {
            core.metrics.encoder_refused("busy");
            return None;
        };
        let charge = core.budget.ahead(self.encoder_memory(coding));
        if charge.is_none() {
            core.metrics.encoder_refused("memory");
        }
        Some(EncoderPermit(place, charge?))
    }

    fn encoder_memory(&self, coding: Coding) -> u64 {
        Encoder::memory(
            coding,
            self.version().size,
            self.pinned.core.geometry.chunk(),
        )
    }

    /// Encodes a variant, stores it, and tells the waiting readers.
    async fn run_encoder(
        self,
        coding: Coding,
        EncoderPermit(place, charge): EncoderPermit,
        guard: EncodingGuard,
        tell: oneshot::Sender<Option<Arc<EncodedVariant>>>,
    ) {
        let core = &self.pinned.core;
        let made = tokio::select! {
            made = timeout(core.variants.times.timeout, self.encode(coding, charge)) => made.ok().flatten(),
            () = core.stop.cancelled() => None,
        };
        let made = made.map(Arc::new);
        if let (Some(made), Some(admit)) = (&made, admission(self.pinned.options)) {
            made.keep(core, guard.id, admit);
        }
        let result = match &made {
            None => "failed",
            Some(made) if made.pieces.is_empty() => "identity",
            Some(_) => "kept",
        };
        core.metrics.encoded(coding.name(), result);
        // The flight ends after the variant is stored: a reader that finds neither would encode it again.
        drop((guard, place));
        let _ = tell.send(made);
    }

    /// Runs an encoder over the object. `None`: the object cannot be read, or the encoder failed.
    async fn encode(&self, coding: Coding, mut charge: Charge) -> Option<EncodedVariant> {
        let (size, piece) = (self.version().size, self.pinned.core.geometry.chunk());
        let mut encoder = Encoder::new(coding, size, piece).ok()?;
        let mut bytes = self.read_at(ByteRange::new(0, size));
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        loop {
            let frame = bytes.next().await.transpose().ok()?;
            let is_last = frame.is_none();
            let mut frame = frame.unwrap_or_default();
            while !frame.is_empty() || is_last && !block.is_empty() {
                let taken = frame.split_to(frame.len().min(BLOCK_BYTES - block.len()));
                block.extend_from_slice(&taken);
                if block.len() < BLOCK_BYTES && !is_last {
                    continue;
                }
                let full = block;
                let ran = spawn_blocking(move || {
                    let ran = encoder.write(&full);
                    (encoder, full, ran)
                });
                let (used, mut emptied, ran) = ran.await.ok()?;
                if ran.is_err() {
                    return Some(EncodedVariant::identity(charge.split(0)));
                }
                emptied.clear();
                (encoder, block) = (used, emptied);
            }
            if is_last {
                break;
            }
        }
        let pieces = spawn_blocking(move || finished(encoder)).await.ok()?;
        let Ok((head, pieces)) = pieces else {
            return Some(EncodedVariant::identity(charge.split(0)));
        };
        Some(EncodedVariant {
            head,
            pieces,
            _charge: charge.split(head.size),
        })
    }
}

fn finished(encoder: Encoder) -> io::Result<(Head, Vec<Bytes>)> {
    let pieces = encoder.finish()?;
    Ok((Head::of(&pieces), pieces))
}

/// Ends a flight, however its task ends.
struct EncodingGuard {
    core: Arc<Core>,
    id: VersionId,
}

impl Drop for EncodingGuard {
    fn drop(&mut self) {
        self.core.variants.flights().remove(&self.id);
    }
}

impl EncodedVariant {
    /// Creates the result for an object that encoding does not make smaller.
    fn identity(charge: Charge) -> Self {
        let head = Head { size: 0, hash: 0 };
        Self {
            head,
            pieces: Vec::new(),
            _charge: charge,
        }
    }

    /// Puts the output into the store, the head last: a head is only there once all pieces were.
    fn keep(&self, core: &Core, id: VersionId, admit: Admit) {
        let version = self.head.pieces(id);
        for (index, piece) in (0..).zip(&self.pieces) {
            let key = ChunkKey { version, index };
            core.chunks.insert(key, piece.clone(), admit);
        }
        core.chunks.insert(head_chunk(id), self.head.bytes(), admit);
    }
}

impl Variant {
    fn new(object: &Object, coding: Coding, head: Head, made: Option<Arc<EncodedVariant>>) -> Self {
        // The bytes that came with the version are no longer needed.
        object.pinned.hold_first(None);
        let mut inner = OpenVariant {
            object: object.clone(),
            coding,
            pieces: head.pieces(object.id().variant(coding)),
            head,
            made: None,
        };
        // The store accounts for pieces in its memory tier.
        inner.made =
            made.filter(|_| inner.tier(ByteRange::new(0, head.size)) != Some(Tier::Memory));
        Self(Arc::new(inner))
    }

    /// Returns its length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0.head.size
    }

    /// Returns whether all of `range` can be read without another encoding.
    #[must_use]
    pub fn is_cached(&self, range: ByteRange) -> bool {
        self.0.made.is_some() || self.0.tier(range).is_some()
    }

    /// Returns a reader over `range`, which must lie within its size.
    #[must_use]
    pub fn read_at(&self, range: ByteRange) -> VariantReader {
        VariantReader::new(self.clone(), range)
    }
}

impl OpenVariant {
    /// Returns the chunk that holds a piece.
    fn chunk(&self, index: u32) -> ChunkKey {
        ChunkKey {
            version: self.pieces,
            index,
        }
    }

    /// Returns the slowest tier in which a range lies; `None` if some of it is not cached.
    fn tier(&self, range: ByteRange) -> Option<Tier> {
        let core = &self.object.pinned.core;
        let mut tiers = core.geometry.span(range);
        tiers.try_fold(Tier::Memory, |slowest, index| {
            match core.chunks.locate(&self.chunk(index))? {
                Tier::Memory => Some(slowest),
                Tier::Disk => Some(Tier::Disk),
            }
        })
    }
}
