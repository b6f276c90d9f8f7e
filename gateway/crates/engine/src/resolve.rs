//! Finds out which version a key has, with at most one request to the origin for all waiting callers.
//!
//! The first ranged GET answers that too, so a cold open costs one request. A caller that opens a key during its
//! resolve waits for the same answer; when all callers leave, the request is dropped. A purge or a write supersedes
//! every resolve begun before it; those then install nothing.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared, ready};
use tokio::time::Instant;

use super::Core;
use super::board::PART;
use super::budget::Charge;
use super::fill::{Fill, Terms};
use super::flight::Lease;
use super::pins;
use super::{Error, Forward, ReadContext};
use tidegate_cache::{Entry, Record};
use tidegate_origin::client::run_for_client;
use tidegate_origin::{Answer, Condition, Content, Get, OriginError, Priority};
use tidegate_plan::freshness::Policy;
use tidegate_plan::{Client, Geometry, ObjectId, RangeSpec, Timestamp, Version, VersionId};

/// The bytes that an open GET requests before the size is known: pictures and documents come whole in this one request,
/// and a reader that goes on in a large object needs these bytes anyway. ADR 0005 has the figures.
pub(super) const FIRST: u64 = 1 << 20;

type Resolving = BoxFuture<'static, Result<Resolution, Error>>;

/// A resolve under way, kept alive by its waiting callers and not by the table.
pub(super) struct Pending {
    token: u64,
    quiet: bool,
    shared: WeakShared<Resolving>,
}

/// The result of a resolve.
#[derive(Debug, Clone)]
pub(super) struct Resolution {
    pub(super) record: Arc<Record>,
    pub(super) forward: Forward,
    /// The lease on the bytes that came with the answer, until a reader has its first chunk.
    pub(super) first: Option<Arc<Lease>>,
}

/// A request to resolve a key.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) core: Arc<Core>,
    pub(super) source: Arc<ReadContext>,
    pub(super) id: ObjectId,
    /// The entry known for the key when the question arose: a version to confirm or replace, a negative entry, or
    /// nothing.
    pub(super) seen: Option<Entry>,
    /// The bytes to fetch first.
    pub(super) first: Option<RangeSpec>,
    /// The client itself asks for confirmation: a resolve begun before does not count.
    pub(super) forced: bool,
    /// Whether the first bytes are also fetched if the known version still stands.
    pub(super) certain: bool,
    /// See [`Open::bare`](super::Open::bare).
    pub(super) bare: bool,
    /// See [`Open::quiet`](super::Open::quiet).
    pub(super) quiet: bool,
    /// The client that asked first; callers that join wait in its turn.
    pub(super) client: Client,
}

impl Question {
    /// Returns the known version.
    fn known(&self) -> Option<&Arc<Record>> {
        match &self.seen {
            Some(Entry::Present(record)) => Some(record),
            _ => None,
        }
    }

    /// Returns the result of a resolve that ended after this question arose and before it could join. Call it under the
    /// table's lock; a resolve leaves the table only after it has installed its result.
    fn answered(&self) -> Option<Result<Resolution, Error>> {
        let entry = self.core.meta.peek(&self.id);
        match entry.filter(|entry| self.seen.as_ref() != Some(entry))? {
            Entry::Present(record) if record.must_confirm => None,
            Entry::Present(record) => Some(Ok(Resolution {
                forward: forward(false, self.known().map(Arc::as_ref), &record),
                record,
                first: None,
            })),
            Entry::Missing { .. } => Some(Err(Error::NotFound)),
        }
    }
}

/// Joins the resolve of the key that is under way, or begins one. Returns whether it joined.
pub(super) fn resolve(question: Question) -> (Shared<Resolving>, bool) {
    let core = question.core.clone();
    let table = core.clone();
    let mut resolves = table.resolves();
    if !question.forced {
        let pending = resolves.get(&question.id);
        let shared = pending.and_then(|pending| Some((pending.quiet, pending.shared.upgrade()?)));
        match shared {
            Some((true, quiet)) if !question.quiet => return (or_itself(quiet, question), true),
            Some((_, shared)) => return (shared, true),
            None => {}
        }
        if let Some(answer) = question.answered() {
            return (ready(answer).boxed().shared(), true);
        }
    }
    let token = core.number();
    let quiet = question.quiet;
    let id = question.id.clone();
    let place = Place {
        core: core.clone(),
        id: id.clone(),
        token,
    };
    // It starts at its first poll, which is not under the table's lock.
    let run = run_for_client(question.client, run(question, place));
    let carried = async move { core.carry_out(run).await };
    let shared = carried.boxed().shared();
    let weak = shared
        .downgrade()
        .expect("it has not been polled to its end");
    resolves.insert(
        id,
        Pending {
            token,
            quiet,
            shared: weak,
        },
    );
    (shared, false)
}

