//! Writing an object as its bytes arrive: an HTTP PUT.
//!
//! Needs no spool: memory holds the part being filled and those being sent. An object of at most
//! one part is one request. A larger one is sent in parts while the rest arrives. It appears when
//! the last byte is there and all announced digests match. A client that leaves earlier leaves
//! nothing. Memory is reserved when a client begins, up to half of the budget for all clients.
//! So a hundred slow ones cannot take the readers' memory.

mod part_buffer;
mod publish;

use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::part_buffer::PartBuffer;
use crate::WriteError;
use crate::change::change_mark::change_key;
use crate::locks::key_locks::KeyLock;
use crate::locks::publish_hold::PublishHold;
use crate::path::WritePath;
use crate::task::{catch_panic, run_to_completion};
use tidegate_engine::Core;
use tidegate_engine::budget::Charge;
use tidegate_engine::written::PartChunks;
use tidegate_engine::{ReadContext, Scope};
use tidegate_origin::write::Headers;
use tidegate_origin::{CompletedPart, Guard, OriginError, PartSums, Payload, Upload};
use tidegate_plan::digest::Digests;
use tidegate_plan::parts::MAX_PARTS;
use tidegate_plan::{ByteRange, ChangeKind, ETag, ObjectId, ObjectKey, PartSizes};
use tidegate_telemetry::trace;

/// Bytes of the first part. Smaller than the spool's, because parts are held in memory.
const PART_BYTES: u64 = 8 << 20;

/// Parts sent at once, beside the one being filled.
const CLIENT_STREAMS: u64 = 3;

/// The maximum size of an object: 10,000 parts, two of which fit into memory. A writer with a spool
/// has no such bound.
pub const MAX_RECEIVED: u64 = 100 << 30;

/// The condition on a key for a write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum WriteCondition {
    /// Nothing.
    #[default]
    Anything,
    /// There is no such object.
    Absent,
    /// It has this version.
    Version(ETag),
}

impl From<WriteCondition> for Guard {
    fn from(wanted: WriteCondition) -> Self {
        match wanted {
            WriteCondition::Anything => Self::None,
            WriteCondition::Absent => Self::Absent,
            WriteCondition::Version(etag) => Self::Same(etag),
        }
    }
}

/// An object to be written.
#[derive(Debug)]
pub struct IncomingObject {
    /// The headers to store.
    pub headers: Headers,
    /// The condition on the key.
    pub wanted: WriteCondition,
    /// The announced length in bytes, if any.
    pub length: Option<u64>,
    /// The announced digests.
    pub digests: Digests,
}

/// The reason why no more bytes arrive: the client left, or its connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientDisconnect;

impl WritePath {
    /// Writes an object as its bytes arrive; returns its tag. Readers in this process find the
    /// object when this returns.
    ///
    /// # Errors
    /// [`WriteError::Changed`] if the condition on the key does not hold, [`WriteError::Digest`],
    /// [`WriteError::TooLarge`], [`WriteError::Interrupted`], [`WriteError::Closing`], the
    /// origin's, or [`Error::Overloaded`](tidegate_engine::Error::Overloaded) if there is no memory,
    /// or a publish of the object takes long. The object is unchanged then, unless the origin did
    /// not answer at the end: it may have been written.
    pub async fn receive(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        incoming: IncomingObject,
        body: impl Stream<Item = Result<Bytes, ClientDisconnect>> + Send + Unpin + 'static,
    ) -> Result<ETag, WriteError> {
        let id = source.object(key);
        if incoming.length.is_some_and(|length| length > MAX_RECEIVED) {
            return Err(WriteError::TooLarge);
        }
        let (path, source) = (self.clone(), source.clone());
        let (mut tell, answer) = oneshot::channel();
        // Once it is about to appear, it runs to its end, or the engine's, also if the caller stops
        // waiting.
        self.core.spawn(trace::carry(async move {
            let received = ObjectReceiver::run(&path, &source, &id, incoming, body, tell.closed());
            let result = catch_panic(received).await;
            match &result {
                Ok(_) => path.notify(&id).await,
                // It may have been written all the same.
                Err(_) => path.forget(&id).await,
            }
            drop(tell.send(result));
        }));
        answer.await.unwrap_or(Err(WriteError::Closing))
    }

