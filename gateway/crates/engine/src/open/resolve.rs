//! Finds out which version a key has, with at most one request to the origin for all waiting callers.
//!
//! The first ranged GET answers that too, so a cold open costs one request. A caller that opens a key during its
//! resolve waits for the same answer; when all callers leave, the request is dropped. A purge or a write supersedes
//! every resolve begun before it; those then install nothing.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared, ready};

use super::ask::{OriginVersion, ask};
use super::first_bytes::pay;
use super::outcome::ForwardReason;
use super::records::is_of;
use crate::fetch::options::FetchOptions;
use crate::fetch::part::Lease;
use crate::fetch::version_fetches::VersionFetches;
use crate::invalidate::pins;
use crate::{Core, Error, ReadContext};
use tidegate_cache::{Entry, Record};
use tidegate_origin::cause::run_for;
use tidegate_origin::client::run_for_client;
use tidegate_origin::{Cause, OriginError};
use tidegate_plan::freshness::{Judgement, Policy};
use tidegate_plan::{Client, ObjectId, RangeSpec, Timestamp};
use tidegate_telemetry::trace;

type ResolveFuture = BoxFuture<'static, Result<Resolution, Error>>;

/// A resolve under way, kept alive by its waiting callers and not by the table.
pub(crate) struct PendingResolve {
    token: u64,
    limits: ResolveLimits,
    shared: WeakShared<ResolveFuture>,
}

/// The limits of a resolve, for which its answer may not do for another caller.
#[derive(Debug, Clone, Copy)]
struct ResolveLimits {
    /// It gives up sooner than a client would.
    quiet: bool,
    /// It believes a bare 404.
    bare: bool,
}

impl ResolveLimits {
    /// Returns the limits that `own` does not have.
    fn beyond(self, own: Self) -> Self {
        Self {
            quiet: self.quiet && !own.quiet,
            bare: self.bare && !own.bare,
        }
    }

    /// Returns whether an error may come of the limits: a request without them may have another result.
    fn may_cause(self, error: &Error) -> bool {
        match error {
            Error::NotFound => self.bare,
            _ => self.quiet,
        }
    }
}

/// The result of a resolve.
#[derive(Debug, Clone)]
pub(crate) struct Resolution {
    pub(crate) record: Arc<Record>,
    pub(crate) forward: ForwardReason,
    /// The lease on the bytes that came with the answer, until a reader has its first chunk.
    pub(crate) first: Option<Arc<Lease>>,
}

/// A request to resolve a key.
#[derive(Clone)]
pub(crate) struct ResolveRequest {
    pub(crate) core: Arc<Core>,
    pub(crate) source: Arc<ReadContext>,
    pub(crate) id: ObjectId,
    /// The entry known for the key when the question arose: a version to confirm or replace, a negative entry, or
    /// nothing.
    pub(crate) seen: Option<Entry>,
    /// The bytes to fetch first.
    pub(crate) first: Option<RangeSpec>,
    /// The client itself asks for confirmation: a resolve begun before does not count.
    pub(crate) forced: bool,
    /// Whether the first bytes are also fetched if the known version still stands.
    pub(crate) certain: bool,
    /// See [`OpenOptions::bare`](super::OpenOptions::bare).
    pub(crate) bare: bool,
    /// See [`OpenOptions::quiet`](super::OpenOptions::quiet).
    pub(crate) quiet: bool,
    /// The client that asked first; callers that join wait in its turn.
    pub(crate) client: Client,
}

impl ResolveRequest {
    /// Returns the known version.
    fn known_record(&self) -> Option<&Arc<Record>> {
        match &self.seen {
            Some(Entry::Present(record)) => Some(record),
            _ => None,
        }
    }

    fn limits(&self) -> ResolveLimits {
        ResolveLimits {
            quiet: self.quiet,
            bare: self.believes_bare(),
        }
    }

    /// Returns whether it believes a HEAD's bare 404. A GET's names a missing bucket.
    fn believes_bare(&self) -> bool {
        self.bare && self.first.is_none()
    }