/// Joins a quiet resolve; if that fails, resolves the question itself, for a quiet one gives up sooner.
fn or_itself(quiet: Shared<Resolving>, question: Question) -> Shared<Resolving> {
    let asked = async move {
        match quiet.await {
            Err(error) if error != Error::NotFound => resolve(question).0.await,
            found => found,
        }
    };
    asked.boxed().shared()
}

/// Returns whether a resolve of the key is under way.
pub(super) fn is_under_way(core: &Core, id: &ObjectId) -> bool {
    // Dropped after the lock is released: it may be the last handle, whose drop takes the lock.
    let shared = core
        .resolves()
        .get(id)
        .and_then(|pending| pending.shared.upgrade());
    shared.is_some()
}

/// Supersedes every matching resolve begun so far: those will install nothing.
pub fn supersede(core: &Core, matches: impl Fn(&ObjectId) -> bool) {
    core.resolves().retain(|id, _| !matches(id));
}

/// Records a write's result for a key; supersedes every resolve and doubt begun so far.
pub fn remember(core: &Core, id: &ObjectId, entry: Option<Entry>) {
    let mut resolves = core.resolves();
    resolves.remove(id);
    match entry {
        Some(entry) => core.meta.put(id, entry),
        None => core.meta.remove(id),
    }
}

/// Marks the known version for confirmation before it is served next, if `is_doubted` says so. The table's lock is
/// held, so a concurrent write is recorded after this and not overwritten by the version that it replaced.
pub(super) fn doubt(core: &Core, id: &ObjectId, is_doubted: impl FnOnce(&Record) -> bool) {
    let _alone = core.resolves();
    if let Some(Entry::Present(record)) = core.meta.peek(id)
        && !record.must_confirm
        && is_doubted(&record)
    {
        let doubted = Record {
            must_confirm: true,
            ..Record::clone(&record)
        };
        core.meta.put(id, Entry::Present(Arc::new(doubted)));
    }
}

/// Records that a version was confirmed, if it is still the known one.
pub(super) fn confirm(core: &Core, id: &ObjectId, known: &Arc<Record>, confirmed: &Arc<Record>) {
    let _alone = core.resolves();
    if core.meta.peek(id).as_ref() == Some(&Entry::Present(known.clone())) {
        core.meta.put(id, Entry::Present(confirmed.clone()));
    }
}

/// A resolve's place in the table; removed when the resolve ends or is dropped.
struct Place {
    core: Arc<Core>,
    id: ObjectId,
    token: u64,
}

impl Place {
    /// Records the result, unless a purge or a write superseded the resolve.
    fn install(&self, entry: Option<Entry>) {
        let resolves = self.core.resolves();
        if resolves
            .get(&self.id)
            .is_some_and(|pending| pending.token == self.token)
        {
            match entry {
                Some(entry) => self.core.meta.put(&self.id, entry),
                None => self.core.meta.remove(&self.id),
            }
        }
    }
}

