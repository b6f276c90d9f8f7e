//! Faults of the disk below a spool's journals, for tests.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use tidegate_telemetry::locks::Recover as _;

/// The calls that go well before the next fault of a spool, and the faults after them.
static FAULTS: LazyLock<Mutex<HashMap<PathBuf, (u64, u64)>>> = LazyLock::new(Mutex::default);

/// Lets `well` calls go well, and then fails `count` calls.
pub(crate) fn fail_next(directory: &Path, well: u64, count: u64) {
    FAULTS
        .lock()
        .recover()
        .insert(directory.to_owned(), (well, count));
}

/// Returns the error of a call that is to fail.
pub(crate) fn fault(directory: &Path) -> io::Result<()> {
    let mut faults = FAULTS.lock().recover();
    match faults.get_mut(directory) {
        Some((well, _)) if *well > 0 => *well -= 1,
        Some((_, count)) if *count > 0 => {
            *count -= 1;
            return Err(io::Error::other("a fault of the disk"));
        }
        _ => {}
    }
    Ok(())
}
