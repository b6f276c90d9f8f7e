//! Carries out a request of the kernel: begins it on the thread that took it, and continues in a task if it has to wait.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fuser::Errno;
use tokio::runtime::Handle;

use crate::errno;
use crate::files::Files;
use crate::metrics::Operation;
use tidegate_telemetry::trace::{self, Span};

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
        let tracer = files.settings.tracer.as_ref();
        let span = tracer.and_then(|tracer| tracer.begin(operation.name(), None));
        let span = span.map(Box::new);
        let work = async move {
            let done = match span {
                None => work.await,
                // Boxed, so that a request that is not traced does not carry its state; and the work by itself, for each
                // step that hands it on would have room for it on the small stack of the kernel's thread.
                Some(span) => Box::pin(traced(*span, Box::pin(work))).await,
            };
            files.metrics.done(operation, &done);
            done
        };
        let change = operation.is_change().then(|| self.files.changes.token());
        self.carry_out(work, until_answered(change, reply));
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

/// Returns `reply`, which keeps `held` until the kernel has the answer.
pub(super) fn until_answered<T, H: Send + 'static>(
    held: H,
    reply: impl FnOnce(T) + Send + 'static,
) -> impl FnOnce(T) + Send + 'static {
    move |done| {
        reply(done);
        drop(held);
    }
}

/// Carries out a request as the first step of a trace. A missing file is an answer, and not a failure.
async fn traced<T>(
    mut span: Span,
    work: impl Future<Output = Result<T, Errno>>,
) -> Result<T, Errno> {
    let done = trace::within(Some(&span), work).await;
    span.set("tidegate.frontend", "mount");
    if let Err(errno) = &done {
        span.set("tidegate.errno", u64::from(errno.code().unsigned_abs()));
        if errno::is_failure(*errno) {
            span.fail();
        }
    }
    done
}
