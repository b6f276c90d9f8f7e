//! The health of a disk: which operations it is trusted with now.
//!
//! | state | reads | writes | left when |
//! | --- | --- | --- | --- |
//! | loading | loaded chunks | refused | the index is complete |
//! | up | yes | yes | |
//! | slow | no: one was late, or several failed | yes | a probe reads in time |
//! | demoted | yes, unless they fail too | no: one failed | a probe writes and reads back |
//! | full | yes | no: below `min_free`, or no space | there is room again |
//! | closed | no | no | |
//!
//! If several apply, demoted is shown before slow, and slow before full.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tracing::{info, warn};

use super::refusal::Refusal;
use crate::metrics::DiskMetrics;
use crate::tiering::DiskState;
use tidegate_telemetry::locks::Recover as _;

/// Consecutive failed reads after which no more are made: one bad place does not make a bad disk.
const MAX_BAD_READS: u32 = 3;

/// The reasons in words why reads or writes are off; `None` while they are on.
#[derive(Debug, Default)]
struct FailureCauses {
    reads: Option<String>,
    writes: Option<String>,
    /// The reason why the index cannot be loaded now.
    load: Option<String>,
}

/// The health of one disk.
#[derive(Debug)]
pub(super) struct Health {
    path: String,
    loaded: AtomicBool,
    closed: AtomicBool,
    full: AtomicBool,
    reads_off: AtomicBool,
    writes_off: AtomicBool,
    bad_reads: AtomicU32,
    causes: Mutex<FailureCauses>,
    metrics: DiskMetrics,
}

impl Health {
    /// Creates the health of a disk that is being loaded.
    pub(super) fn new(path: String, metrics: DiskMetrics) -> Self {
        metrics.set_state(DiskState::Loading, false);
        Self {
            path,
            loaded: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            full: AtomicBool::new(false),
            reads_off: AtomicBool::new(false),
            writes_off: AtomicBool::new(false),
            bad_reads: AtomicU32::new(0),
            causes: Mutex::default(),
            metrics,
        }
    }

    /// Returns the state in one word.
    pub(super) fn state(&self) -> DiskState {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        if is(&self.closed) {
            DiskState::Closed
        } else if !is(&self.loaded) {
            DiskState::Loading
        } else if is(&self.writes_off) {
            DiskState::Demoted
        } else if is(&self.reads_off) {
            DiskState::Slow
        } else if is(&self.full) {
            DiskState::Full
        } else {
            DiskState::Up
        }
    }

    /// Describes the faults in words; none of them keeps the gateway from serving.
    pub(super) fn notes(&self) -> Vec<String> {
        let causes = self.causes();
        let mut notes = Vec::new();
        if let Some(why) = &causes.load {
            notes.push(format!(
                "cache disk {}: its index cannot be loaded ({why})",
                self.path
            ));
        }
        if let Some(why) = &causes.writes {
            notes.push(format!(
                "cache disk {}: nothing is written to it ({why})",
                self.path
            ));
        }
        if let Some(why) = &causes.reads {
            notes.push(format!(
                "cache disk {}: nothing is read from it ({why})",
                self.path
            ));
        }
        if self.is_full() {
            notes.push(format!(
                "cache disk {}: takes nothing more, too little space is left",
                self.path
            ));
        }
        notes
    }

