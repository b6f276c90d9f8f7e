//! Purges: keys, and every key with a prefix, under all identities of their bucket.

use futures_util::future::join_all;

use super::pins;
use super::subscribers::Scope;
use crate::open::records;
use crate::{Engine, ReadContext};
use tidegate_cache::MetaError;
use tidegate_plan::{ObjectId, ObjectKey, OriginId};

impl Engine {
    /// Removes a key under every identity of the bucket. The removal is durable on return, and nothing cached before is
    /// served afterwards.
    ///
    /// # Errors
    /// If the removal could not be made durable; it still holds in memory.
    pub async fn purge_key(&self, source: &ReadContext, key: &ObjectKey) -> Result<(), MetaError> {
        let ids = self.core.everywhere(&source.object(key));
        let supersede = || {
            records::supersede(&self.core, |other| ids.contains(other));
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
        join_all(
            ids.iter()
                .map(|id| self.core.report_purge(id.origin, &scope)),
        )
        .await;
        purged.into_iter().collect()
    }

    /// Removes every key that starts with `prefix`, in constant time; otherwise like [`Engine::purge_key`].
    ///
    /// # Errors
    /// If the removal could not be made durable; it still holds in memory.
    pub async fn purge_prefix(&self, source: &ReadContext, prefix: &str) -> Result<(), MetaError> {
        let origins = self.core.identities.all(source.origin.id());
        let covered =
            |id: &ObjectId| origins.contains(&id.origin) && id.key.as_str().starts_with(prefix);
        let supersede = || {
            records::supersede(&self.core, covered);
            for origin in &origins {
                self.core.names.purge_prefix(*origin, prefix);
            }
        };
        supersede();
        let purge = |origin: &OriginId| self.core.meta.purge_prefix(*origin, prefix);
        let purged = join_all(origins.iter().map(purge)).await;
        supersede();
        let scope = Scope::Prefix(prefix.into());
        join_all(
            origins
                .iter()
                .map(|origin| self.core.report_purge(*origin, &scope)),
        )
        .await;
        purged.into_iter().collect()
    }
}
