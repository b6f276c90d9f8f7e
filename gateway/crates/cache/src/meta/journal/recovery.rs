//! The recovery from a failure of the database, by the writer thread.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use tracing::{error, info};

use super::super::db::failure::DbFailure;
use super::super::queue::{ChangeQueue, JournalEnd};
use super::{JournalState, RECOVERY_PAUSE};
use crate::MetaError;
use tidegate_telemetry::locks::Recover as _;

/// The shortest time between two times that reads have the database opened again.
const REOPENING_PAUSE: Duration = Duration::from_secs(1);

impl JournalState {
    /// Has the thread open the database again: after one read that the disk refused, redb refuses all others. Until that
    /// is done, further failures are counted and not logged.
    pub(super) fn suspect(&self, failure: DbFailure) {
        let mut queue = self.lock();
        if queue.suspect.is_some() {
            self.metrics.errors.inc();
            return;
        }
        self.report_failure(&failure, "cannot read the metadata store");
        queue.suspect = Some(failure);
        self.wake.notify_one();
    }

    /// Opens the database again after a read that failed, but not within [`REOPENING_PAUSE`] of the time before: rows in a
    /// bad sector fail at each read. Returns early if the queue changes; the caller looks at it again.
    pub(super) fn recover_read<'a>(
        &'a self,
        queue: MutexGuard<'a, ChangeQueue>,
        failure: &DbFailure,
    ) -> MutexGuard<'a, ChangeQueue> {
        let since = queue.reopened.map(|at| at.elapsed());
        let pause = since.map_or(Duration::ZERO, |since| {
            REOPENING_PAUSE.saturating_sub(since)
        });
        if queue.end.is_none() && !pause.is_zero() {
            return self.wake.wait_timeout(queue, pause).recover().0;
        }
        drop(queue);
        self.recover(failure, false);
        self.lock()
    }

    /// Opens the database again, or begins a new one, until that works or the store is closed. If a batch was `lost`, or
    /// the file, purges and pins are written from memory. Changes stay queued, so that none is lost.
    pub(super) fn recover(&self, failure: &DbFailure, lost: bool) {
        let (mut failure, mut lost) = (failure.clone(), lost);
        loop {
            lost |= failure.corrupt;
            let rows = lost.then(|| (self.cache.purge_rows(), self.pins.rows()));
            match self.db.recover(&failure, rows) {
                Ok(()) => {
                    // A read of the closed database may have failed meanwhile.
                    let mut queue = self.lock();
                    queue.suspect = None;
                    queue.reopened = Some(Instant::now());
                    drop(queue);
                    info!("the metadata store is open again");
                    return;
                }
                Err(next) => {
                    self.report_failure(&next, "cannot open the metadata store again");
                    failure = next;
                }
            }
            let queue = self.lock();
            let pause = self
                .wake
                .wait_timeout_while(queue, RECOVERY_PAUSE, |queue| queue.end.is_none());
            let mut queue = pause.recover().0;
            for waiter in queue.waiters.drain(..) {
                let _ = waiter.send(Err(MetaError(failure.to_string())));
            }
            if queue.end.is_some() {
                queue.end = Some(JournalEnd::Abandoned);
                return;
            }
        }
    }

    pub(super) fn report_failure(&self, failure: &DbFailure, what: &'static str) {
        self.metrics.errors.inc();
        error!(reason = %failure, what, "the metadata database fails");
    }
}
