//! The read path: turns "this key, these bytes" into bytes of exactly one version.
//!
//! # The life of a read
//!
//! [`Engine::open`] asks the metadata store which version the key has. If that version is known and fresh, the object
//! opens without a request to the origin. Otherwise `resolve` asks the origin, once for all waiting callers, with a
//! ranged GET that also brings the first bytes.
//!
//! [`Object::read_at`] makes a [`Reader`]. It looks for each chunk in memory. If the chunk is not there, the reader
//! *schedules* it: the version's `fill` holds a *flight* for every chunk under way, from disk or from the origin, and
//! starts new ones. Any number of readers can read a flight while it arrives. The flights of one request form a *part*;
//! readers hold a lease on it, and when the last lease is dropped, the `fetch` behind it stops.
//!
//! Chunks that have arrived are put into the store in the background. One `budget` is charged for all data in memory
//! outside the store's memory tier.
//!
//! Every chunk is addressed by its version, and every request for a part carries `If-Match`, so one answer never mixes
//! two versions. If the object changed, readers get [`Error::Changed`].

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use prometheus_client::registry::Registry;

use tidegate_cache::{ChunkStore, Entry, MetaError, MetaStore, Record};
use tidegate_origin::Origin;
use tidegate_plan::freshness::{Judgement, Policy};
use tidegate_plan::readahead::Limits;
use tidegate_plan::{Client, Geometry, ObjectId, ObjectKey, OriginId, RangeSpec, Timestamp};

mod board;
pub mod budget;
pub mod core;
mod cursor;
mod disk;
pub mod error;
mod fetch;
mod fill;
mod flight;
mod hedge;
mod identities;
pub mod keys;
mod metrics;
pub mod names;
pub mod object;
mod pace;
mod pins;
mod reader;
mod ready;
pub mod resolve;
mod siblings;
pub mod source;
pub mod stat;
pub mod times;
mod unconfirmed;
pub mod variant;
pub mod warm;
mod watch;
pub mod written;

pub use self::core::Clock;
pub use budget::Budget;
pub use error::Error;
pub use object::{Forward, Found, Object, Outcome};
pub use reader::Reader;
pub use source::Source;
pub use stat::Stat;
pub use tidegate_cache::Tier;
pub use variant::{Known, Variant, VariantReader};
pub use watch::{Scope, Watch};

use self::core::Core;
use fill::Terms;
use object::{Pinned, locate};
use resolve::{Question, Resolution};

/// The engine: shared by every frontend of the process.
#[derive(Debug, Clone)]
pub struct Engine {
    core: Arc<Core>,
}

/// The parts from which an engine is built.
pub struct Parts {
    /// The store of chunks.
    pub chunks: Arc<dyn ChunkStore>,
    /// The store of versions.
    pub meta: Arc<dyn MetaStore>,
    /// The sizes into which objects are cut.
    pub geometry: Geometry,
    /// The memory budget for everything outside the memory tier.
    pub budget: Budget,
    /// The source of the current time.
    pub clock: Clock,
    /// The runtime for requests to origins and disks. A separate one keeps bulk transfers from delaying answers from
    /// memory; `None` uses the caller's runtime.
    pub runtime: Option<tokio::runtime::Handle>,
    /// The origins by their configured names. [`Engine::ready`] probes them; origins of one bucket learn of each
    /// other's writes and purges.
    pub origins: Vec<(String, Arc<dyn Origin>)>,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("geometry", &self.geometry)
            .finish_non_exhaustive()
    }
}

/// The caller's options for opening an object.
#[derive(Debug, Clone, Default)]
pub struct Open {
    /// The bytes that the caller reads first: a cold open fetches them with the version in one request. `None` opens
    /// for the version alone (HEAD).
    pub first: Option<RangeSpec>,
    /// Confirms the version with the origin whatever its age (a client's `no-cache`).
    pub revalidate: bool,
    /// Guarantees that the first bytes can be had: if the version is no longer fresh and they are not cached, the open
    /// requests them and waits.
    pub certain: bool,
    /// Asks the origin nothing (a client's `only-if-cached`).
    pub only_if_cached: bool,
    /// Accepts a HEAD's bare 404 as the answer. Another request that the caller makes at the same time shows that the
    /// bucket exists.
    pub bare: bool,
    /// No client waits: the open gives up at once if memory or the origin has no room to spare.
    pub quiet: bool,
    /// The client whose share of memory and requests is used.
    pub client: Client,
}

