//! The wait for a write to be durable.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

use crate::MetaError;

/// The longest that a purge or a change of pins waits for the state disk. It holds in memory from the
/// start, and becomes durable when the disk takes it.
pub(super) const DURABLE_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits until a purge or a change of pins is durable, for [`DURABLE_TIMEOUT`] at most.
pub(super) async fn await_durable(
    result: oneshot::Receiver<Result<(), MetaError>>,
) -> Result<(), MetaError> {
    let result = await_result(result).await;
    if result
        .as_ref()
        .is_err_and(|error| *error == timeout_error())
    {
        let seconds = DURABLE_TIMEOUT.as_secs();
        warn!(
            seconds,
            "the state disk does not take what is written; purges and pins hold in memory only"
        );
    }
    result
}

/// Waits until something is durable, for [`DURABLE_TIMEOUT`] at most.
pub(super) async fn await_result(
    result: oneshot::Receiver<Result<(), MetaError>>,
) -> Result<(), MetaError> {
    match timeout(DURABLE_TIMEOUT, result).await {
        Ok(result) => result.unwrap_or_else(|_| Err(MetaError("the store is closed".to_owned()))),
        Err(_) => Err(timeout_error()),
    }
}

fn timeout_error() -> MetaError {
    let seconds = DURABLE_TIMEOUT.as_secs();
    MetaError(format!("the state disk did not take it within {seconds} s"))
}