    /// Deletes an object, if the condition holds. A missing object is no error.
    ///
    /// Not every store compares the version that it deletes, so this asks for it first. Without a store that does, a
    /// version that another process writes in between is deleted too.
    ///
    /// # Errors
    /// [`WriteError::Changed`], the origin's, and
    /// [`Error::Overloaded`](tidegate_engine::Error::Overloaded) if a publish of the object takes
    /// long.
    pub async fn delete(
        self: &Arc<Self>,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        wanted: &WriteCondition,
    ) -> Result<(), WriteError> {
        let id = source.object(key);
        let (hold, lock) = self.hold(&id).await?;
        if *wanted != WriteCondition::Anything {
            let found = match source.origin.head(key).await {
                Ok(version) => Some(version.etag),
                Err(OriginError::NotFound) => None,
                Err(error) => return Err(error.into()),
            };
            let holds = match (wanted, &found) {
                (WriteCondition::Version(etag), Some(found)) => found.strong_eq(etag),
                (WriteCondition::Absent, found) => found.is_none(),
                _ => false,
            };
            if !holds {
                drop((hold, lock));
                // The bucket may have another version than is known here.
                self.engine.doubt_key_now(&id).await;
                return Err(WriteError::Changed);
            }
        }
        let (path, origin, wanted) = (self.clone(), source.origin.clone(), wanted.clone());
        let work = async move {
            let delete = origin.writing().delete(&id.key, Guard::from(wanted));
            let deleted = change_key(&path.core, (&id, ChangeKind::Removed), delete).await;
            // Released before the mounts are told: their kernel may wait there for a caller that
            // waits for this.
            let discarded = match hold.filter(|_| deleted.is_ok()) {
                Some(hold) => hold.discard_closed().await,
                None => Ok(()),
            };
            let emptied = match &deleted {
                Ok(()) => {
                    path.core.forget_times(&id);
                    path.core.object_removed(&id)
                }
                Err(_) => {
                    path.core.forget(&id);
                    Vec::new()
                }
            };
            drop(lock);
            path.notify(&id).await;
            join_all(emptied.iter().map(|folder| path.notify(folder))).await;
            deleted?;
            discarded
        };
        run_to_completion(&self.core, work).await
    }

    /// Prevents earlier reads from restoring an old version, and tells the frontends to drop
    /// theirs.
    async fn forget(&self, id: &ObjectId) {
        self.core.forget(id);
        self.notify(id).await;
    }

    /// Tells the frontends to drop their copies of an object.
    async fn notify(&self, id: &ObjectId) {
        let scope = Scope::Key(id.key.clone());
        let ids = self.core.everywhere(id);
        join_all(
            ids.iter()
                .map(|id| self.core.report_purge(id.origin, &scope)),
        )
        .await;
    }
}

/// The memory reserved for one client.
struct ClientMemory([Charge; 2]);

impl ClientMemory {
    async fn take(path: &WritePath, length: Option<u64>) -> Result<Self, WriteError> {
        let most = PART_BYTES * (CLIENT_STREAMS + 1);
        let bytes = length.map_or(most, |length| length.clamp(1, most));
        let share = path.received.demand(bytes).await?;
        Ok(Self([share, path.core.budget.demand(bytes).await?]))
    }

    /// Releases all but `bytes`.
    fn keep(&mut self, bytes: u64) {
        for charge in &mut self.0 {
            *charge = charge.split(bytes);
        }
    }
}

/// The locks on an object while it appears, and its older closed draft.
struct PublishLocks {
    hold: Option<PublishHold>,
    _lock: KeyLock,
}

/// An object that is being received and sent.
struct ObjectReceiver {
    core: Arc<Core>,
    source: Arc<ReadContext>,
    id: ObjectId,
    incoming: IncomingObject,
    upload: Option<Upload>,
    sent: JoinSet<Result<CompletedPart, OriginError>>,
    parts: Vec<CompletedPart>,
    /// The chunks of its parts in memory.
    chunks: Arc<PartChunks>,
    filling: PartBuffer,
    size: u64,
}

impl ObjectReceiver {
    async fn run(
        path: &Arc<WritePath>,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        incoming: IncomingObject,
        body: impl Stream<Item = Result<Bytes, ClientDisconnect>> + Send + Unpin,
        left: impl Future<Output = ()> + Send,
    ) -> Result<ETag, WriteError> {
        let core = &path.core;
        let ready = async {
            let mut memory = ClientMemory::take(path, incoming.length).await?;
            let mut receiving = Self {
                core: core.clone(),
                source: source.clone(),
                id: id.clone(),
                incoming,
                upload: None,
                sent: JoinSet::new(),
                parts: Vec::new(),
                chunks: Arc::new(PartChunks::new(core)),
                filling: PartBuffer::default(),
                size: 0,
            };
            receiving.receive_body(body).await?;
            // The wait may be long, and other clients need the memory.
            memory.keep(receiving.filling.held());
            let (hold, _lock) = path.hold(id).await?;
            Ok::<_, WriteError>((receiving, memory, PublishLocks { hold, _lock }))
        };
        let published = async {
            let (mut receiving, _memory, locks) = tokio::select! {
                biased;
                ready = ready => ready?,
                () = left => return Err(WriteError::Interrupted),
            };
            let published = receiving.publish().await?;
            let discarded = match locks.hold {
                Some(hold) => hold.discard_closed().await,
                None => Ok(()),
            };
            let etag = receiving.settle(published).await;
            discarded.map(|()| etag)
        };
        tokio::select! {
            biased;
            published = published => published,
            // It appears whole or not at all, at any time.
            () = core.stop.cancelled() => Err(WriteError::Closing),
        }
    }