impl Drop for Place {
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

async fn run(question: Question, place: Place) -> Result<Resolution, Error> {
    let known = question.known().cloned();
    let Question {
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
    } = question;
    let generation = core.meta.generation(&id).await;
    // A confirmation must not carry a version from before a purge into the time after it.
    let known = known.filter(|record| is_of(record, &id, generation));
    let (first, charge) = pay(&core, first, quiet).await?.unzip();
    let asked = core.now();
    let at_hand = known.as_deref().filter(|_| !certain);
    let found = match ask(&core, &source, &id, at_hand, first, bare, quiet).await {
        Ok(found) => found,
        Err(error) => {
            // A bare 404 answers the caller that accepts it, but is no ground for a negative entry.
            if error == OriginError::NotFound && (first.is_some() || !bare) {
                place.install(Some(Entry::Missing { since: asked }));
                pins::release(&core, &id, known);
            }
            return Err(error.into());
        }
    };
    let (version, content) = match found {
        Found::Same(record) => {
            let record = Arc::new(Record {
                confirmed: asked,
                must_confirm: false,
                ..*record
            });
            place.install(Some(Entry::Present(record.clone())));
            return Ok(Resolution {
                record,
                forward: Forward::Revalidated,
                first: None,
            });
        }
        Found::Version(version, content) => (version, content),
    };
    let vid = VersionId::new(&id, &version, generation);
    let record = Arc::new(Record {
        version: version.clone(),
        id: vid,
        confirmed: asked,
        must_confirm: false,
    });
    let profile = source.profile.load();
    let storable = Policy::new(&version, &profile, asked).storable;
    let forward = forward(forced, known.as_deref(), &record);
    // Before the version is installed: a caller that finds it then also finds its first bytes under way.
    let first = content.zip(charge).and_then(|(content, charge)| {
        let fill = Fill::of(&core, &source.origin, &id, &version, vid);
        fill.adopt(content, Terms::new(&profile, storable, client), charge)
            .map(Arc::new)
    });
    place.install(storable.then(|| Entry::Present(record.clone())));
    pins::release(&core, &id, known.filter(|known| known.id != record.id));
    Ok(Resolution {
        record,
        forward,
        first,
    })
}

/// Returns whether no purge has covered the key since the record was made.
pub fn is_of(record: &Record, id: &ObjectId, generation: u64) -> bool {
    record.id == VersionId::new(id, &record.version, generation)
}

fn forward(forced: bool, known: Option<&Record>, now: &Record) -> Forward {
    match known {
        Some(known) if known.id == now.id => Forward::Revalidated,
        _ if forced => Forward::Request,
        Some(_) => Forward::Stale,
        None => Forward::Miss,
    }
}

enum Found {
    /// The known version still stands.
    Same(Box<Record>),
    /// Another version, perhaps with some of its bytes.
    Version(Arc<Version>, Option<Content>),
}

async fn ask(
    core: &Core,
    source: &ReadContext,
    id: &ObjectId,
    known: Option<&Record>,
    first: Option<RangeSpec>,
    bare: bool,
    quiet: bool,
) -> Result<Found, OriginError> {
    let Some(first) = first else {
        return if bare {
            peek(source, id, known).await
        } else {
            head(source, id, known).await
        };
    };
    let get = Get {
        key: id.key.clone(),
        range: Some(first),
        condition: known.map_or(Condition::None, |record| {
            Condition::NoneMatch(record.version.etag.clone())
        }),
        priority: match quiet {
            true => Priority::Spare,
            false => Priority::Demand,
        },
    };
    core.metrics.resolves.inc();
    let sent = Instant::now();
    let answer = source.origin.get(get).await;
    if !matches!(answer, Err(OriginError::Throttled { .. })) {
        core.pace(id.origin).answered(sent.elapsed());
    }
    match answer {
        Ok(Answer::Content(content)) => Ok(Found::Version(content.version.clone(), Some(content))),
        Ok(Answer::NotModified { last_modified }) => match known {
            Some(record) => match unmodified(core, record, last_modified) {
                Some(record) => Ok(Found::Same(Box::new(record))),
                None => head(source, id, None).await,
            },
            None => Err(OriginError::BadAnswer("304 to an unconditional request")),
        },
        // Shorter than the range: the object is empty, or the client asks beyond the end. S3 sends neither ETag nor
        // headers with a 416, so the version costs a second request.
        Err(OriginError::Unsatisfiable { .. }) => head(source, id, known).await,
        Err(error) => Err(error),
    }
}

/// Reserves memory for the first bytes, if any; a quiet caller only uses memory that demand leaves free.
async fn pay(
    core: &Core,
    first: Option<RangeSpec>,
    quiet: bool,
) -> Result<Option<(RangeSpec, Charge)>, Error> {
    let Some(first) = first.map(|first| widen(first, core.geometry)) else {
        return Ok(None);
    };
    match first {
        RangeSpec::Bounded { first: from, last } if quiet => {
            let charge = core.budget.ahead(last - from + 1);
            let charge = charge.ok_or(Error::Overloaded { retry_after: None })?;
            Ok(Some((first, charge)))
        }
        _ => afford(core, first).await.map(Some),
    }
}

/// Reserves memory before the request, and shortens the range if memory is short. In the other order, callers that wait
/// for memory would hold requests that callers with memory need.
async fn afford(core: &Core, wanted: RangeSpec) -> Result<(RangeSpec, Charge), Error> {
    let chunk = core.geometry.chunk();
    let RangeSpec::Bounded { first, last } = wanted else {
        let RangeSpec::Suffix(length) = wanted else {
            unreachable!("an open range is bounded by now");
        };
        return Ok((wanted, core.budget.demand(length).await?));
    };
    let mut length = last - first + 1;
    let charge = loop {
        match core.budget.try_demand(length) {
            Some(charge) => break charge,
            None if length <= chunk => break core.budget.demand(length).await?,
            None => length = (length / 2).next_multiple_of(chunk),
        }
    };
    let last = first.saturating_add(length - 1);
    Ok((RangeSpec::Bounded { first, last }, charge))
}

/// Returns the record that a 304 confirms. `None`: a copy of the object onto itself keeps the ETag and moves only
/// `Last-Modified`; its headers may differ.
fn unmodified(core: &Core, record: &Record, time: Option<Timestamp>) -> Option<Record> {
    let version = match time {
        Some(told) => core.unconfirmed.dated(record, told)?,
        None => record.version.clone(),
    };
    Some(Record {
        version,
        ..record.clone()
    })
}

async fn head(
    source: &ReadContext,
    id: &ObjectId,
    known: Option<&Record>,
) -> Result<Found, OriginError> {
    let version = source.origin.head(&id.key).await?;
    Ok(compared(version, known))
}

/// Sends a HEAD whose bare 404 is believed.
async fn peek(
    source: &ReadContext,
    id: &ObjectId,
    known: Option<&Record>,
) -> Result<Found, OriginError> {
    let version = source.origin.peek(&id.key).await?;
    Ok(compared(version.ok_or(OriginError::NotFound)?, known))
}

fn compared(version: Version, known: Option<&Record>) -> Found {
    match known {
        Some(record) if *record.version == version => Found::Same(Box::new(record.clone())),
        _ => Found::Version(Arc::new(version), None),
    }
}

/// Widens the client's range to whole chunks, and cuts an open range to its beginning.
///
/// A suffix grows by a chunk less a byte, so that its chunks come whole wherever the unknown end lies.
fn widen(first: RangeSpec, geometry: Geometry) -> RangeSpec {
    let chunk = geometry.chunk();
    let down = |at: u64| at - at % chunk;
    let bounded = |first: u64, length: u64| RangeSpec::Bounded {
        first,
        last: first.saturating_add(length - 1),
    };
    match first {
        RangeSpec::From(from) => bounded(down(from), FIRST.max(chunk)),
        RangeSpec::Bounded { first, last } => {
            let first = down(first);
            let length = (last.max(first) - first).saturating_add(1);
            let length = length.checked_next_multiple_of(chunk).unwrap_or(PART);
            bounded(first, length.min(PART.max(chunk)))
        }
        RangeSpec::Suffix(length) if length <= PART => RangeSpec::Suffix(length + chunk - 1),
        // Too much for one part: ask for the last chunk first, which also tells the size.
        RangeSpec::Suffix(_) => RangeSpec::Suffix(2 * chunk - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec() -> impl Strategy<Value = RangeSpec> {
        prop_oneof![
            (0u64..20 << 20, 0u64..20 << 20).prop_map(|(first, more)| RangeSpec::Bounded {
                first,
                last: first + more
            }),
            (0u64..20 << 20).prop_map(RangeSpec::From),
            (1u64..20 << 20).prop_map(RangeSpec::Suffix),
            Just(RangeSpec::Bounded {
                first: 0,
                last: u64::MAX
            }),
            Just(RangeSpec::Bounded {
                first: u64::MAX,
                last: u64::MAX
            }),
            Just(RangeSpec::From(u64::MAX)),
        ]
    }

    proptest! {
        /// Whole chunks cover at least the first wanted byte, or the last ones of a large suffix.
        #[test]
        fn what_is_asked_holds_the_first_byte_in_whole_chunks(spec in spec(), size in 1u64..30 << 20) {
            let geometry = Geometry::default();
            let chunk = geometry.chunk();
            if let (Some(wanted), Some(asked)) =
                (spec.resolve(size), widen(spec, geometry).resolve(size))
            {
                let whole = asked.start.next_multiple_of(chunk)..asked.end;
                let first = if matches!(spec, RangeSpec::Suffix(n) if n > PART) {
                    size - 1
                } else {
                    wanted.start
                };
                prop_assert!(whole.contains(&first));
                prop_assert!(asked.end == size || asked.end.is_multiple_of(chunk));
                prop_assert!(asked.len() <= PART + chunk);
            } else {
                prop_assert!(spec.resolve(size).is_none());
            }
        }
    }
}
