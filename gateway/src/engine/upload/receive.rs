//! Writing an object as its bytes arrive: an HTTP PUT.
//!
//! No spool: memory holds a part, and those that are on their way. An object of one part at most is
//! one request. A larger one goes up in parts while the rest still arrives, and appears when the last
//! byte is there and every announced digest was found right; a client that leaves before leaves
//! nothing. Memory is charged to the budget when a client begins, up to [`SHARE`] of it for all of
//! them, so that a hundred slow clients cannot keep readers from theirs.

mod filling;
mod publish;

use std::sync::Arc;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use self::filling::Filling;
use super::WriteError;
use super::still::Still;
use crate::engine::budget::Charge;
use crate::engine::core::{Core, caught};
use crate::engine::holds::Hold;
use crate::engine::written::PartChunks;
use crate::engine::{Engine, Scope, Source};
use crate::origin::write::Headers;
use crate::origin::{CompletedPart, Guard, OriginError, PartSums, Payload, Upload};
use crate::plan::digest::Digests;
use crate::plan::parts::MAX_PARTS;
use crate::plan::{ByteRange, ETag, ObjectId, ObjectKey, PartSizes};

/// Bytes of the first part. Smaller than the spool's, for these are held in memory.
const PART: u64 = 8 << 20;

/// Parts on their way at once, beside the one that is filled.
const STREAMS: u64 = 3;

/// Of what share of the engine's budget all of them together take at most: one half.
pub(in crate::engine) const SHARE: u64 = 2;

/// The largest object: with 10,000 parts of what memory holds two of. A writer with a spool has no such
/// bound.
pub const MAX_RECEIVED: u64 = 100 << 30;

/// What must hold of a key for it to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Nothing.
    #[default]
    Anything,
    /// There is no such object.
    Absent,
    /// It has this version.
    Version(ETag),
}

impl From<Wanted> for Guard {
    fn from(wanted: Wanted) -> Self {
        match wanted {
            Wanted::Anything => Self::None,
            Wanted::Absent => Self::Absent,
            Wanted::Version(etag) => Self::Same(etag),
        }
    }
}

/// What is to be written.
#[derive(Debug)]
pub struct Incoming {
    /// The headers it is stored with.
    pub headers: Headers,
    /// What must hold of the key.
    pub wanted: Wanted,
    /// How many bytes come, where that was announced.
    pub length: Option<u64>,
    /// What was announced of them.
    pub digests: Digests,
}

/// Why bytes do not arrive any more: the client left, or its connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left;

impl Engine {
    /// Writes an object as its bytes arrive; gives its tag. From when it returns, readers in this
    /// process find it.
    ///
    /// # Errors
    /// [`WriteError::Changed`] where what was wanted of the key does not hold,
    /// [`WriteError::Digest`], [`WriteError::TooLarge`], [`WriteError::Interrupted`],
    /// [`WriteError::Closing`], the origin's, or [`Error::Overloaded`](crate::engine::Error::Overloaded)
    /// where there is no memory, or what is being published of it takes long. Then the object is what it was before, but where the
    /// origin did not answer in the end: it may have been written.
    pub async fn receive(
        &self,
        source: &Arc<Source>,
        key: &ObjectKey,
        incoming: Incoming,
        body: impl Stream<Item = Result<Bytes, Left>> + Send + Unpin + 'static,
    ) -> Result<ETag, WriteError> {
        let id = source.object(key);
        if incoming.length.is_some_and(|length| length > MAX_RECEIVED) {
            return Err(WriteError::TooLarge);
        }
        let (engine, source) = (self.clone(), source.clone());
        let (mut tell, told) = oneshot::channel();
        // Once it is about to appear to its end, or the engine's, also if nobody waits for the answer any more.
        self.core.spawn(async move {
            let core = &engine.core;
            let received = Receiving::run(core, &source, &id, incoming, body, tell.closed());
            let result = caught(received).await;
            match &result {
                Ok(_) => engine.tell_of(&id).await,
                // It may have been written all the same.
                Err(_) => engine.forget(&id).await,
            }
            drop(tell.send(result));
        });
        told.await.unwrap_or(Err(WriteError::Closing))
    }

