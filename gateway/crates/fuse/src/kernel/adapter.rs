//! Carries out a request of the kernel: begins it on the thread that took it, and continues in a task if it has to wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fuser::Errno;
use tokio::runtime::Handle;

use crate::files::Files;
use crate::metrics::Operation;

/// Files as the kernel sees them.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(super) files: Arc<Files>,
    pub(super) runtime: Handle,
}

impl Adapter {
    pub(crate) fn new(files: Arc<Files>, runtime: Handle) -> Self {
        Self { files, runtime }
    }

    /// Answers within the deadline.
    pub(super) fn answer<T: Send + 'static>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, Errno>> + Send + 'static,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let files = self.files.clone();
        let work = async move { files.bounded(work).await };
        self.counted(operation, work, reply);
    }

    /// Answers when `work` is done, which bounds itself, or when the mount goes.
    pub(super) fn answer_long<T: Send + 'static>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, Errno>> + Send + 'static,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let files = self.files.clone();
        let work = async move { files.until_stopped(work).await };
        self.counted(operation, work, reply);
    }

    fn counted<T: Send + 'static>(
        &self,
        operation: Operation,
        work: impl Future<Output = Result<T, Errno>> + Send + 'static,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let files = self.files.clone();
        let work = async move {
            let done = work.await;
            files.metrics.done(operation, done.is_err());
            done
        };
        self.carry_out(work, reply);
    }

    /// Begins `work` here, continues it in a task if it has to wait, and replies.
    pub(super) fn carry_out<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        reply: impl FnOnce(T) + Send + 'static,
    ) {
        let mut work = Box::pin(work);
        let _entered = self.runtime.enter();
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::as_mut(&mut work).poll(&mut cx) {
            Poll::Ready(done) => reply(done),
            Poll::Pending => {
                self.runtime.spawn(async move { reply(work.await) });
            }
        }
    }
}