    /// Returns the cause of its requests: its own, unless the calling task carries one.
    fn cause(&self) -> Cause {
        Cause::current(match self.known_record() {
            Some(_) => Cause::Revalidate,
            None if self.bare => Cause::Names,
            None if self.quiet => Cause::Folder,
            None => Cause::Demand,
        })
    }

    /// Returns the result of a resolve that ended after this question arose and before it could join. Call it under the
    /// table's lock; a resolve leaves the table only after it has installed its result. A version must be fresh: its row
    /// may also have come too late for the look-up.
    fn ended_result(&self) -> Option<Result<Resolution, Error>> {
        let entry = self.core.meta.peek(&self.id);
        match entry.filter(|entry| self.seen.as_ref() != Some(entry))? {
            Entry::Present(record) if !self.is_fresh(&record) => None,
            Entry::Present(record) => Some(Ok(Resolution {
                forward: forward(false, self.known_record().map(Arc::as_ref), &record),
                record,
                first: None,
            })),
            Entry::Missing { .. } => Some(Err(Error::NotFound)),
        }
    }

    fn is_fresh(&self, record: &Record) -> bool {
        let core = &self.core;
        let judged = core.judge(&self.source, &self.id, record, core.now());
        judged.judgement == Judgement::Fresh
    }
}

/// Joins the resolve of the key that is under way, or begins one. Returns whether it joined.
pub(crate) fn resolve(request: ResolveRequest) -> (Shared<ResolveFuture>, bool) {
    let core = request.core.clone();
    let table = core.clone();
    let mut resolves = table.resolves();
    if !request.forced {
        let pending = resolves.get(&request.id);
        let shared = pending.and_then(|pending| Some((pending.limits, pending.shared.upgrade()?)));
        if let Some((limits, shared)) = shared {
            return (join(shared, limits, request), true);
        }
        if let Some(answer) = request.ended_result() {
            return (ready(answer).boxed().shared(), true);
        }
    }
    let token = core.next_number();
    let limits = request.limits();
    let id = request.id.clone();
    let entry = ResolveEntry {
        core: core.clone(),
        id: id.clone(),
        token,
    };
    // It starts at its first poll, which is not under the table's lock.
    let (client, cause) = (request.client, request.cause());
    let run = run_for(cause, run_for_client(client, run_resolve(request, entry)));
    let run = trace::carry(run);
    let carried = async move { core.run_on_origin_runtime(run).await };
    let shared = carried.boxed().shared();
    let weak = shared
        .downgrade()
        .expect("it has not been polled to its end");
    resolves.insert(
        id,
        PendingResolve {
            token,
            limits,
            shared: weak,
        },
    );
    (shared, false)
}

/// Joins a resolve; if its answer does not do for the request, resolves that itself.
fn join(
    shared: Shared<ResolveFuture>,
    limits: ResolveLimits,
    request: ResolveRequest,
) -> Shared<ResolveFuture> {
    let limits = limits.beyond(request.limits());
    if !limits.quiet && !limits.bare {
        return shared;
    }
    let asked = async move {
        match shared.await {
            Err(error) if limits.may_cause(&error) => resolve(request).0.await,
            found => found,
        }
    };
    asked.boxed().shared()
}

/// Returns whether a resolve of the key is under way.
pub(crate) fn is_under_way(core: &Core, id: &ObjectId) -> bool {
    // Dropped after the lock is released: it may be the last handle, whose drop takes the lock.
    let shared = core
        .resolves()
        .get(id)
        .and_then(|pending| pending.shared.upgrade());
    shared.is_some()
}

/// The entry of a resolve in the table; removed when the resolve ends or is dropped.
struct ResolveEntry {
    core: Arc<Core>,
    id: ObjectId,
    token: u64,
}