    /// Deletes an object, if what is wanted of it holds. One that is missing is no error.
    ///
    /// S3 stores do not check the version of what they delete, so it is asked for first: a version
    /// that another process writes in between is deleted too.
    ///
    /// # Errors
    /// [`WriteError::Changed`], the origin's, and [`Error::Overloaded`](crate::engine::Error::Overloaded)
    /// where what is being published of it takes long.
    pub async fn delete(
        &self,
        source: &Arc<Source>,
        key: &ObjectKey,
        wanted: &Wanted,
    ) -> Result<(), WriteError> {
        let id = source.object(key);
        let (still, hold) = self.core.hold(&id).await?;
        if *wanted != Wanted::Anything {
            let found = match source.origin.head(key).await {
                Ok(version) => Some(version.etag),
                Err(OriginError::NotFound) => None,
                Err(error) => return Err(error.into()),
            };
            let holds = match (wanted, &found) {
                (Wanted::Version(etag), Some(found)) => found.strong_eq(etag),
                (Wanted::Absent, found) => found.is_none(),
                _ => false,
            };
            if !holds {
                return Err(WriteError::Changed);
            }
        }
        let (engine, origin) = (self.clone(), source.origin.clone());
        let work = async move {
            let delete = origin.writing().delete(&id.key);
            let deleted = engine.core.change_key(&id, delete).await;
            // Let go of before mounts are told: their kernel may wait there for who waits for this.
            if let Some(still) = still.filter(|_| deleted.is_ok()) {
                still.superseded().await;
            }
            if deleted.is_ok() {
                engine.core.forget_times(&id);
            }
            drop(hold);
            engine.forget(&id).await;
            Ok(deleted?)
        };
        self.core.to_its_end(work).await
    }

    /// Nothing that was begun before brings an old version back, and nobody keeps one.
    async fn forget(&self, id: &ObjectId) {
        self.core.forget(id);
        self.tell_of(id).await;
    }

    /// Frontends that keep something of an object drop it.
    async fn tell_of(&self, id: &ObjectId) {
        let scope = Scope::Key(id.key.clone());
        let ids = self.core.everywhere(id);
        join_all(ids.iter().map(|id| self.core.tell(id.origin, &scope))).await;
    }
}

/// Memory for one client.
struct Memory([Charge; 2]);

impl Memory {
    async fn take(core: &Core, length: Option<u64>) -> Result<Self, WriteError> {
        let most = PART * (STREAMS + 1);
        let bytes = length.map_or(most, |length| length.clamp(1, most));
        let share = core.received.demand(bytes).await?;
        Ok(Self([share, core.budget.demand(bytes).await?]))
    }

    /// Gives back all but so many bytes.
    fn keep(&mut self, bytes: u64) {
        for charge in &mut self.0 {
            *charge = charge.split(bytes);
        }
    }
}

/// Others that an object is kept from while it appears, and what of it was closed before and is older.
struct Alone {
    still: Option<Still>,
    _hold: Hold,
}

/// An object on its way in and up.
struct Receiving {
    core: Arc<Core>,
    source: Arc<Source>,
    id: ObjectId,
    incoming: Incoming,
    upload: Option<Upload>,
    sent: JoinSet<Result<CompletedPart, OriginError>>,
    parts: Vec<CompletedPart>,
    /// What memory holds of them.
    chunks: Arc<PartChunks>,
    filling: Filling,
    size: u64,
}

