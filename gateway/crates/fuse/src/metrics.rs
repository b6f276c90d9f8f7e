//! The metrics of mounts.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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

impl Operation {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        OPERATION_LABELS[self as usize]
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

type Labels = [(&'static str, &'static str); 2];

/// The metrics of all mounts of a process. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    operations: Family<Labels, Counter>,
    /// By operation, for success and failure: counters of every read are looked up once.
    counters: Arc<[[Counter; 2]; OPERATION_LABELS.len()]>,
    pub(crate) handles: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let operations = Family::<Labels, Counter>::default();
        let counters = OPERATION_LABELS.map(|operation| {
            ["ok", "error"].map(|result| {
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

    pub(crate) fn done(&self, operation: Operation, failed: bool) {
        self.counters[operation as usize][usize::from(failed)].inc();
    }
}
