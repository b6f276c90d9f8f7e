//! The accept loop: accepts connections, bounds their number, and drains them at the end.
//!
//! `axum::serve` has no timers, no bound on connections and no deadline for its drain, so this loop replaces it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::conn::auto::Builder;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{self, Ending, Handler};
use super::metrics::Metrics;
use super::settings::Settings;
use super::streams::StreamTasks;
use tidegate_socket::Listener;

/// The pause between two attempts to accept while the system lacks a resource (EMFILE, ENOBUFS).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The state that all connections share.
pub(super) struct Server<H> {
    pub(super) handler: Arc<H>,
    pub(super) settings: Arc<Settings>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) protocol: Builder<StreamTasks>,
    places: Arc<Semaphore>,
}

impl<H: Handler> Server<H> {
    pub(super) fn new(handler: Arc<H>, settings: Arc<Settings>, metrics: Arc<Metrics>) -> Self {
        let places = settings.connections.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            handler,
            protocol: connection::protocol(&settings),
            places: Arc::new(Semaphore::new(places)),
            settings,
            metrics,
        }
    }

    /// Serves `listeners` until `stop`; returns when the last answer is done or the drain's
    /// deadline has passed.
    pub(super) async fn run(self: Arc<Self>, listeners: Vec<Listener>, stop: CancellationToken) {
        let ending = Ending::default();
        let connections = TaskTracker::new();
        let mut loops = JoinSet::new();
        for listener in listeners {
            let accept = self
                .clone()
                .accept(listener, connections.clone(), ending.clone());
            loops.spawn(stop.clone().run_until_cancelled_owned(accept));
        }
        stop.cancelled().await;
        // With the loops go the sockets: a new client is refused rather than left waiting. If a supervisor holds the
        // socket too, the client waits for the next process.
        while loops.join_next().await.is_some() {}
        ending.drain.cancel();
        connections.close();
        if timeout(self.settings.drain, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(connections = connections.len(), "drain deadline passed");
            ending.abort.cancel();
            connections.wait().await;
        }
    }

    async fn accept(self: Arc<Self>, listener: Listener, tasks: TaskTracker, ending: Ending) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // While there is no place, this connection waits here, and the next ones in the kernel's queue. If
                    // the place were taken first, an idle listener would keep one from the others.
                    let place = self.places.clone().acquire_owned().await;
                    let place = place.expect("the semaphore is never closed");
                    let open = Open::new(self.metrics.clone(), place);
                    let run = connection::run(self.clone(), stream, peer, ending.clone());
                    tasks.spawn(async move {
                        run.await;
                        drop(open);
                    });
                }
                Err(error) if is_the_peers(&error) => {
                    tracing::debug!(%error, "connection lost before it was accepted");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Returns whether an accept failed for one connection only.
fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, InvalidInput};
    // InvalidInput results from setting an option on a connection that is gone already.
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | InvalidInput
    )
}

/// A connection's place, and its share of the gauge.
struct Open {
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
}

impl Open {
    fn new(metrics: Arc<Metrics>, place: OwnedSemaphorePermit) -> Self {
        metrics.accepted.inc();
        metrics.connections.inc();
        Self {
            metrics,
            _place: place,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

#[cfg(test)]
#[path = "serve/tests.rs"]
mod tests;
