//! What the endpoints do to the engine.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::place::{Locate, Place};
use super::{Control, Purge, PurgeError};
use crate::engine::Engine;

/// [`Control`] over the engine. A prefix may cover several routes, and a path several hosts.
pub struct EngineControl {
    engine: Engine,
    locate: Arc<dyn Locate>,
}

impl EngineControl {
    /// The endpoints' view of `engine`.
    pub fn new(engine: Engine, locate: Arc<dyn Locate>) -> Self {
        Self { engine, locate }
    }

    async fn purge_all(&self, purge: &Purge) -> Result<Vec<String>, PurgeError> {
        let place = Place {
            path: purge.path.clone(),
            host: purge.host.clone(),
        };
        let mut purged = Vec::new();
        if purge.prefix {
            for below in self.locate.beginning(&place)? {
                let done = self.engine.purge_prefix(&below.source, &below.prefix);
                done.await?;
                purged.push(below.prefix);
            }
        } else {
            for object in self.locate.objects(&place)? {
                self.engine.purge_key(&object.source, &object.key).await?;
                purged.push(object.key.as_str().to_owned());
            }
        }
        Ok(purged)
    }
}

impl fmt::Debug for EngineControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineControl").finish_non_exhaustive()
    }
}

impl Control for EngineControl {
    fn ready(&self) -> BoxFuture<'_, Result<(), Vec<String>>> {
        Box::pin(self.engine.ready())
    }

    fn notes(&self) -> Vec<String> {
        self.engine.notes()
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Vec<String>, PurgeError>> {
        Box::pin(self.purge_all(purge))
    }
}