impl Receiving {
    async fn run(
        core: &Arc<Core>,
        source: &Arc<Source>,
        id: &ObjectId,
        incoming: Incoming,
        body: impl Stream<Item = Result<Bytes, Left>> + Send + Unpin,
        left: impl Future<Output = ()> + Send,
    ) -> Result<ETag, WriteError> {
        let ready = async {
            let mut memory = Memory::take(core, incoming.length).await?;
            let mut receiving = Self {
                core: core.clone(),
                source: source.clone(),
                id: id.clone(),
                incoming,
                upload: None,
                sent: JoinSet::new(),
                parts: Vec::new(),
                chunks: Arc::new(PartChunks::new(core)),
                filling: Filling::default(),
                size: 0,
            };
            receiving.take_in(body).await?;
            // It may have to wait, and others want to write.
            memory.keep(receiving.filling.held());
            let (still, _hold) = core.hold(id).await?;
            Ok::<_, WriteError>((receiving, memory, Alone { still, _hold }))
        };
        let published = async {
            let (mut receiving, _memory, alone) = tokio::select! {
                biased;
                ready = ready => ready?,
                () = left => return Err(WriteError::Interrupted),
            };
            let published = receiving.publish().await?;
            if let Some(still) = alone.still {
                still.superseded().await;
            }
            Ok(receiving.settle(published).await)
        };
        tokio::select! {
            biased;
            published = published => published,
            // It appears whole or not at all, whenever that is.
            () = core.stop.cancelled() => Err(WriteError::Closing),
        }
    }

    async fn take_in(
        &mut self,
        mut body: impl Stream<Item = Result<Bytes, Left>> + Send + Unpin,
    ) -> Result<(), WriteError> {
        let sizes = sizes(self.incoming.length);
        let most = self.incoming.length.unwrap_or(MAX_RECEIVED);
        let mut index = 0;
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|Left| WriteError::Interrupted)?;
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
        self.all_sent(index + 1).await
    }

    /// Sends the part that is filled; waits while too many are on their way.
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
            self.landed().await?;
        }
        let range = ByteRange::new(self.size - self.filling.held(), self.size);
        let pieces = self.filling.take();
        let (core, origin) = (self.core.clone(), self.source.origin.clone());
        let chunks = self.chunks.clone();
        let profile = self.source.profile.load_full();
        self.sent.spawn(async move {
            let passing = chunks.begin(&profile, number, range);
            if let Some(passing) = &passing {
                passing.pass_all(&core, &pieces);
            }
            let payload = Payload::pieces(pieces);
            let crc32c = upload.sums.listed(payload.sums());
            let etag = origin.writing().part(&upload, number, payload).await?;
            if let Some(passing) = passing {
                // The same memory that the checksum is of.
                chunks.keep(&passing, None, etag.clone());
            }
            Ok(CompletedPart {
                number,
                etag,
                crc32c,
            })
        });
        Ok(())
    }

    async fn landed(&mut self) -> Result<(), WriteError> {
        match self.sent.join_next().await {
            Some(Ok(part)) => self.parts.push(part?),
            Some(Err(_)) => return Err(WriteError::Closing),
            None => {}
        }
        Ok(())
    }

    /// Sends the last part, once everything has arrived as it was announced.
    async fn all_sent(&mut self, number: u32) -> Result<(), WriteError> {
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
            self.send(number, STREAMS).await?;
        }
        while !self.sent.is_empty() {
            self.landed().await?;
        }
        Ok(())
    }
}

/// How an object is cut. One of an announced length into parts of one size, which some stores insist on.
fn sizes(length: Option<u64>) -> PartSizes {
    let parts = u64::from(MAX_PARTS);
    match length {
        Some(length) => {
            let times = length.div_ceil(PART * parts).max(1);
            PartSizes::new(PART * times).doubling_after(parts)
        }
        None => PartSizes::new(PART).doubling_after(parts / 2),
    }
}

/// As many at once as hold no more memory than four of the smallest.
fn streams(part: u64) -> u64 {
    (PART * STREAMS / part).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes fits into the parts that an upload has, and into the memory that was charged.
        #[test]
        fn no_more_is_held_than_was_charged(length in 1..=MAX_RECEIVED, announced: bool) {
            let cut = sizes(announced.then_some(length));
            let last = cut.index(length - 1);
            prop_assert!(last < MAX_PARTS);
            let part = cut.range(last, u64::MAX).len();
            prop_assert!(part * (streams(part) + 1) <= PART * (STREAMS + 1));
            prop_assert!(!announced || part == cut.first());
        }
    }
}