impl ResolveEntry {
    /// Records the result, unless a purge or a write superseded the resolve. A key is not missing if a listing that was
    /// requested later has shown it.
    fn install(&self, entry: Option<Entry>) {
        let resolves = self.core.resolves();
        if resolves
            .get(&self.id)
            .is_some_and(|pending| pending.token == self.token)
        {
            match entry {
                Some(Entry::Missing { since }) if self.is_listed_since(since) => {
                    self.core.meta.remove(&self.id);
                }
                Some(entry) => self.core.meta.put(&self.id, entry),
                None => self.core.meta.remove(&self.id),
            }
        }
    }

    fn is_listed_since(&self, since: Timestamp) -> bool {
        let ObjectId { origin, key } = &self.id;
        self.core.names.is_file_since(*origin, key.as_str(), since)
    }
}

impl Drop for ResolveEntry {
    fn drop(&mut self) {
        let mut resolves = self.core.resolves();
        if resolves
            .get(&self.id)
            .is_some_and(|pending| pending.token == self.token)
        {
            resolves.remove(&self.id);
        }
    }
}

async fn run_resolve(request: ResolveRequest, entry: ResolveEntry) -> Result<Resolution, Error> {
    let known = request.known_record().cloned();
    let ResolveRequest {
        core,
        source,
        id,
        first,
        forced,
        certain,
        bare,
        quiet,
        client,
        ..
    } = request;
    let generation = core.meta.generation(&id).await;
    let tag_purge = core.meta.last_tag_purge();
    // A confirmation must not carry a version from before a purge into the time after it.
    let known = known.filter(|record| is_of(&core, record, &id, generation));
    let (first, charge) = pay(&core, first, quiet).await?.unzip();
    let asked = core.now();
    let known_version = known.as_deref().filter(|_| !certain);
    let found = match ask(&core, &source, &id, known_version, first, bare, quiet).await {
        Ok(found) => found,
        Err(error) => {
            // A HEAD's 404 has no body that would name a missing bucket. It answers a caller that accepts that (`bare`), but
            // makes no negative entry.
            if error == OriginError::NotFound && (first.is_some() || !bare) {
                entry.install(Some(Entry::Missing { since: asked }));
                pins::release(&core, &id, known);
            }
            return Err(error.into());
        }
    };
    let (version, content) = match found {
        OriginVersion::Same(record) => return Ok(confirm(&entry, *record, asked)),
        OriginVersion::Version(version, content) => (version, content),
    };
    let vid = core
        .meta
        .address_of_answer(&id, &version, (generation, tag_purge));
    let record = Arc::new(Record {
        version: version.clone(),
        id: vid,
        confirmed: asked,
        must_confirm: false,
        written: None,
    });
    let profile = source.profile.load();
    let storable = Policy::new(&version, &profile, asked).storable;
    let forward = forward(forced, known.as_deref(), &record);
    // Before the version is installed: a caller that finds it then also finds its first bytes under way.
    let first = content.zip(charge).and_then(|(content, charge)| {
        let fetches = VersionFetches::get_or_create(&core, &source.origin, &id, &version, vid);
        let options = FetchOptions::new(&profile, storable, client);
        fetches.adopt(content, options, charge).map(Arc::new)
    });
    entry.install(storable.then(|| Entry::Present(record.clone())));
    pins::release(&core, &id, known.filter(|known| known.id != record.id));
    Ok(Resolution {
        record,
        forward,
        first,
    })
}

/// Installs the known version as confirmed by a request that was sent at `asked`.
fn confirm(entry: &ResolveEntry, record: Record, asked: Timestamp) -> Resolution {
    let record = Arc::new(Record {
        confirmed: asked,
        must_confirm: false,
        ..record
    });
    entry.install(Some(Entry::Present(record.clone())));
    Resolution {
        record,
        forward: ForwardReason::Revalidated,
        first: None,
    }
}

fn forward(forced: bool, known: Option<&Record>, now: &Record) -> ForwardReason {
    match known {
        Some(known) if known.id == now.id => ForwardReason::Revalidated,
        _ if forced => ForwardReason::Request,
        Some(_) => ForwardReason::Stale,
        None => ForwardReason::Miss,
    }
}
