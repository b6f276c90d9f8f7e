//! The metrics of mounts.

use std::sync::Arc;

use fuser::Errno;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::errno;
use tidegate_telemetry::names;

/// The kernel's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    LookUp,
    GetAttr,
    Open,
    Read,
    ReadDir,
    GetXattr,
    Create,
    Write,
    Flush,
    Fsync,
    SetAttr,
    Allocate,
    Copy,
    Unlink,
    MkDir,
    RmDir,
    Rename,
    SymLink,
    ReadLink,
}

/// Those that change files, or end a change.
const CHANGES: [Operation; 12] = [
    Operation::Create,
    Operation::Write,
    Operation::Flush,
    Operation::Fsync,
    Operation::SetAttr,
    Operation::Allocate,
    Operation::Copy,
    Operation::Unlink,
    Operation::MkDir,
    Operation::RmDir,
    Operation::Rename,
    Operation::SymLink,
];

impl Operation {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        OPERATION_LABELS[self as usize]
    }

    /// Returns whether it changes files, or ends a change.
    pub(crate) fn is_change(self) -> bool {
        CHANGES.contains(&self)
    }
}

/// Every operation, in the order of their numbers.
const OPERATION_LABELS: [&str; 19] = [
    "look_up",
    "getattr",
    "open",
    "read",
    "readdir",
    "getxattr",
    "create",
    "write",
    "flush",
    "fsync",
    "setattr",
    "fallocate",
    "copy_file_range",
    "unlink",
    "mkdir",
    "rmdir",
    "rename",
    "symlink",
    "readlink",
];

/// The results of a request: as it should, an answer that is an error, or a failure of the gateway or the bucket.
const RESULT_LABELS: [&str; 3] = ["ok", "error", "failed"];

type Labels = [(&'static str, &'static str); 2];

/// The metrics of all mounts of a process. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    operations: Family<Labels, Counter>,
    /// By operation and result: counters of every read are looked up once.
    counters: Arc<[[Counter; RESULT_LABELS.len()]; OPERATION_LABELS.len()]>,
    pub(crate) handles: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let operations = Family::<Labels, Counter>::default();
        let counters = OPERATION_LABELS.map(|operation| {
            RESULT_LABELS.map(|result| {
                let labels = [("operation", operation), ("result", result)];
                operations.get_or_create(&labels).clone()
            })
        });
        Self {
            operations,
            counters: Arc::new(counters),
            handles: Gauge::default(),
        }
    }
}

impl Metrics {
    /// Registers them for `/metrics`.
    pub fn register(&self, registry: &mut Registry) {
        names::FUSE_OPERATIONS.register(registry, self.operations.clone());
        names::FUSE_OPEN_FILES.register(registry, self.handles.clone());
    }

    pub(crate) fn done<T>(&self, operation: Operation, done: &Result<T, Errno>) {
        let result = match done {
            Ok(_) => 0,
            Err(errno) => 1 + usize::from(errno::is_failure(*errno)),
        };
        self.counters[operation as usize][result].inc();
    }

    /// Returns the number of requests so far that change files.
    pub(crate) fn changes(&self) -> u64 {
        let counters = CHANGES.map(|operation| &self.counters[operation as usize]);
        counters
            .iter()
            .flat_map(|of| of.iter().map(Counter::get))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_name_is_an_error_and_an_unreachable_bucket_a_failure() {
        let metrics = Metrics::default();
        metrics.done(Operation::Read, &Ok(()));
        for errno in [Errno::ENOENT, Errno::EACCES, Errno::ESTALE] {
            metrics.done::<()>(Operation::Read, &Err(errno));
        }
        for errno in [Errno::EIO, Errno::ENOSPC] {
            metrics.done::<()>(Operation::Read, &Err(errno));
        }
        let count = |result| {
            let labels = [("operation", "read"), ("result", result)];
            metrics.operations.get_or_create(&labels).get()
        };
        assert_eq!(RESULT_LABELS.map(count), [1, 3, 2]);
    }
}
