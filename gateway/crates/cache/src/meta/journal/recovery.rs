//! The recovery from a failure of the database, by the writer thread.

use tracing::{error, info};

use super::super::db::failure::DbFailure;
use super::super::queue::JournalEnd;
use super::{JournalState, RECOVERY_PAUSE};
use crate::MetaError;
use tidegate_telemetry::locks::Recover as _;

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
                    self.lock().suspect = None;
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
