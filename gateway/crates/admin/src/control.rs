//! The endpoints' actions on the engine.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::future::join_all;

use super::place::{Locate, Place};
use super::{Control, Purge, PurgeError};
use tidegate_engine::Engine;
use tidegate_write::Stage;
use tidegate_write::Writers;

/// [`Control`] over the engine. A prefix may cover several routes, and a path several hosts.
pub struct EngineControl {
    /// The engine.
    pub engine: Engine,
    /// The routes, to resolve paths.
    pub locate: Arc<dyn Locate>,
    /// The drafts of mounts, if one is writable.
    pub writers: Option<Writers>,
    /// Other missing things that programs need, in words, one line each.
    pub missing: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl EngineControl {
    async fn check(&self) -> Result<(), Vec<String>> {
        let mut missing = self.engine.ready().await.err().unwrap_or_default();
        missing.extend((self.missing)());
        match missing.is_empty() {
            true => Ok(()),
            false => Err(missing),
        }
    }

    /// Returns the number of objects that only an operator can get into the bucket.
    fn refused(&self) -> usize {
        let pending = self.writers.iter().flat_map(Writers::pending);
        pending.filter(|one| one.stage == Stage::Refused).count()
    }

    async fn purge_all(&self, purge: &Purge) -> Result<Vec<String>, PurgeError> {
        let place = Place {
            path: purge.path.clone(),
            host: purge.host.clone(),
        };
        // In parallel: each takes effect in memory at once, and all wait for the disk together.
        if purge.prefix {
            let purges = self
                .locate
                .beginning(&place)?
                .into_iter()
                .map(|below| async move {
                    let done = self.engine.purge_prefix(&below.source, &below.prefix);
                    done.await.map(|()| below.prefix.clone())
                });
            all_durable(join_all(purges).await)
        } else {
            let objects = self.locate.objects(&place)?.into_iter();
            let keys = objects.flat_map(|object| {
                let all = std::iter::once(object.key).chain(object.siblings);
                all.map(move |key| (object.source.clone(), key))
            });
            let purges = keys.map(|(source, key)| async move {
                let done = self.engine.purge_key(&source, &key);
                done.await.map(|()| key.as_str().to_owned())
            });
            all_durable(join_all(purges).await)
        }
    }
}

/// Returns the names of all purges, or the error of the first that is not durable.
fn all_durable(done: Vec<Result<String, impl fmt::Display>>) -> Result<Vec<String>, PurgeError> {
    done.into_iter()
        .map(|one| one.map_err(not_durable))
        .collect()
}

fn not_durable(error: impl fmt::Display) -> PurgeError {
    PurgeError::NotDurable(error.to_string())
}

impl fmt::Debug for EngineControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineControl").finish_non_exhaustive()
    }
}

impl Control for EngineControl {
    fn ready(&self) -> BoxFuture<'_, Result<(), Vec<String>>> {
        Box::pin(self.check())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.engine.notes();
        let refused = self.refused();
        if refused > 0 {
            notes.push(format!(
                "objects in the spool that were refused: {refused}; see /pending"
            ));
        }
        notes
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Vec<String>, PurgeError>> {
        Box::pin(self.purge_all(purge))
    }
}
