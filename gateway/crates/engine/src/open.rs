//! Opening an object: which version the key has, out of what is known, or by asking the origin.

use std::sync::Arc;
use std::time::Duration;

use crate::fetch::options::FetchOptions;
use crate::object::coverage::locate;
use crate::object::object_state::ObjectState;
use crate::object::wait;
use crate::{Coverage, Engine, Error, Object, ReadContext};
use tidegate_cache::{Entry, Record};
use tidegate_plan::freshness::Judgement;
use tidegate_plan::readahead::Limits;
use tidegate_plan::{Client, ObjectId, ObjectKey, RangeSpec};

mod ask;
mod first_bytes;
pub(crate) mod outcome;
pub mod records;
pub(crate) mod resolve;
pub(crate) mod unconfirmed;

use outcome::{ForwardReason, OpenOutcome};
use records::RecordFreshness;
use resolve::{Resolution, ResolveRequest};

/// The caller's options for opening an object.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
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
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        how: OpenOptions,
    ) -> Result<Object, Error> {
        let id = source.object(key);
        let entry = match self.core.meta.peek(&id) {
            Some(entry) => Some(entry),
            None => self.core.meta.load(&id).await,
        };
        let now = self.core.now();
        let record = match entry {
            Some(Entry::Missing { since })
                if !how.revalidate && source.missing_left(since, now).is_some() =>
            {
                return Err(Error::NotFound);
            }
            Some(Entry::Present(record)) => record,
            seen => return Box::pin(self.open_unknown(source, id, how, seen)).await,
        };
        let judge = |record: &Record| self.core.judge(source, &id, record, now);
        let mut judged = judge(&record);
        let mut record = record;
        if judged.judgement != Judgement::Fresh
            && !how.revalidate
            && let Some(confirmed) = self.confirmed_by_listing(source, &id, &record)
        {
            judged = judge(&confirmed);
            record = confirmed;
        }
        let judgement = judged.judgement;
        let how = OpenOptions {
            certain: how.certain
                && judgement != Judgement::Fresh
                && !self.is_cached(&record, how.first),
            ..how
        };
        match judgement {
            _ if how.revalidate && !how.only_if_cached => {
                Box::pin(self.confirm(source, id, how, record)).await
            }
            Judgement::Fresh => Ok(self.open_judged(source, id, record, judged, how.client)),
            Judgement::WhileRevalidating if how.only_if_cached => {
                Ok(self.open_judged(source, id, record, judged, how.client))
            }
            Judgement::WhileRevalidating if !how.certain => {
                self.confirm_in_background(source, &id, &record, how.client);
                Ok(self.open_judged(source, id, record, judged, how.client))
            }
            Judgement::Stale if how.only_if_cached => Err(Error::NotCached),
            Judgement::WhileRevalidating | Judgement::Stale => {
                Box::pin(self.confirm(source, id, how, record)).await
            }
        }
    }

    /// Returns whether all of the given bytes of a version are cached.
    fn is_cached(&self, record: &Record, bytes: Option<RangeSpec>) -> bool {
        let range = bytes.and_then(|bytes| bytes.resolve(record.version.size));
        range.is_none_or(|range| matches!(locate(&self.core, record.id, range), Coverage::All(_)))
    }

    /// Opens a key of which nothing usable is known.
    async fn open_unknown(
        &self,
        source: &Arc<ReadContext>,
        id: ObjectId,
        how: OpenOptions,
        seen: Option<Entry>,
    ) -> Result<Object, Error> {
        if how.only_if_cached {
            return Err(Error::NotCached);
        }
        let (shared, collapsed) = resolve::resolve(self.resolve_request(source, &id, seen, &how));
        let found = self.wait_for(shared, source, &how).await?;
        Ok(self.resolved(source, id, found, collapsed, how.client))
    }

    /// Waits for a resolve. The time counts as a wait of the reader if the caller opens to read.
    async fn wait_for(
        &self,
        resolve: impl Future<Output = Result<Resolution, Error>>,
        source: &ReadContext,
        how: &OpenOptions,
    ) -> Result<Resolution, Error> {
        if how.first.is_none() {
            return resolve.await;
        }
        let options = FetchOptions {
            quiet: how.quiet,
            ..FetchOptions::new(&source.profile.load(), false, how.client)
        };
        wait::while_opening(&self.core, options, resolve).await
    }

    /// Confirms a known version with the origin. If the origin fails, the known version may be served stale (RFC 5861,
    /// 4).
    async fn confirm(
        &self,
        source: &Arc<ReadContext>,
        id: ObjectId,
        how: OpenOptions,
        record: Arc<Record>,
    ) -> Result<Object, Error> {
        let seen = Some(Entry::Present(record.clone()));
        let request = self.resolve_request(source, &id, seen, &how);
        let (shared, collapsed) = resolve::resolve(request);
        match self.wait_for(shared, source, &how).await {
            Ok(found) => Ok(self.resolved(source, id, found, collapsed, how.client)),
            Err(error) => {
                let judged = self.core.judge(source, &id, &record, self.core.now());
                let serves = judged.policy.serves_on_error(judged.counted_age);
                if !error.excuses_stale() || !serves {
                    return Err(error);
                }
                let generation = self.core.meta.generation(&id).await;
                if !records::is_of(&self.core, &record, &id, generation) {
                    return Err(error);
                }
                if !collapsed {
                    log_unconfirmed(&id, &error);
                }
                self.core.metrics.stale_on_error.inc();
                let mut object = self.open_judged(source, id, record, judged, how.client);
                object.outcome.forward = Some(ForwardReason::Failed);
                Ok(object)
            }
        }
    }

    /// Confirms a version in the background of the answer that uses it, unless a resolve is under way.
    fn confirm_in_background(
        &self,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        record: &Arc<Record>,
        client: Client,
    ) {
        if resolve::is_under_way(&self.core, id) {
            return;
        }
        let how = OpenOptions {
            first: Some(RangeSpec::From(0)),
            client,
            ..OpenOptions::default()
        };
        let seen = Some(Entry::Present(record.clone()));
        let (shared, _) = resolve::resolve(self.resolve_request(source, id, seen, &how));
        let (stop, own) = (self.core.stop.clone(), id.clone());
        self.core.spawn(async move {
            let confirmed = async {
                match shared.await {
                    // The new version's first bytes count as requested: the client that caused this confirmation comes
                    // back for them.
                    Ok(Resolution {
                        first: Some(lease), ..
                    }) => lease.part().landed().await,
                    Ok(_) => {}
                    Err(error) => log_unconfirmed(&own, &error),
                }
            };
            tokio::select! {
                () = confirmed => {}
                () = stop.cancelled() => {}
            }
        });
    }

    fn resolve_request(
        &self,
        source: &Arc<ReadContext>,
        id: &ObjectId,
        seen: Option<Entry>,
        how: &OpenOptions,
    ) -> ResolveRequest {
        ResolveRequest {
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
    pub fn open_record(
        &self,
        source: &ReadContext,
        id: ObjectId,
        record: Arc<Record>,
        client: Client,
    ) -> Object {
        let judged = self.core.judge(source, &id, &record, self.core.now());
        self.open_judged(source, id, record, judged, client)
    }

    /// Does the same with a record whose freshness is known.
    fn open_judged(
        &self,
        source: &ReadContext,
        id: ObjectId,
        record: Arc<Record>,
        judged: RecordFreshness,
        client: Client,
    ) -> Object {
        let RecordFreshness {
            policy,
            age,
            counted_age,
            ..
        } = judged;
        let outcome = OpenOutcome {
            forward: None,
            collapsed: false,
            stored: policy.storable,
            age,
            ttl_ms: millis(policy.lifetime) - millis(counted_age),
        };
        let profile = source.profile.load();
        let options = FetchOptions::new(&profile, policy.storable, client);
        let limits = Limits {
            window: profile.read_ahead,
            streams: profile.streams,
        };
        let pinned = ObjectState::new(
            self.core.clone(),
            source.origin.clone(),
            id,
            record,
            options,
            limits,
        );
        Object {
            pinned: Arc::new(pinned),
            outcome,
        }
    }

    fn resolved(
        &self,
        source: &ReadContext,
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
        let mut object = self.open_record(source, id, record, client);
        object.outcome.forward = Some(forward);
        object.outcome.collapsed = collapsed;
        object.pinned.hold_first(first);
        object
    }
}

/// Logs why a version that is served was not confirmed, if an operator may be able to repair the cause.
fn log_unconfirmed(id: &ObjectId, error: &Error) {
    if let Error::BadOrigin(what) = error {
        let key = id.key.as_str();
        tracing::warn!(
            key,
            what,
            "a version is not confirmed: bad answer of the origin"
        );
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
