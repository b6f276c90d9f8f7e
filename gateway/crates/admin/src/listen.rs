//! The admin listener's accept loop: HTTP/1.1 for few clients, every wait bounded.
//!
//! `axum::serve` installs no timer, so that a client that sends half a header would hold its
//! connection for ever.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use tidegate_socket::{Accepted, Listener};

pub(crate) mod control;
pub mod hosts;

/// Connections at once: a scraper, a prober and a person, with room to spare.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// A request's header must arrive within this time, and an idle connection is closed after it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// After this time a connection takes no further request: no client keeps its slot for good.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(300);
/// An answer in flight when a connection or the process ends may take this much longer.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after a failed accept, most likely for want of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Answers with `router` until `stop` is cancelled, and closes the socket then; returns when the last connection has ended,
/// at most 5 s later.
pub(crate) async fn serve(listener: Arc<Listener>, router: Router, stop: CancellationToken) {
    let server = Server {
        router,
        stop,
        tasks: TaskTracker::new(),
    };
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let next = || accept(&listener, &slots);
    while let Some(accepted) = server.stop.run_until_cancelled(next()).await {
        match accepted {
            Ok((accepted, slot)) => server.spawn(accepted, slot),
            Err(error) => {
                tracing::warn!(%error, "admin listener cannot accept");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    server.tasks.close();
    server.tasks.wait().await;
}

async fn accept(
    listener: &Listener,
    slots: &Arc<Semaphore>,
) -> io::Result<(Accepted, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    Ok((listener.accept().await?, slot))
}

struct Server {
    router: Router,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    fn spawn(&self, accepted: Accepted, slot: OwnedSemaphorePermit) {
        let stop = self.stop.clone();
        let router = self.router.clone();
        self.tasks.spawn(async move {
            let _slot = slot;
            let handshake = accepted.open(HEADER_TIMEOUT);
            let opened = match stop.run_until_cancelled(handshake).await {
                Some(Ok((stream, _))) => stream,
                Some(Err(error)) => {
                    tracing::debug!(%error, "no handshake on the admin listener");
                    return;
                }
                None => return,
            };
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(opened), TowerToHyperService::new(router));
            let mut connection = std::pin::pin!(connection);
            let end = tokio::time::timeout(CONNECTION_LIFETIME, stop.cancelled());
            // Errors here are clients that left or sent no HTTP: they need no action.
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = end => connection.as_mut().graceful_shutdown(),
            }
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await;
        });
    }
}
