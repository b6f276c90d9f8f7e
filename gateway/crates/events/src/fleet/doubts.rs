//! The doubt of everything that is known, once messages may have been missed.

use std::time::Duration;

use tokio::time::sleep;

use super::Fleet;

/// The pause between two doubts of everything: many reasons at once are one.
pub(super) const DOUBT_PAUSE: Duration = Duration::from_secs(1);

impl Fleet {
    /// Asks for a doubt of everything.
    pub(super) fn doubt(&self, reason: &'static str) {
        self.metrics.doubt(reason);
        self.doubts.notify_one();
    }

    /// Doubts everything whenever there is a reason, and no more than once in [`DOUBT_PAUSE`].
    pub(crate) async fn doubt_on_request(&self) {
        loop {
            self.doubts.notified().await;
            tracing::info!("messages of the fleet may have been missed: everything is confirmed");
            if let Err(error) = self.sink.doubt().await {
                tracing::warn!(%error, "not everything may be confirmed after a restart");
            }
            sleep(DOUBT_PAUSE).await;
        }
    }
}
