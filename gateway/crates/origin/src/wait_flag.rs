//! The moment at which a reader begins to wait for what is fetched ahead.
//!
//! Read-ahead that waits for a slot goes behind all requests of readers. If a reader comes to those bytes meanwhile, it
//! must not wait behind other readers that came later: the request then counts as that reader's own. As with the client,
//! the task carries this past every decorator to the place where requests queue (`decorators::limit`).

use std::future::pending;
use std::sync::Arc;

use tokio::sync::SetOnce;

tokio::task_local! {
    static AWAITED: WaitFlag;
}

/// Whether a reader has waited for the bytes of a request. It never changes back.
#[derive(Debug, Clone, Default)]
pub struct WaitFlag(Arc<SetOnce<()>>);

impl WaitFlag {
    /// Records that a reader waits.
    pub fn set(&self) {
        if !self.0.initialized() {
            // Another reader may have come first.
            let _ = self.0.set(());
        }
    }

    /// Runs work whose requests hear of it. Tasks that it spawns do not.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        AWAITED.scope(self.clone(), work).await
    }
}

/// Returns once a reader waits for the polled task's request; never if the task does not tell.
pub(crate) async fn wait() {
    match AWAITED.try_with(Clone::clone) {
        Ok(awaited) => {
            awaited.0.wait().await;
        }
        Err(_) => pending().await,
    }
}
