//! What the endpoints do to the engine.

use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::{Control, Purge, PurgeError};
use crate::engine::{Engine, Source};
use crate::plan::ObjectKey;

/// What a path of the public listener stands for in one origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// One object.
    Key(ObjectKey),
    /// Every object whose key starts with this; empty: every object of the bucket.
    Prefix(String),
}

/// [`Control`] over the engine. `resolve` knows the routes: it says of a purge which keys it means,
/// and in which sources. A prefix may cover several routes, and a path several hosts.
pub struct EngineControl<R> {
    engine: Engine,
    resolve: R,
}

impl<R> EngineControl<R>
where
    R: Fn(&Purge) -> Result<Vec<(Arc<Source>, Target)>, PurgeError> + Send + Sync + 'static,
{
    /// The endpoints' view of `engine`.
    pub fn new(engine: Engine, resolve: R) -> Self {
        Self { engine, resolve }
    }

    async fn remove(&self, source: &Source, target: &Target) -> Result<String, PurgeError> {
        let (done, name) = match target {
            Target::Key(key) => (self.engine.purge_key(source, key).await, key.as_str()),
            Target::Prefix(prefix) => (self.engine.purge_prefix(source, prefix).await, &**prefix),
        };
        match done {
            Ok(()) => Ok(name.to_owned()),
            Err(error) => Err(PurgeError::NotDurable(error.to_string())),
        }
    }
}

impl<R> fmt::Debug for EngineControl<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineControl").finish_non_exhaustive()
    }
}

impl<R> Control for EngineControl<R>
where
    R: Fn(&Purge) -> Result<Vec<(Arc<Source>, Target)>, PurgeError> + Send + Sync + 'static,
{
    fn ready(&self) -> BoxFuture<'_, Result<(), Vec<String>>> {
        Box::pin(self.engine.ready())
    }

    fn notes(&self) -> Vec<String> {
        self.engine.notes()
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Vec<String>, PurgeError>> {
        Box::pin(async move {
            let targets = (self.resolve)(purge)?;
            if targets.is_empty() {
                return Err(PurgeError::NoRoute);
            }
            let mut removed = Vec::with_capacity(targets.len());
            for (source, target) in &targets {
                removed.push(self.remove(source, target).await?);
            }
            Ok(removed)
        })
    }
}
