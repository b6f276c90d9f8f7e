//! The needs of the process itself: its allocator, the runtime for fetches, its machine, and the supervisor that started it.

#[cfg(target_os = "linux")]
pub(super) mod allocator;
pub(super) mod fetch_runtime;
pub(super) mod long_work;
pub(super) mod machine;
pub(super) mod supervisor;
