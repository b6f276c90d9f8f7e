//! Versions that need no request: a listing shows the known one, or it was written here just now.

use std::sync::Arc;
use std::time::Duration;

use super::{Answer, Engine, NameKind, answer_for, cached_only};
use crate::open::unconfirmed::confirm_listed;
use crate::{Object, ReadContext, records};
use tidegate_cache::{Entry, Record};
use tidegate_plan::freshness::Judgement;
use tidegate_plan::{ObjectId, ObjectKey, Timestamp};

impl Engine {
    /// Returns a fresh object that a reader opened at `since` or later.
    pub(super) fn opened_since(
        &self,
        source: &ReadContext,
        path: &str,
        since: Timestamp,
    ) -> Option<Answer> {
        let id = source.object(&ObjectKey::new(path).ok()?);
        let Some(Entry::Present(record)) = self.core.meta.peek(&id) else {
            return None;
        };
        if record.confirmed < since {
            return None;
        }
        let judged = self.core.judge(source, &id, &record, self.core.now());
        let fresh = judged.judgement == Judgement::Fresh;
        let left = judged.policy.lifetime.saturating_sub(judged.counted_age);
        let facts = self.core.facts(&id, &record.version);
        // An object put over HTTP still has to be asked for its time.
        let has_time = facts.modified.is_some();
        (fresh && has_time).then(|| answer_for(NameKind::File(facts), left))
    }

    /// Returns the known version of an object if it is fresh, was written here less than `age` ago, and all of its facts
    /// are known. Sends no request.
    pub async fn written_lately(
        &self,
        source: &Arc<ReadContext>,
        key: &ObjectKey,
        age: Duration,
    ) -> Option<Object> {
        let found = self.open(source, key, cached_only()).await.ok()?;
        let passed = self.core.names.passed_at(source.origin.id(), key.as_str());
        let is_passed = passed.is_some_and(|at| found.confirmed() < at);
        let is_recent = self.core.now().since(found.confirmed()) < age;
        // The answer to a write has no time.
        let is_own = found.version().last_modified.is_none();
        let is_fresh = found.outcome.ttl_ms > 0 && found.facts().modified.is_some();
        (is_recent && is_own && is_fresh && !is_passed).then_some(found)
    }

    /// Returns the known version as confirmed by a listing that was requested later and shows the same one.
    pub(crate) fn confirmed_by_listing(
        &self,
        source: &ReadContext,
        id: &ObjectId,
        record: &Arc<Record>,
    ) -> Option<Arc<Record>> {
        let names = &self.core.names;
        let (facts, since, stored) =
            names.listed_facts(&self.name_request(source), id.key.as_str())?;
        if since <= record.confirmed {
            return None;
        }
        let version = confirm_listed(record, facts.etag.as_ref(), facts.size, stored)?;
        let confirmed = Arc::new(Record {
            version,
            confirmed: since,
            must_confirm: false,
            ..Record::clone(record)
        });
        records::confirm(&self.core, id, record, &confirmed);
        Some(confirmed)
    }
}
