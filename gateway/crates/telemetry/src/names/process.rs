//! The process and the build.

use crate::metric::{Metric, counter, gauge, info};

/// Bytes fetched over bytes delivered.
pub const AMPLIFICATION: Metric = gauge(
    "amplification_ratio",
    &[],
    "Bytes fetched from origins over bytes delivered to readers, since the start; absent until something was delivered",
);

/// Version of the program.
pub const BUILD: Metric = info("build", &["version"], "Version of the program that runs");

/// Start of the process.
pub const PROCESS_START_TIME: Metric = gauge(
    "process_start_time_seconds",
    &[],
    "When the process started, in seconds since 1970",
);

/// Processor time.
pub const PROCESS_CPU: Metric = counter(
    "process_cpu_seconds",
    &[],
    "Processor time used, in user and kernel mode",
);

/// Resident memory.
pub const PROCESS_RESIDENT_MEMORY: Metric = gauge(
    "process_resident_memory_bytes",
    &[],
    "Memory of the process that is in RAM",
);

/// Threads.
pub const PROCESS_THREADS: Metric = gauge("process_threads", &[], "Threads of the process");

/// Open file descriptors.
pub const PROCESS_OPEN_FDS: Metric = gauge(
    "process_open_fds",
    &[],
    "Open file descriptors: sockets, cache files, and the rest",
);

/// The limit of file descriptors.
pub const PROCESS_MAX_FDS: Metric = gauge(
    "process_max_fds",
    &[],
    "The most file descriptors that the process may open",
);