    async fn receive_body(
        &mut self,
        mut body: impl Stream<Item = Result<Bytes, ClientDisconnect>> + Send + Unpin,
    ) -> Result<(), WriteError> {
        let sizes = sizes(self.incoming.length);
        let most = self.incoming.length.unwrap_or(MAX_RECEIVED);
        let mut index = 0;
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|ClientDisconnect| WriteError::Interrupted)?;
            if piece.len() as u64 > most - self.size {
                return Err(WriteError::TooLarge);
            }
            self.incoming.digests.update(&piece);
            let mut left = &piece[..];
            while !left.is_empty() {
                let part = sizes.range(index, u64::MAX).len();
                let room = (part - self.filling.held()).min(most - self.size);
                let taken = usize::try_from(room).map_or(left.len(), |room| left.len().min(room));
                let (taken, rest) = left.split_at(taken);
                self.filling.push(taken, room);
                self.size += taken.len() as u64;
                left = rest;
                if self.filling.held() == part && self.incoming.length != Some(part) {
                    self.send(index + 1, streams(part)).await?;
                    index += 1;
                }
            }
        }
        self.finish_sending(index + 1).await
    }

    /// Sends the filled part. Waits while too many are being sent.
    async fn send(&mut self, number: u32, streams: u64) -> Result<(), WriteError> {
        if self.upload.is_none() {
            let headers = self.incoming.headers.clone();
            let writing = self.source.origin.writing();
            let begun = writing
                .begin(&self.id.key, headers, PartSums::Crc32c)
                .await?;
            self.upload = Some(begun);
        }
        let upload = self.upload.clone().expect("begun just now");
        while self.sent.len() as u64 >= streams {
            self.await_part().await?;
        }
        let range = ByteRange::new(self.size - self.filling.held(), self.size);
        let pieces = self.filling.take();
        let (core, origin) = (self.core.clone(), self.source.origin.clone());
        let chunks = self.chunks.clone();
        let profile = self.source.profile.load_full();
        self.sent.spawn(trace::carry(async move {
            let passing = chunks.begin(&profile, number, range);
            if let Some(passing) = &passing {
                passing.pass_all(&core, &pieces);
            }
            let payload = Payload::pieces(pieces);
            let crc32c = upload.sums.listed(payload.sums());
            let etag = origin.writing().part(&upload, number, payload).await?;
            if let Some(passing) = passing {
                // The same memory that the checksum was computed from.
                chunks.keep(&passing, None, etag.clone());
            }
            Ok(CompletedPart {
                number,
                etag,
                crc32c,
            })
        }));
        Ok(())
    }

    async fn await_part(&mut self) -> Result<(), WriteError> {
        match self.sent.join_next().await {
            Some(Ok(part)) => self.parts.push(part?),
            Some(Err(_)) => return Err(WriteError::Closing),
            None => {}
        }
        Ok(())
    }

    /// Sends the last part, once everything has arrived as announced.
    async fn finish_sending(&mut self, number: u32) -> Result<(), WriteError> {
        if self
            .incoming
            .length
            .is_some_and(|length| length != self.size)
        {
            return Err(WriteError::Interrupted);
        }
        if !std::mem::take(&mut self.incoming.digests).agree() {
            return Err(WriteError::Digest);
        }
        if self.upload.is_some() && self.filling.held() > 0 {
            self.send(number, CLIENT_STREAMS).await?;
        }
        while !self.sent.is_empty() {
            self.await_part().await?;
        }
        Ok(())
    }
}

/// Returns the part sizes. An object of announced length has parts of one size, as some stores
/// require.
fn sizes(length: Option<u64>) -> PartSizes {
    let parts = u64::from(MAX_PARTS);
    match length {
        Some(length) => {
            let times = length.div_ceil(PART_BYTES * parts).max(1);
            PartSizes::new(PART_BYTES * times).doubling_after(parts)
        }
        None => PartSizes::new(PART_BYTES).doubling_after(parts / 2),
    }
}

/// Returns how many parts may be sent at once in the memory of four of the smallest.
fn streams(part: u64) -> u64 {
    (PART_BYTES * CLIENT_STREAMS / part).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any object fits into the parts of an upload, and into the reserved memory.
        #[test]
        fn no_more_is_held_than_was_charged(length in 1..=MAX_RECEIVED, announced: bool) {
            let cut = sizes(announced.then_some(length));
            let last = cut.index(length - 1);
            prop_assert!(last < MAX_PARTS);
            let part = cut.range(last, u64::MAX).len();
            prop_assert!(part * (streams(part) + 1) <= PART_BYTES * (CLIENT_STREAMS + 1));
            prop_assert!(!announced || part == cut.first());
        }
    }
}
