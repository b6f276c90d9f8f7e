//! A scripted gateway.

use std::sync::Mutex;

use futures_core::future::BoxFuture;

use crate::place::PlaceError;
use crate::{Control, Purge, PurgeError, PurgeExtent, PurgeResult, ResolvedPurge};

/// A gateway that is as ready as the test says and records the purges.
#[derive(Default)]
pub(super) struct Told {
    pub(super) missing: Mutex<Vec<String>>,
    pub(super) notes: Mutex<Vec<String>>,
    pub(super) work: Mutex<Vec<String>>,
    pub(super) fails: Mutex<Option<PurgeError>>,
    pub(super) purged: Mutex<Vec<Purge>>,
}

impl Control for Told {
    fn ready(&self) -> BoxFuture<'_, Result<(), Vec<String>>> {
        let missing = self.missing.lock().expect("not poisoned").clone();
        Box::pin(async move {
            if missing.iter().any(|line| line == "hang") {
                std::future::pending::<()>().await;
            }
            if missing.is_empty() {
                Ok(())
            } else {
                Err(missing)
            }
        })
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().expect("not poisoned").clone()
    }

    fn work(&self) -> Vec<String> {
        self.work.lock().expect("not poisoned").clone()
    }

    fn resolve(&self, purge: &Purge) -> Result<ResolvedPurge, PlaceError> {
        if let Some(PurgeError::Place(error)) = &*self.fails.lock().expect("not poisoned") {
            return Err(error.clone());
        }
        if purge.extent == PurgeExtent::Path("/a/../b".to_owned()) {
            return Err(PlaceError::BadPath("dots".to_owned()));
        }
        Ok(ResolvedPurge {
            purge: purge.clone(),
            targets: Vec::new(),
        })
    }

    fn purge<'a>(
        &'a self,
        ResolvedPurge { purge, .. }: &'a ResolvedPurge,
    ) -> BoxFuture<'a, Result<PurgeResult, PurgeError>> {
        self.purged
            .lock()
            .expect("not poisoned")
            .push(purge.clone());
        let fails = self.fails.lock().expect("not poisoned").clone();
        Box::pin(async move { fails.map_or_else(|| Ok(scripted(purge)), Err) })
    }
}

/// Returns one name; each path is known.
fn scripted(purge: &Purge) -> PurgeResult {
    let (name, known) = match &purge.extent {
        PurgeExtent::Path(path) => (path.clone(), 1),
        PurgeExtent::Prefix(path) => (path.clone(), 0),
        PurgeExtent::Tag(tag) => (tag.to_string(), 0),
        PurgeExtent::Key(key, _) => (key.as_str().to_owned(), 1),
    };
    PurgeResult {
        names: vec![name],
        known,
    }
}
