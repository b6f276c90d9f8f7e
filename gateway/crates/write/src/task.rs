//! Running work that must not stop half way.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use crate::WriteError;
use tidegate_engine::Core;
use tidegate_telemetry::trace;

/// Runs work to its end even if the caller stops waiting, because half of it would be wrong. Only
/// the engine's shutdown stops it.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    core: &Core,
    work: impl Future<Output = Result<T, WriteError>> + Send + 'static,
) -> Result<T, WriteError> {
    let stop = core.stop.clone();
    let (tell, outcome) = oneshot::channel();
    core.spawn(trace::carry(async move {
        tokio::select! {
            result = catch_panic(work) => drop(tell.send(result)),
            () = stop.cancelled() => {}
        }
    }));
    outcome.await.unwrap_or(Err(WriteError::Closing))
}

/// Runs work. A panic in it becomes a passing error: waiting callers get it, and the work's
/// unfinished state is cleaned up.
pub(crate) async fn catch_panic<T>(
    work: impl Future<Output = Result<T, WriteError>>,
) -> Result<T, WriteError> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_| {
        tracing::error!("a panic while an object was written; it is tried again");
        Err(WriteError::Bug)
    })
}