    /// Returns the reason why nothing may be written now, if there is one.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self.state() {
            DiskState::Closed => Some(Refusal::Closed),
            DiskState::Loading => Some(Refusal::Opening),
            _ if self.writes_off() => Some(Refusal::Demoted),
            _ if self.is_full() => Some(Refusal::Full),
            _ => None,
        }
    }

    /// Returns whether chunks may be read.
    pub(super) fn can_read(&self) -> bool {
        !self.reads_off() && !self.closed.load(Ordering::Relaxed)
    }

    /// Returns whether reads wait for a probe.
    pub(super) fn reads_off(&self) -> bool {
        self.reads_off.load(Ordering::Relaxed)
    }

    /// Returns whether writes wait for a probe.
    pub(super) fn writes_off(&self) -> bool {
        self.writes_off.load(Ordering::Relaxed)
    }

    /// Returns whether there is too little space.
    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Records why the index cannot be loaded now. `true`: that was not known before.
    pub(super) fn set_load_fault(&self, error: &dyn Display) -> bool {
        self.causes().load.replace(error.to_string()).is_none()
    }

    /// Records that the index is complete.
    pub(super) fn set_loaded(&self) {
        self.causes().load = None;
        self.loaded.store(true, Ordering::Relaxed);
        self.publish_state();
    }

    /// Records that the log is closed.
    pub(super) fn set_closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.publish_state();
    }

    /// Records that space ran out or came back.
    pub(super) fn set_full(&self, full: bool, free: u64) {
        if self.full.swap(full, Ordering::Relaxed) == full {
            return;
        }
        let path = &self.path;
        if full {
            warn!(
                path,
                free, "cache disk takes nothing more: too little space is left"
            );
        } else {
            info!(path, free, "cache disk takes chunks again");
        }
        self.publish_state();
    }

    /// Records that a write failed: no more are made until a probe succeeds.
    pub(super) fn record_write_failure(&self, error: &dyn Display) {
        let mut causes = self.causes();
        if self.writes_off.swap(true, Ordering::Relaxed) {
            return;
        }
        causes.writes = Some(error.to_string());
        drop(causes);
        warn!(
            path = self.path, %error,
            "cannot write to the cache disk; nothing is written until a probe succeeds"
        );
        self.publish_state();
    }

    /// Records that a probe wrote and read back.
    pub(super) fn resume_writes(&self) {
        self.causes().writes = None;
        if self.writes_off.swap(false, Ordering::Relaxed) {
            info!(path = self.path, "the cache disk can be written again");
        }
        self.publish_state();
    }

    /// Records that a read took too long: no more are made until a probe succeeds.
    pub(super) fn record_late_read(&self, waited: std::time::Duration) {
        self.suspend_reads(
            &format!("no answer within {} ms", waited.as_millis()),
            "the cache disk does not answer in time; nothing is read from it until a probe succeeds",
        );
    }

    /// Records that a read failed.
    pub(super) fn record_read_failure(&self, error: &dyn Display) {
        let bad = self.bad_reads.fetch_add(1, Ordering::Relaxed) + 1;
        if bad >= MAX_BAD_READS {
            self.suspend_reads(
                error,
                "cannot read the cache disk; nothing is read from it until a probe succeeds",
            );
        } else {
            warn!(path = self.path, %error, "cannot read a chunk");
        }
    }

    /// Records that a read succeeded.
    pub(super) fn record_read_success(&self) {
        if self.bad_reads.load(Ordering::Relaxed) != 0 {
            self.bad_reads.store(0, Ordering::Relaxed);
        }
    }

    /// Records that a probe read in time.
    pub(super) fn resume_reads(&self) {
        self.causes().reads = None;
        self.bad_reads.store(0, Ordering::Relaxed);
        if self.reads_off.swap(false, Ordering::Relaxed) {
            info!(path = self.path, "the cache disk is read again");
        }
        self.publish_state();
    }

    fn suspend_reads(&self, error: &dyn Display, message: &'static str) {
        let mut causes = self.causes();
        if self.reads_off.swap(true, Ordering::Relaxed) {
            return;
        }
        causes.reads = Some(error.to_string());
        drop(causes);
        warn!(path = self.path, %error, "{message}");
        self.publish_state();
    }

    fn publish_state(&self) {
        let is_read = self.loaded.load(Ordering::Relaxed) && self.can_read();
        self.metrics.set_state(self.state(), is_read);
    }

    fn causes(&self) -> MutexGuard<'_, FailureCauses> {
        self.causes.lock().recover()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::StoreMetrics;

    type Step = fn(&Health);

    /// A state, the steps to it, whether the disk is read, is written and counts as up, and words of the sentence.
    type Row = (DiskState, Vec<Step>, [bool; 3], &'static str);

    fn rows() -> [Row; 8] {
        let error: Step = |health| health.record_write_failure(&"an I/O error");
        let late: Step = |health| health.record_late_read(std::time::Duration::from_millis(80));
        let full: Step = |health| health.set_full(true, 0);
        let (loaded, closed): (Step, Step) = (Health::set_loaded, Health::set_closed);
        [
            (
                DiskState::Loading,
                vec![],
                [true, false, false],
                "chunks loaded so far are read, and nothing is written",
            ),
            (
                DiskState::Up,
                vec![loaded],
                [true, true, true],
                "read and written",
            ),
            (
                DiskState::Slow,
                vec![loaded, late],
                [false, true, false],
                "nothing is read from it until",
            ),
            (
                DiskState::Demoted,
                vec![loaded, error],
                [true, false, true],
                "nothing is written to it until",
            ),
            (
                DiskState::Demoted,
                vec![loaded, error, late],
                [false, false, false],
                "unless reads fail too",
            ),
            (
                DiskState::Full,
                vec![loaded, full],
                [true, false, true],
                "it is read, and nothing is written",
            ),
            (
                DiskState::Slow,
                vec![loaded, full, late],
                [false, false, false],
                "nothing is read from it until",
            ),
            (
                DiskState::Closed,
                vec![loaded, closed],
                [false, false, false],
                "neither read nor written",
            ),
        ]
    }

    #[test]
    fn each_state_reads_and_writes_as_its_sentence_says() {
        for (state, steps, [is_read, is_written, is_up], sentence) in rows() {
            let metrics = StoreMetrics::default().disk("/ssd");
            let health = Health::new("/ssd".to_owned(), metrics.clone());
            steps.iter().for_each(|step| step(&health));
            let found = [
                health.can_read(),
                health.refusal().is_none(),
                metrics.up.get() == 1,
            ];
            let name = state.name();
            assert_eq!(
                (health.state(), found),
                (state, [is_read, is_written, is_up]),
                "{name}"
            );
            assert!(state.sentence().contains(sentence), "{name}");
        }
    }
}
