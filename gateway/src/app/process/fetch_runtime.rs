//! The runtime of requests to origins and disks.
//!
//! Bulk transfers arrive in large pieces, each of which is copied once, and a hundred of them can be runnable at a
//! time. On the threads that answer clients they would all have their turn before a request that memory could answer at
//! once. On threads of their own, the kernel's scheduler runs a thread that has slept first: see ADR 0007.

use anyhow::Context as _;
use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime that may be dropped anywhere: its end waits for nothing.
#[derive(Debug)]
pub(in crate::app) struct FetchRuntime(Option<Runtime>);

impl FetchRuntime {
    /// Starts as many threads as there are processors.
    pub(in crate::app) fn start() -> anyhow::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.thread_name("fetch").enable_all().build();
        Ok(Self(Some(
            runtime.context("cannot start the runtime of fetches")?,
        )))
    }

    /// Returns the handle to spawn on.
    pub(in crate::app) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for FetchRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
