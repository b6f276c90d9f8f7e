//! Finds out which version a key has, asking the origin at most once for all who want to know.
//!
//! The first ranged GET answers that too, so a cold open costs one request. Whoever opens a key
//! while it is being resolved waits for the same answer; when all of them leave, the request is
//! dropped. A purge or a write takes the place of what was begun before it, which then installs
//! nothing.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared, ready};
use tokio::time::Instant;

use super::board::PART;
use super::budget::Charge;
use super::core::Core;
use super::fill::{Fill, Terms};
use super::flight::Lease;
use super::pins;
use super::{Error, Forward, Source};
use crate::origin::client::on_behalf_of;
use crate::origin::{Answer, Condition, Content, Get, OriginError, Priority};
use crate::plan::freshness::Policy;
use crate::plan::{Client, Geometry, ObjectId, RangeSpec, Timestamp, Version, VersionId};
use crate::store::{Entry, Record};

/// What a first open GET asks for, before the size is known: enough for pictures and documents to
/// come whole in this one request; of a large object a reader who comes to stay needs these bytes
/// anyway. ADR 0005 has the figures.
pub(super) const FIRST: u64 = 1 << 20;

type Resolving = BoxFuture<'static, Result<Resolution, Error>>;

/// A resolve that is under way, kept alive by those who wait for it and not by the table.
pub(super) struct Pending {
    token: u64,
    quiet: bool,
    shared: WeakShared<Resolving>,
}

/// What a resolve found.
#[derive(Debug, Clone)]
pub(super) struct Resolution {
    pub(super) record: Arc<Record>,
    pub(super) forward: Forward,
    /// Keeps the bytes coming that came with the answer, until a reader has boarded.
    pub(super) first: Option<Arc<Lease>>,
}

/// What is to be resolved.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) core: Arc<Core>,
    pub(super) source: Arc<Source>,
    pub(super) id: ObjectId,
    /// What was known of the key when the question came up: a version at hand, to be confirmed or
    /// replaced; or that it was missing, or nothing.
    pub(super) seen: Option<Entry>,
    /// The bytes that are wanted first.
    pub(super) first: Option<RangeSpec>,
    /// The client itself asks for confirmation: what was begun before it does not count.
    pub(super) forced: bool,
    /// The first bytes are wanted also of a version that is at hand.
    pub(super) certain: bool,
    /// See [`Open::bare`](super::Open::bare).
    pub(super) bare: bool,
    /// See [`Open::quiet`](super::Open::quiet).
    pub(super) quiet: bool,
    /// The client that asked first; those that join wait in its turn.
    pub(super) client: Client,
}

impl Question {
    /// The version at hand.
    fn known(&self) -> Option<&Arc<Record>> {
        match &self.seen {
            Some(Entry::Present(record)) => Some(record),
            _ => None,
        }
    }

    /// What a resolve found that ended after this question came up, and before it could join. To
    /// be asked under the lock of the table, which a resolve leaves after it has installed.
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

/// Joins the resolve of the key that is under way, or begins one. Says whether it joined.
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
    // Begins when it is polled first, which is not under the table's lock.
    let run = on_behalf_of(question.client, run(question, place));
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

/// The answer to a question that was asked where nobody waited, or its own: that one gives up sooner.
fn or_itself(quiet: Shared<Resolving>, question: Question) -> Shared<Resolving> {
    let asked = async move {
        match quiet.await {
            Err(error) if error != Error::NotFound => resolve(question).0.await,
            found => found,
        }
    };
    asked.boxed().shared()
}

/// Whether somebody is asking already.
pub(super) fn is_under_way(core: &Core, id: &ObjectId) -> bool {
    // Dropped after the lock is released: it may be the last one, whose end takes the lock.
    let shared = core
        .resolves()
        .get(id)
        .and_then(|pending| pending.shared.upgrade());
    shared.is_some()
}

/// Takes the place of every resolve begun so far that matches: they will install nothing.
pub(super) fn supersede(core: &Core, matches: impl Fn(&ObjectId) -> bool) {
    core.resolves().retain(|id, _| !matches(id));
}

/// Remembers what a write has made of a key, in place of every resolve and doubt begun so far.
pub(super) fn remember(core: &Core, id: &ObjectId, entry: Option<Entry>) {
    let mut resolves = core.resolves();
    resolves.remove(id);
    match entry {
        Some(entry) => core.meta.put(id, entry),
        None => core.meta.remove(id),
    }
}

/// Has the version that is remembered be confirmed before it is served, if `is_doubted` says so of it. What is
/// written meanwhile is remembered after this, and not replaced by what it replaced.
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

/// Remembers that a version was confirmed, if it is what is remembered still.
pub(super) fn confirm(core: &Core, id: &ObjectId, known: &Arc<Record>, confirmed: &Arc<Record>) {
    let _alone = core.resolves();
    if core.meta.peek(id).as_ref() == Some(&Entry::Present(known.clone())) {
        core.meta.put(id, Entry::Present(confirmed.clone()));
    }
}

/// A resolve's place in the table; given up when it ends or is dropped.
struct Place {
    core: Arc<Core>,
    id: ObjectId,
    token: u64,
}

impl Place {
    /// Remembers what was found, unless a purge or a write came in between.
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
    // A version from before a purge is not confirmed into the time after it.
    let known = known.filter(|record| is_of(record, &id, generation));
    let (first, charge) = pay(&core, first, quiet).await?.unzip();
    let asked = core.now();
    let at_hand = known.as_deref().filter(|_| !certain);
    let found = match ask(&core, &source, &id, at_hand, first, bare, quiet).await {
        Ok(found) => found,
        Err(error) => {
            // A bare 404 says so to who asked for it, and is no ground for a negative entry.
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
    // Before the version is known to all: who finds it then finds its first bytes on their way.
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

/// Whether no purge covers the key since the record was made.
pub(super) fn is_of(record: &Record, id: &ObjectId, generation: u64) -> bool {
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
    /// The version at hand still stands.
    Same(Box<Record>),
    /// This one, perhaps with some of its bytes.
    Version(Arc<Version>, Option<Content>),
}

async fn ask(
    core: &Core,
    source: &Source,
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
        // Shorter than the range: empty, or the client asks beyond the end. S3 sends neither ETag
        // nor headers with a 416, so the version costs a second request.
        Err(OriginError::Unsatisfiable { .. }) => head(source, id, known).await,
        Err(error) => Err(error),
    }
}

/// Pays for the first bytes, if any are wanted: who is quiet from what demand leaves over.
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

/// Pays for the bytes before they are asked for, and asks for fewer where memory is short. Who asked
/// first and then waited for memory would keep a request from those who have memory and wait for a
/// request.
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

/// A record that a 304 has confirmed. `None`: a copy of the object onto itself keeps the ETag, and moves only
/// `Last-Modified`; its headers may be others.
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
    source: &Source,
    id: &ObjectId,
    known: Option<&Record>,
) -> Result<Found, OriginError> {
    let version = source.origin.head(&id.key).await?;
    Ok(compared(version, known))
}

/// A HEAD whose bare 404 is believed.
async fn peek(
    source: &Source,
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

/// From what the client wants to what is asked for: whole chunks, and of open ranges a beginning.
///
/// A suffix is widened by a chunk less a byte, so that the chunks that hold it come whole wherever
/// the unknown end may lie.
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
        // Too much for one part: learn the size first, with the last chunk.
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
