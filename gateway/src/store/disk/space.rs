//! Watches how much room there is, so that admission can be decided without asking the disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use foyer::Spawner;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::layout::{self, Layout};
use crate::store::DiskSettings;
use crate::store::metrics::DiskMetrics;

/// How often the free space is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// At every how manieth look the block files are measured as well.
const MEASURE: u32 = 30;

/// What is known of a disk's free space.
#[derive(Debug)]
pub(super) struct FreeSpace {
    /// Less than `min_free` is left: nothing may be admitted.
    pub(super) full: AtomicBool,
    dir: PathBuf,
    min_free: u64,
    queued: Arc<AtomicU64>,
    metrics: DiskMetrics,
}

impl FreeSpace {
    /// Looks once, and goes on looking in the background until the result is dropped. Blocks.
    pub(super) fn watch(
        settings: &DiskSettings,
        layout: &Layout,
        queued: &Arc<AtomicU64>,
        metrics: &DiskMetrics,
        spawner: &Spawner,
    ) -> Arc<Self> {
        let space = Arc::new(Self {
            full: AtomicBool::new(false),
            dir: layout.dir.clone(),
            min_free: settings.min_free,
            queued: Arc::clone(queued),
            metrics: metrics.clone(),
        });
        space.look();
        let watched = Arc::downgrade(&space);
        let blocking = spawner.clone();
        spawner.spawn(async move {
            let mut ticks = interval(LOOK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for tick in 0u32.. {
                ticks.tick().await;
                let Some(space) = watched.upgrade() else {
                    return;
                };
                let look = blocking.spawn_blocking(move || {
                    space.look();
                    if tick.is_multiple_of(MEASURE) {
                        let used = layout::allocated(&space.dir);
                        space.metrics.tier.used.set(gauge(used));
                    }
                });
                if look.await.is_err() {
                    return;
                }
            }
        });
        space
    }

    /// Looks at the free space, and opens or closes admission by it. Blocks.
    fn look(&self) {
        self.metrics
            .queued
            .set(gauge(self.queued.load(Ordering::Relaxed)));
        let Some(space) = layout::space(&self.dir) else {
            return;
        };
        self.metrics.free.set(gauge(space.free));
        let (free, min_free) = (space.free, self.min_free);
        let full = free < min_free;
        if full == self.full.swap(full, Ordering::Relaxed) {
            return;
        }
        let path = self.dir.display();
        if full {
            warn!(%path, free, min_free, "cache disk takes nothing more: too little space is left");
        } else {
            info!(%path, free, min_free, "cache disk takes chunks again");
        }
    }
}

fn gauge(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
