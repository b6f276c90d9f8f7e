//! Confirmation of versions by a listing: it shows the known version, so no request is needed.

use std::sync::Arc;

use super::{Answer, Engine, NameKind, answer_for};
use crate::{ReadContext, records};
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
        let unconfirmed = &self.core.unconfirmed;
        let version =
            unconfirmed.confirm_listed(record, facts.etag.as_ref(), facts.size, stored)?;
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
