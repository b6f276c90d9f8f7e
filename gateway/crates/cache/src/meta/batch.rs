//! The changes of one transaction, and the run of the process that writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use super::purges::PurgeEdit;
use crate::pins::PinRow;

/// The run of the process, and the runs whose records can be trusted to be complete. Runs are numbered by
/// the clock; a run that loses a change continues under a new number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The number of this run.
    pub(super) number: u64,
    /// The first run after the last unclean stop or lost change: older records must be confirmed.
    pub(super) trusted: u64,
    /// The first run after a removal was lost: older records may be of deleted objects, and are ignored.
    pub(super) sound: u64,
}

/// The changes of one transaction, which is durable when the write returns.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Rows of records; `None` removes one.
    pub(super) records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The changes of the purges.
    pub(super) purges: Vec<PurgeEdit>,
    /// The rows of pins.
    pub(super) pins: Vec<PinRow>,
    /// `pins` are all rows: others are removed.
    pub(super) all_pins: bool,
    /// The last batch: it marks the end of the run as orderly.
    pub(super) last: bool,
}

/// Returns the microseconds since 1970.
pub(super) fn now_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
}
