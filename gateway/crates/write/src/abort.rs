//! Aborts of uploads in parts. The bucket keeps the parts of an upload that is neither completed nor aborted, and its owner
//! pays for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::RETRY_PAUSE;
use tidegate_engine::{Core, Error};
use tidegate_origin::{Origin, OriginError, Upload};

/// Further tries to abort an upload, after the first: through an outage of about half an hour.
const MAX_ABORT_RETRIES: u32 = 30;

/// The longest duration of an abort when the process ends.
const SHUTDOWN_ABORT_TIMEOUT: Duration = Duration::from_millis(500);

/// An upload that is aborted in the background if this is dropped before it is complete.
pub(crate) struct PendingUpload {
    core: Arc<Core>,
    origin: Arc<dyn Origin>,
    upload: Option<Upload>,
}

impl PendingUpload {
    pub(crate) fn new(core: &Arc<Core>, origin: &Arc<dyn Origin>, upload: Upload) -> Self {
        Self {
            core: core.clone(),
            origin: origin.clone(),
            upload: Some(upload),
        }
    }

    /// Notes that it is complete.
    pub(crate) fn completed(mut self) {
        self.upload = None;
    }
}

impl Drop for PendingUpload {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            let (core, origin) = (self.core.clone(), self.origin.clone());
            self.core
                .spawn(async move { abort(&core, &*origin, &upload).await });
        }
    }
}

/// Aborts an upload. Logs one that is left.
pub(crate) async fn abort(core: &Core, origin: &dyn Origin, upload: &Upload) {
    let aborted = try_to_abort(core, origin, upload).await;
    note_left(upload, aborted);
}

/// Aborts an upload. Tries again while the origin is down, and once more at the end of the process.
///
/// # Errors
/// Those of the last try: the upload may be left.
pub(crate) async fn try_to_abort(
    core: &Core,
    origin: &dyn Origin,
    upload: &Upload,
) -> Result<(), OriginError> {
    let mut failures = 0;
    loop {
        let is_last = core.stop.is_cancelled() || failures == MAX_ABORT_RETRIES;
        let end = async {
            core.stop.cancelled().await;
            sleep(SHUTDOWN_ABORT_TIMEOUT).await;
        };
        let aborted = tokio::select! {
            aborted = origin.writing().abort(upload) => aborted,
            () = end => return Err(OriginError::Unavailable("we are ending")),
        };
        let is_down = |error: &OriginError| Error::from(error.clone()).excuses_stale();
        if is_last || !aborted.as_ref().is_err_and(is_down) {
            return aborted;
        }
        tokio::select! {
            () = sleep(RETRY_PAUSE.pause(failures, 1.0)) => {}
            () = core.stop.cancelled() => {}
        }
        failures += 1;
    }
}

/// Logs an upload that could not be aborted.
pub(crate) fn note_left(upload: &Upload, aborted: Result<(), OriginError>) {
    if let Err(error) = aborted {
        let (key, id) = (upload.key.as_str(), &*upload.id);
        tracing::warn!(%error, key, id, "cannot abort an upload; the bucket's lifecycle rules may");
    }
}
