//! Maps the engine's errors to the numbers that a program sees: one table.

use std::sync::{LazyLock, Mutex};

use fuser::Errno;
use tokio::time::Instant;

use tidegate_engine::Error;
use tidegate_plan::LogRate;
use tidegate_telemetry::locks::Recover as _;
use tidegate_write::WriteError;

/// The number for a version whose bytes are gone everywhere: a program cannot be told to begin anew, and must not get
/// others.
pub(crate) const GONE_BYTES: Errno = Errno::EIO;

/// Returns whether a number tells of a failure of the gateway, its disks or the bucket. The others are answers: a name that
/// is missing, a folder that is not empty, a request that the kernel or a program may not make.
pub(crate) fn is_failure(errno: Errno) -> bool {
    [Errno::EIO.code(), Errno::ENOSPC.code()].contains(&errno.code())
}

/// Returns the number of a read error.
pub(crate) fn of(error: &Error) -> Errno {
    match error {
        Error::NotFound => Errno::ENOENT,
        Error::Forbidden => Errno::EACCES,
        Error::Changed => GONE_BYTES,
        Error::Overloaded { .. }
        | Error::Unavailable
        | Error::Timeout
        | Error::NotCached
        | Error::Stopped
        | Error::BadOrigin(_) => Errno::EIO,
    }
}

/// Returns the number, and logs the error unless the file is just missing.
pub(crate) fn logged(error: &Error, key: &str) -> Errno {
    match error {
        Error::NotFound => {}
        // These an operator has to repair. An origin that is down is logged once, not for each
        // file.
        Error::Forbidden | Error::BadOrigin(_) => {
            tracing::warn!(%error, key, "a file could not be read");
        }
        error => tracing::debug!(%error, key, "a file could not be read"),
    }
    of(error)
}

/// The lines about changes that an outage has failed, of all mounts: renames and removals wait in no queue that tells of them.
static OUTAGES: LazyLock<FailureRate> = LazyLock::new(FailureRate::default);

/// Returns the number of a write error, which is logged unless the file just exists.
pub(crate) fn written(error: &WriteError, key: &str) -> Errno {
    match error {
        WriteError::Exists => {}
        // The queue logs once that closed objects wait for a bucket that is down.
        WriteError::Origin(of_bucket) if is_outage(of_bucket) => match OUTAGES.record() {
            Some(count) => tracing::warn!(%error, key, count, "a file could not be written"),
            None => tracing::debug!(%error, key, "a file could not be written"),
        },
        error => tracing::warn!(%error, key, "a file could not be written"),
    }
    of_write(error)
}

/// The rate of lines about failures of one kind: few, because programs try again.
#[derive(Debug)]
pub(crate) struct FailureRate {
    started: Instant,
    rate: Mutex<LogRate>,
}

impl Default for FailureRate {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            rate: Mutex::default(),
        }
    }
}

impl FailureRate {
    /// Records a failure. Returns the number of failures since the last line, if one is due.
    fn record(&self) -> Option<u64> {
        self.rate.lock().recover().record(self.started.elapsed())
    }
}

/// Returns the number of the error of a read of a written file that is not in the bucket yet. Logs it if `rate` has a line
/// due.
pub(crate) fn unread(rate: &FailureRate, error: &WriteError, key: &str) -> Errno {
    if let Some(count) = rate.record() {
        tracing::warn!(%error, key, count, "a file that is not in the bucket yet could not be read");
    }
    of_write(error)
}

/// Returns whether the error is the same for every object of the bucket, until that answers again.
fn is_outage(error: &Error) -> bool {
    matches!(
        error,
        Error::Unavailable | Error::Timeout | Error::Overloaded { .. }
    )
}

/// Returns the number of a write error.
fn of_write(error: &WriteError) -> Errno {
    match error {
        WriteError::Exists => Errno::EEXIST,
        // The file that was opened is gone: another has taken its place.
        WriteError::Changed => Errno::ESTALE,
        WriteError::Full | WriteError::StorageFull => Errno::ENOSPC,
        WriteError::TooLarge => Errno::EFBIG,
        WriteError::KeyRefused => Errno::ENAMETOOLONG,
        WriteError::HeadersTooLarge => Errno::E2BIG,
        WriteError::Origin(error) => of(error),
        WriteError::Unsupported => Errno::EOPNOTSUPP,
        WriteError::Gone(_)
        | WriteError::Spool(_)
        | WriteError::Bug
        | WriteError::Lost
        | WriteError::Digest
        | WriteError::Interrupted
        | WriteError::Closing => Errno::EIO,
    }
}
