//! The endpoints' actions on the engine.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use futures_util::future::join_all;

use super::place::{Locate, LocatedPrefix, Place, PlaceError};
use super::purge::PurgeTarget;
use super::{Control, Purge, PurgeError, PurgeExtent, PurgeResult, ResolvedPurge};
use tidegate_engine::{Engine, Scope};
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
    /// Long work under way, in words, one line each.
    pub work: Box<dyn Fn() -> Vec<String> + Send + Sync>,
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

    async fn purge_all(&self, resolved: &ResolvedPurge) -> Result<PurgeResult, PurgeError> {
        // In parallel: each takes effect in memory at once, and all wait for the disk together.
        let kind = resolved.purge.kind;
        let purges = resolved.targets.iter().map(|(source, target)| async move {
            let done = self.engine.purge(source, target, kind).await;
            done.map_err(not_durable)
        });
        let known = join_all(purges)
            .await
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        let name = |(_, target): &PurgeTarget| match target {
            Scope::Key(key) => key.as_str().to_owned(),
            Scope::Prefix(prefix) => prefix.to_string(),
            Scope::Tag(tag) => tag.to_string(),
        };
        Ok(PurgeResult {
            known: known.iter().filter(|known| **known).count(),
            names: resolved.targets.iter().map(name).collect(),
        })
    }

    /// Returns the purges in buckets that a requested one means.
    fn targets(&self, purge: &Purge) -> Result<Vec<PurgeTarget>, PlaceError> {
        let place = |path: &str| Place {
            path: path.to_owned(),
            host: purge.host.clone(),
        };
        match &purge.extent {
            PurgeExtent::Path(path) => {
                let objects = self.locate.objects(&place(path))?.into_iter();
                let keys = objects.flat_map(|object| {
                    let all = std::iter::once(object.key).chain(object.siblings);
                    all.map(move |key| (object.source.clone(), Scope::Key(key)))
                });
                Ok(keys.collect())
            }
            PurgeExtent::Prefix(path) => {
                let all = self.locate.beginning(&place(path))?.into_iter();
                let prefixes = all.map(|below| (below.source, Scope::Prefix(below.prefix.into())));
                Ok(prefixes.collect())
            }
            PurgeExtent::Tag(tag) => {
                let buckets = one_a_bucket(self.locate.beginning(&place("/"))?);
                let tags = buckets.map(|below| (below.source, Scope::Tag(tag.clone())));
                Ok(tags.collect())
            }
            PurgeExtent::Key(key, origin) => {
                let mut all = self.locate.beginning(&place("/"))?;
                all.retain(|below| origin.as_ref().is_none_or(|name| below.origin == *name));
                if all.is_empty() {
                    return Err(match origin {
                        Some(_) => PlaceError::NoOrigin,
                        None => PlaceError::NoRoute,
                    });
                }
                let keys = one_a_bucket(all);
                let keys = keys.map(|below| (below.source, Scope::Key(key.clone())));
                Ok(keys.collect())
            }
        }
    }
}

/// Leaves one place in each bucket.
fn one_a_bucket(mut all: Vec<LocatedPrefix>) -> impl Iterator<Item = LocatedPrefix> {
    let mut seen = BTreeSet::new();
    all.retain(|below| seen.insert(below.source.origin.id()));
    all.into_iter()
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

    fn work(&self) -> Vec<String> {
        (self.work)()
    }

    fn resolve(&self, purge: &Purge) -> Result<ResolvedPurge, PlaceError> {
        Ok(ResolvedPurge {
            targets: self.targets(purge)?,
            purge: purge.clone(),
        })
    }

    fn purge<'a>(
        &'a self,
        purge: &'a ResolvedPurge,
    ) -> BoxFuture<'a, Result<PurgeResult, PurgeError>> {
        Box::pin(self.purge_all(purge))
    }
}
