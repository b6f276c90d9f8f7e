//! The wait for a write to be durable.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

use crate::MetaError;

/// Waits until a purge or a change of pins is durable, for `longest` at most. It holds in memory from the start, and
/// becomes durable when the disk takes it.
pub(super) async fn await_durable(
    result: oneshot::Receiver<Result<(), MetaError>>,
    longest: Duration,
) -> Result<(), MetaError> {
    let result = await_result(result, longest).await;
    if result
        .as_ref()
        .is_err_and(|error| *error == timeout_error(longest))
    {
        warn!(
            waited_ms = longest.as_millis(),
            "the state disk does not take what is written; purges and pins hold in memory only"
        );
    }
    result
}

/// Waits until something is durable, for `longest` at most.
pub(super) async fn await_result(
    result: oneshot::Receiver<Result<(), MetaError>>,
    longest: Duration,
) -> Result<(), MetaError> {
    match timeout(longest, result).await {
        Ok(result) => result.unwrap_or_else(|_| Err(MetaError("the store is closed".to_owned()))),
        Err(_) => Err(timeout_error(longest)),
    }
}

fn timeout_error(longest: Duration) -> MetaError {
    MetaError(format!(
        "the state disk did not take it within {} s",
        longest.as_secs_f64()
    ))
}
