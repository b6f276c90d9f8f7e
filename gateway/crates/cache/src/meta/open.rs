//! The opening of the store at the start, also without its disk.

use std::path::Path;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tracing::{error, warn};

use super::batch::now_micros;
use super::db::{Db, FileOpener, Opener};
use super::entry_cache::EntryCache;
use super::journal::Journal;
use super::marks::{MarkFile, Marks};
use super::metrics::MetaMetrics;
use super::purges::PurgeSet;
use super::sweep::Sweep;
use super::{DATABASE_FILE, MARKS_FILE, Meta};
use crate::hash::random_number;
use crate::pins::Pins;
use crate::{MetaError, Settings, StoreError, private_files};

impl Meta {
    /// Opens the database in `settings.state`, or none without that setting, and registers the store's
    /// metrics. Blocks.
    ///
    /// If the disk fails, the store keeps everything in memory, and refuses what must be durable. What is in the database
    /// stays for the next start.
    ///
    /// # Errors
    /// Another process has the database open, or the directory cannot be used. A corrupt file is no error: it is set aside.
    pub fn open(settings: &Settings, registry: &mut Registry) -> Result<Self, StoreError> {
        Self::open_by(settings, registry, Arc::new(FileOpener))
    }

    pub(super) fn open_by(
        settings: &Settings,
        registry: &mut Registry,
        opener: Arc<dyn Opener>,
    ) -> Result<Self, StoreError> {
        let metrics = MetaMetrics::default();
        metrics.register(registry);
        let Some(dir) = &settings.state else {
            return Ok(Self::in_memory(settings, metrics, PurgeSet::default()));
        };
        match Self::open_in(settings, dir, &metrics, opener) {
            Err(error) if error.is_of_disk() => {
                metrics.errors.inc();
                error!(%error, "the state disk fails; versions, purges and pins are kept in memory only, and writes are refused, until a start finds it well");
                // The earlier purges are unknown, so all chunks on disk count as purged.
                let mut purges = PurgeSet::default();
                purges.purge_everything(now_micros());
                let mut store = Self::in_memory(settings, metrics, purges);
                store.fault = Some(MetaError(error.to_string()));
                Ok(store)
            }
            opened => opened,
        }
    }

    fn in_memory(settings: &Settings, metrics: MetaMetrics, purges: PurgeSet) -> Self {
        Self {
            cache: cache_of(settings, purges),
            pins: Arc::new(Pins::starting_after(random_pin())),
            journal: None,
            fault: None,
            metrics,
        }
    }

    fn open_in(
        settings: &Settings,
        dir: &Path,
        metrics: &MetaMetrics,
        opener: Arc<dyn Opener>,
    ) -> Result<Self, StoreError> {
        private_files::make_dir(dir).map_err(StoreError::io("create", dir))?;
        let (database, marks) = (dir.join(DATABASE_FILE), dir.join(MARKS_FILE));
        let changing = MarkFile::read_keys(&marks);
        if let Err(error) = &changing {
            warn!(path = %marks.display(), %error, "the keys under change are unknown; no record counts");
        }
        let (db, purges, pins) = Db::open(&database, opener, changing.as_deref().ok())?;
        db.bound(Sweep::new(settings.state_size, metrics.swept.clone()));
        // Only now are the rows of those keys durably removed.
        let timeouts = settings.state_timeouts;
        let marks = Marks::start(MarkFile::create(&marks), timeouts.write);
        let marks = marks.map_err(StoreError::io("start a thread for", dir))?;
        let cache = cache_of(settings, purges);
        let pins = Arc::new(Pins::restore(&pins, random_pin()));
        let journal = Journal::new(db, marks, &cache, &pins, metrics.clone(), timeouts)
            .map_err(StoreError::io("start a thread for", dir))?;
        let store = Self {
            cache,
            pins,
            journal: Some(journal),
            fault: None,
            metrics: metrics.clone(),
        };
        store.count_purges();
        Ok(store)
    }
}

fn cache_of(settings: &Settings, purges: PurgeSet) -> Arc<EntryCache> {
    let purges = purges.with_tags_header(settings.tags_header.clone());
    Arc::new(EntryCache::new(settings.meta_memory, purges))
}

/// Returns a number of a pin after which a store without one begins: chunks on disk may carry those of an earlier store.
fn random_pin() -> u16 {
    u16::try_from(random_number() & u64::from(u16::MAX)).unwrap_or_default()
}