impl Engine {
    /// Puts an engine together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            core: Arc::new(Core::new(parts)),
        }
    }

    /// Registers the engine's metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.core.metrics.register(registry);
    }

    /// Returns the object bytes that the origin sent, and those that readers took. Their ratio is the read amplification.
    #[must_use]
    pub fn traffic(&self) -> (u64, u64) {
        (
            self.core.metrics.fetched.get(),
            self.core.metrics.delivered.get(),
        )
    }

    /// Returns the memory budget: its size, and the bytes reserved from it.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.core.budget
    }

    /// Returns the shared state, for the write path.
    #[must_use]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Finds out which version `key` has now, from the metadata store or from the origin.
    ///
    /// The branches that ask the origin are boxed, so that the future of a hit is small: it is moved along with its
    /// answer.
    ///
    /// # Errors
    /// [`Error::NotFound`] also from a negative entry; the other errors if the origin was needed and failed, and no
    /// stale answer was allowed.
    pub async fn open(
        &self,
        source: &Arc<Source>,
        key: &ObjectKey,
        how: Open,
    ) -> Result<Object, Error> {
        let id = source.object(key);
        let entry = match self.core.meta.peek(&id) {
            Some(entry) => Some(entry),
            None => self.core.meta.load(&id).await,
        };
        let now = self.core.now();
        let record = match entry {
            Some(Entry::Missing { since })
                if !how.revalidate && now.since(since) < source.profile.load().negative_ttl =>
            {
                return Err(Error::NotFound);
            }
            Some(Entry::Present(record)) => record,
            seen => return Box::pin(self.open_unknown(source, id, how, seen)).await,
        };
        let judge = |record: &Record| {
            let policy = Policy::new(&record.version, &source.profile.load(), record.confirmed);
            let judgement = policy.judge(now.since(record.confirmed), record.must_confirm);
            (policy, judgement)
        };
        let (mut policy, mut judgement) = judge(&record);
        let mut record = record;
        if judgement != Judgement::Fresh
            && !how.revalidate
            && let Some(confirmed) = self.confirmed_by_listing(source, &id, &record)
        {
            (policy, judgement) = judge(&confirmed);
            record = confirmed;
        }
        let how = Open {
            certain: how.certain
                && judgement != Judgement::Fresh
                && !self.is_cached(&record, how.first),
            ..how
        };
        match judgement {
            _ if how.revalidate && !how.only_if_cached => {
                Box::pin(self.confirm(source, id, how, record, policy)).await
            }
            Judgement::Fresh => Ok(self.at_hand(source, id, record, policy, now, how.client)),
            Judgement::WhileRevalidating if how.only_if_cached => {
                Ok(self.at_hand(source, id, record, policy, now, how.client))
            }
            Judgement::WhileRevalidating if !how.certain => {
                self.confirm_behind(source, &id, &record, how.client);
                Ok(self.at_hand(source, id, record, policy, now, how.client))
            }
            Judgement::Stale if how.only_if_cached => Err(Error::NotCached),
            Judgement::WhileRevalidating | Judgement::Stale => {
                Box::pin(self.confirm(source, id, how, record, policy)).await
            }
        }
    }

    /// Returns whether all of the given bytes of a version are cached.
    fn is_cached(&self, record: &Record, bytes: Option<RangeSpec>) -> bool {
        let range = bytes.and_then(|bytes| bytes.resolve(record.version.size));
        range.is_none_or(|range| matches!(locate(&self.core, record.id, range), Found::All(_)))
    }

    /// Opens a key of which nothing usable is known.
    async fn open_unknown(
        &self,
        source: &Arc<Source>,
        id: ObjectId,
        how: Open,
        seen: Option<Entry>,
    ) -> Result<Object, Error> {
        if how.only_if_cached {
            return Err(Error::NotCached);
        }
        let (shared, collapsed) = resolve::resolve(self.question(source, &id, seen, &how));
        let found = shared.await?;
        Ok(self.resolved(source, id, found, collapsed, how.client))
    }

    /// Confirms a known version with the origin. If the origin fails, the known version may be served stale (RFC 5861,
    /// 4).
    async fn confirm(
        &self,
        source: &Arc<Source>,
        id: ObjectId,
        how: Open,
        record: Arc<Record>,
        policy: Policy,
    ) -> Result<Object, Error> {
        let seen = Some(Entry::Present(record.clone()));
        let question = self.question(source, &id, seen, &how);
        let (shared, collapsed) = resolve::resolve(question);
        match shared.await {
            Ok(found) => Ok(self.resolved(source, id, found, collapsed, how.client)),
            Err(error) => {
                let now = self.core.now();
                if !error.excuses_stale() || !policy.serves_on_error(now.since(record.confirmed)) {
                    return Err(error);
                }
                let generation = self.core.meta.generation(&id).await;
                if !resolve::is_of(&record, &id, generation) {
                    return Err(error);
                }
                self.core.metrics.stale_on_error.inc();
                let mut object = self.at_hand(source, id, record, policy, now, how.client);
                object.outcome.forward = Some(Forward::Failed);
                Ok(object)
            }
        }
    }

    /// Confirms a version in the background of the answer that uses it, unless a resolve is under way.
    fn confirm_behind(
        &self,
        source: &Arc<Source>,
        id: &ObjectId,
        record: &Arc<Record>,
        client: Client,
    ) {
        if resolve::is_under_way(&self.core, id) {
            return;
        }
        let how = Open {
            first: Some(RangeSpec::From(0)),
            client,
            ..Open::default()
        };
        let seen = Some(Entry::Present(record.clone()));
        let (shared, _) = resolve::resolve(self.question(source, id, seen, &how));
        let stop = self.core.stop.clone();
        self.core.spawn(async move {
            let confirmed = async {
                if let Ok(Resolution {
                    first: Some(lease), ..
                }) = shared.await
                {
                    // The new version's first bytes count as requested: the client that caused this confirmation comes
                    // back for them.
                    lease.part().landed().await;
                }
            };
            tokio::select! {
                () = confirmed => {}
                () = stop.cancelled() => {}
            }
        });
    }

    fn question(
        &self,
        source: &Arc<Source>,
        id: &ObjectId,
        seen: Option<Entry>,
        how: &Open,
    ) -> Question {
        Question {
            core: self.core.clone(),
            source: source.clone(),
            id: id.clone(),
            seen,
            first: how.first,
            forced: how.revalidate,
            certain: how.certain,
            bare: how.bare,
            quiet: how.quiet,
            client: how.client,
        }
    }

    /// Returns an object on the recorded version, without a request.
    pub fn at_hand(
        &self,
        source: &Source,
        id: ObjectId,
        record: Arc<Record>,
        policy: Policy,
        now: Timestamp,
        client: Client,
    ) -> Object {
        let age = now.since(record.confirmed);
        let outcome = Outcome {
            forward: None,
            collapsed: false,
            stored: policy.storable,
            age,
            ttl_ms: millis(policy.lifetime) - millis(age),
        };
        let profile = source.profile.load();
        let terms = Terms::new(&profile, policy.storable, client);
        let limits = Limits {
            window: profile.read_ahead,
            streams: profile.streams,
        };
        let pinned = Pinned::new(
            self.core.clone(),
            source.origin.clone(),
            id,
            record,
            terms,
            limits,
        );
        Object {
            pinned: Arc::new(pinned),
            outcome,
        }
    }

    fn resolved(
        &self,
        source: &Source,
        id: ObjectId,
        found: Resolution,
        collapsed: bool,
        client: Client,
    ) -> Object {
        let Resolution {
            record,
            forward,
            first,
        } = found;
        let policy = Policy::new(&record.version, &source.profile.load(), record.confirmed);
        let mut object = self.at_hand(source, id, record, policy, self.core.now(), client);
        object.outcome.forward = Some(forward);
        object.outcome.collapsed = collapsed;
        object.pinned.hold(first);
        object
    }

    /// Removes a key under every identity of the bucket. The removal is durable on return, and nothing cached before is
    /// served afterwards.
    ///
    /// # Errors
    /// If the removal could not be made durable; it still holds in memory.
    pub async fn purge_key(&self, source: &Source, key: &ObjectKey) -> Result<(), MetaError> {
        let ids = self.core.everywhere(&source.object(key));
        let supersede = || {
            resolve::supersede(&self.core, |other| ids.contains(other));
            for id in &ids {
                self.core.names.purge_key(id.origin, key.as_str());
            }
        };
        supersede();
        for id in &ids {
            pins::release_known(&self.core, id).await;
        }
        let purged = join_all(ids.iter().map(|id| self.core.meta.purge_key(id))).await;
        // Again, for requests that read the old generation in between.
        supersede();
        let scope = Scope::Key(key.clone());
        join_all(ids.iter().map(|id| self.core.tell(id.origin, &scope))).await;
        purged.into_iter().collect()
    }

    /// Removes every key that starts with `prefix`, in constant time; otherwise like [`Engine::purge_key`].
    ///
    /// # Errors
    /// If the removal could not be made durable; it still holds in memory.
    pub async fn purge_prefix(&self, source: &Source, prefix: &str) -> Result<(), MetaError> {
        let origins = self.core.identities.all(source.origin.id());
        let covered =
            |id: &ObjectId| origins.contains(&id.origin) && id.key.as_str().starts_with(prefix);
        let supersede = || {
            resolve::supersede(&self.core, covered);
            for origin in &origins {
                self.core.names.purge_prefix(*origin, prefix);
            }
        };
        supersede();
        let purge = |origin: &OriginId| self.core.meta.purge_prefix(*origin, prefix);
        let purged = join_all(origins.iter().map(purge)).await;
        supersede();
        let scope = Scope::Prefix(prefix.into());
        join_all(origins.iter().map(|origin| self.core.tell(*origin, &scope))).await;
        purged.into_iter().collect()
    }

    /// Checks that the origins answer and that the cache index is loaded.
    ///
    /// # Errors
    /// One line for an operator for each that is missing.
    pub async fn ready(&self) -> Result<(), Vec<String>> {
        self.core.readiness.check(self.core.chunks.ready()).await
    }

    /// Checks that the bucket answers. A probe's result that is not older than `stands` is used again.
    ///
    /// # Errors
    /// The reason for which the bucket does not answer.
    pub async fn reachable(&self, source: &Source, stands: Duration) -> Result<(), Error> {
        let asked = self.core.readiness.reachable(source.origin.id(), stands);
        Ok(asked.await?)
    }

    /// Returns the cache's problems that do not prevent answers, as text, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.core.chunks.notes();
        notes.extend(self.core.meta.notes());
        notes
    }

    /// Shuts down in order within `deadline`: stops fetches and writes out the stores' pending data. Fetches get one
    /// half of the time, the stores, in parallel, the other half.
    pub async fn close(&self, deadline: Duration) {
        self.core.stop.cancel();
        self.core.tasks.close();
        let share = deadline / 2;
        let tasks = tokio::time::timeout(share, self.core.tasks.wait());
        let ended = tasks.await.is_ok();
        let chunks = tokio::time::timeout(share, self.core.chunks.close());
        let meta = async {
            match ended {
                true => self.core.meta.close().await,
                // A task that still runs may change the records, so this is no orderly shutdown.
                false => self.core.meta.flush().await,
            }
        };
        let (chunks, meta) = tokio::join!(chunks, tokio::time::timeout(share, meta));
        if !ended || chunks.is_err() || meta.is_err() {
            let (fetches, chunks, metadata) = (ended, chunks.is_ok(), meta.is_ok());
            tracing::warn!(
                ?deadline,
                fetches,
                chunks,
                metadata,
                "the stores were not closed in time; what they had pending is lost"
            );
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
