//! Purges of keys, of every key with a prefix, and of every version with a tag, under all identities of their bucket.
//!
//! A hard purge removes: nothing cached before is served afterwards. A soft purge makes stale, as if the lifetime had
//! just ended: `stale_while_revalidate` and `stale_if_error` count from it.

use futures_util::future::join_all;

use super::pins;
use super::subscribers::{PurgeKind, Scope};
use crate::open::records;
use crate::{Engine, ReadContext};
use tidegate_cache::{Entry, MetaError, PurgeEffect, PurgeScope};
use tidegate_plan::freshness::Judgement;
use tidegate_plan::{ObjectId, ObjectKey, OriginId};

impl Engine {
    /// Purges in constant time, whatever the target covers. The purge is durable on return. Returns whether anything was
    /// known of the key, under any identity; `false` for prefixes and tags, whose objects are not counted.
    ///
    /// # Errors
    /// If the purge could not be made durable; it still holds in memory.
    pub async fn purge(
        &self,
        source: &ReadContext,
        target: &Scope,
        kind: PurgeKind,
    ) -> Result<bool, MetaError> {
        let origin = source.origin.id();
        self.core.report_purge_by(origin, target, kind);
        self.apply_purge(origin, target, kind).await
    }

    /// Does the same, and reports it to no observer: the purge was made elsewhere.
    ///
    /// # Errors
    /// As [`Engine::purge`].
    pub async fn apply_purge(
        &self,
        origin: OriginId,
        target: &Scope,
        kind: PurgeKind,
    ) -> Result<bool, MetaError> {
        let origins = self.core.identities.all(origin);
        let is_known = match target {
            Scope::Key(key) => self.prepare(&origins, key, kind).await,
            Scope::Prefix(_) | Scope::Tag(_) => false,
        };
        let effect = match kind {
            PurgeKind::Hard => PurgeEffect::Remove,
            PurgeKind::Soft => PurgeEffect::Soften(self.core.now()),
        };
        self.supersede(&origins, target, kind);
        let purges = origins
            .iter()
            .map(|origin| self.record_purge(*origin, target, effect));
        let purged = join_all(purges).await;
        // Again, for requests that read the old generation in between.
        self.supersede(&origins, target, kind);
        let reports = origins
            .iter()
            .map(|origin| self.core.report_purge_of(*origin, target, kind));
        join_all(reports).await;
        purged.into_iter().collect::<Result<(), _>>()?;
        Ok(is_known)
    }

    /// Removes a key: a hard purge of it.
    ///
    /// # Errors
    /// As [`Engine::purge`].
    pub async fn purge_key(
        &self,
        source: &ReadContext,
        key: &ObjectKey,
    ) -> Result<bool, MetaError> {
        let target = Scope::Key(key.clone());
        self.purge(source, &target, PurgeKind::Hard).await
    }

    /// Removes every key that starts with `prefix`.
    ///
    /// # Errors
    /// As [`Engine::purge`].
    pub async fn purge_prefix(&self, source: &ReadContext, prefix: &str) -> Result<(), MetaError> {
        let target = Scope::Prefix(prefix.into());
        self.purge(source, &target, PurgeKind::Hard)
            .await
            .map(|_| ())
    }

    /// Returns whether memory holds a fresh version of the key.
    #[must_use]
    pub fn holds_fresh(&self, source: &ReadContext, key: &ObjectKey) -> bool {
        let id = source.object(key);
        let Some(Entry::Present(record)) = self.core.meta.peek(&id) else {
            return false;
        };
        let judged = self.core.judge(source, &id, &record, self.core.now());
        judged.judgement == Judgement::Fresh
    }

    /// Returns whether anything is known of a key, and unpins the chunks that a hard purge hides.
    async fn prepare(&self, origins: &[OriginId], key: &ObjectKey, kind: PurgeKind) -> bool {
        let mut is_known = false;
        for origin in origins {
            let id = object(*origin, key);
            let entry = {
                let lookup = self.core.purge_lookups.acquire().await;
                let _lookup = lookup.expect("the semaphore is never closed");
                self.core.meta.load(&id).await
            };
            is_known |= entry.is_some() || self.core.names.knows(*origin, key.as_str());
            if let (PurgeKind::Hard, Some(Entry::Present(record))) = (kind, entry) {
                pins::release(&self.core, &id, Some(record));
            }
        }
        is_known
    }

    /// Supersedes the resolves begun so far, and the answers about names.
    fn supersede(&self, origins: &[OriginId], target: &Scope, kind: PurgeKind) {
        records::supersede(&self.core, |id| {
            origins.contains(&id.origin) && target.covers(id.key.as_str())
        });
        let names = &self.core.names;
        for origin in origins {
            match (target, kind) {
                (Scope::Key(key), PurgeKind::Hard) => names.purge_key(*origin, key.as_str()),
                (Scope::Key(key), PurgeKind::Soft) => names.soften_key(*origin, key.as_str()),
                (Scope::Prefix(prefix), PurgeKind::Hard) => {
                    names.purge_prefix(*origin, prefix);
                }
                (Scope::Prefix(prefix), PurgeKind::Soft) => {
                    names.soften_prefix(*origin, prefix);
                }
                // Names have no tags.
                (Scope::Tag(_), _) => {}
            }
        }
    }

    async fn record_purge(
        &self,
        origin: OriginId,
        target: &Scope,
        effect: PurgeEffect,
    ) -> Result<(), MetaError> {
        let meta = &self.core.meta;
        match target {
            Scope::Key(key) => {
                let id = object(origin, key);
                meta.purge(PurgeScope::Key(&id), effect).await
            }
            Scope::Prefix(prefix) => meta.purge(PurgeScope::Prefix(origin, prefix), effect).await,
            Scope::Tag(tag) => meta.purge(PurgeScope::Tag(origin, tag), effect).await,
        }
    }
}

fn object(origin: OriginId, key: &ObjectKey) -> ObjectId {
    ObjectId {
        origin,
        key: key.clone(),
    }
}
