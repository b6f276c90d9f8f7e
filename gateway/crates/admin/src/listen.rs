//! The admin listener's accept loop: HTTP/1.1 for few clients, every wait bounded.
//!
//! `axum::serve` installs no timer, so that a client that sends half a header would hold its
//! connection for ever.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use slots::{LateRequest, Slot, Slots};
use tidegate_socket::{AcceptedConnection, Listener};

pub(crate) mod control;
pub mod hosts;
mod slots;

/// Connections at once: a scraper, a prober and a person, with room to spare.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// A request's header must arrive within this time, and an idle connection is closed after it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// After this time a connection takes no further request: no client keeps its slot for good.
const CONNECTION_LIFETIME: Duration = Duration::from_secs(300);
/// An answer in flight when a connection or the process ends may take this much longer.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that gives way to another client has this time for the rest of its answer.
const GIVE_WAY_TIMEOUT: Duration = Duration::from_secs(1);
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
    let slots = Slots::new(MAX_CONNECTIONS);
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

/// Accepts a connection, and finds a slot for it.
async fn accept(
    listener: &Listener,
    slots: &Arc<Slots>,
) -> io::Result<(AcceptedConnection, Arc<Slot>)> {
    let accepted = listener.accept().await?;
    Ok((accepted, slots.take().await))
}

/// Answers a request of the connection in `slot`, which does not give way until the last byte was handed over.
async fn answer(
    router: TowerToHyperService<Router>,
    slot: Arc<Slot>,
    request: Request<Incoming>,
) -> Result<Response, LateRequest> {
    let guard = slot.begin_answer()?;
    let Ok(answer) = router.call(request).await;
    Ok(answer.map(|body| {
        Body::new(body.map_err(move |error| {
            // It lives as long as the body.
            let _ = &guard;
            error
        }))
    }))
}

struct Server {
    router: Router,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    fn spawn(&self, accepted: AcceptedConnection, slot: Arc<Slot>) {
        let stop = self.stop.clone();
        let router = TowerToHyperService::new(self.router.clone());
        self.tasks.spawn(async move {
            let handshake = tokio::select! {
                opened = accepted.open(HEADER_TIMEOUT) => opened,
                () = slot.gave_way() => return,
                () = stop.cancelled() => return,
            };
            let opened = match handshake {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::debug!(%error, "no handshake on the admin listener");
                    return;
                }
            };
            let service = service_fn(|request| answer(router.clone(), slot.clone(), request));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(64 << 10)
                .serve_connection(TokioIo::new(opened), service);
            let mut connection = std::pin::pin!(connection);
            let end = tokio::time::timeout(CONNECTION_LIFETIME, stop.cancelled());
            // Errors here are clients that left or sent no HTTP: they need no action.
            let timeout = tokio::select! {
                _ = connection.as_mut() => return,
                () = slot.gave_way() => match slot.has_answered() {
                    true => GIVE_WAY_TIMEOUT,
                    false => return,
                },
                _ = end => SHUTDOWN_TIMEOUT,
            };
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(timeout, connection).await;
        });
    }
}
