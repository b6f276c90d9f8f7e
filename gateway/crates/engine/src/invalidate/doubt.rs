//! A doubt of everything that is known of a bucket: changes or purges elsewhere may have been missed.

use std::collections::HashMap;

use arc_swap::ArcSwap;

use super::subscribers::{PurgeKind, Scope};
use crate::Engine;
use tidegate_cache::{MetaError, Record};
use tidegate_plan::{OriginId, Timestamp};

/// The time up to which confirmations are doubted, by identity. It ends with the process.
#[derive(Debug, Default)]
pub(crate) struct DoubtMark(ArcSwap<HashMap<OriginId, Timestamp>>);

impl DoubtMark {
    fn set(&self, origins: &[OriginId], at: Timestamp) {
        self.0.rcu(|before| {
            let mut marks = HashMap::clone(before);
            for origin in origins {
                let mark = marks.entry(*origin).or_insert(at);
                *mark = at.max(*mark);
            }
            marks
        });
    }

    /// Returns whether a version must be confirmed before it is served.
    pub(crate) fn must_confirm(&self, origin: OriginId, record: &Record) -> bool {
        record.must_confirm || {
            let marks = self.0.load();
            marks
                .get(&origin)
                .is_some_and(|mark| record.confirmed <= *mark)
        }
    }
}

impl Engine {
    /// Has everything that is known of an origin's bucket confirmed by the bucket before its next use, from the call on;
    /// the returned future makes that durable. No version is served in the meantime, and cached bytes stay. It takes
    /// constant time.
    ///
    /// This is a soft purge of the whole bucket without `stale_while_revalidate`. The soft purge is durable, the
    /// stricter rule ends with the process.
    ///
    /// # Errors
    /// As [`Engine::purge`].
    pub fn doubt(&self, origin: OriginId) -> impl Future<Output = Result<(), MetaError>> + use<'_> {
        let origins = self.core.identities.all(origin);
        self.core.doubted.set(&origins, self.core.now());
        async move {
            let all = Scope::Prefix("".into());
            let purged = self.apply_purge(origin, &all, PurgeKind::Soft).await;
            purged.map(|_| ())
        }
    }
}
