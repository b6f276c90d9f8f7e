//! System calls on threads of their own, which may never return.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The progress of a system call, shared by the task that waits and the thread that makes it.
#[derive(Debug, Default)]
pub(crate) struct BlockingCall(AtomicU8);

#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum CallState {
    Waits,
    Runs,
    Ended,
    Abandoned,
}

impl BlockingCall {
    /// Records that the call is made now.
    pub(crate) fn begin(&self) {
        self.change(CallState::Waits, CallState::Runs);
    }

    /// Records that the call returned; `false`: too late, it was abandoned.
    pub(crate) fn end(&self) -> bool {
        self.change(CallState::Runs, CallState::Ended)
    }

    /// Records that no task waits any more; `true`: the call still runs.
    pub(crate) fn abandon(&self) -> bool {
        self.change(CallState::Runs, CallState::Abandoned)
    }

    fn change(&self, from: CallState, to: CallState) -> bool {
        let (from, to) = (from as u8, to as u8);
        let changed = self
            .0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        changed.is_ok()
    }
}

/// Threads for system calls. Their end is not waited for, because one may hang for ever.
#[derive(Debug)]
pub(crate) struct BlockingThreads(Option<Runtime>);

impl BlockingThreads {
    /// Creates at most `count` threads of this name, as they are needed.
    ///
    /// # Errors
    /// The system gives no threads.
    pub(crate) fn new(name: &str, count: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(count)
            .thread_name(name)
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// Runs a call on a thread; `None` at the end.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<JoinHandle<T>> {
        self.0.as_ref().map(|runtime| runtime.spawn_blocking(call))
    }
}

impl Drop for BlockingThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
