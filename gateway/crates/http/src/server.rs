//! The accept loop: accepts connections, bounds their number, and drains them at the end.
//!
//! `axum::serve` has no timers, no bound on connections and no deadline for its drain, so this loop replaces it.

pub(crate) mod connection;
pub(crate) mod control;
mod crowding;
pub(crate) mod live_settings;
mod protocol;
pub(crate) mod sent_body;
pub(crate) mod streams;
pub(crate) mod timeouts;
mod watched_socket;
mod woken_future;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::{ConnectionContext, Handler, Shutdown};
use self::control::{Change, Changes, OpenedListener};
use self::crowding::Place;
use self::live_settings::ActiveSettings;
use crate::metrics::Metrics;
use tidegate_plan::Client;
use tidegate_socket::{AcceptedConnection, Listener};
use tidegate_telemetry::progress::told_of;

/// The pause between two attempts to accept while the system lacks a resource (EMFILE, ENOBUFS).
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The listeners' side of the frontend: its connections, and how many of them there may be.
pub(crate) struct Server<H> {
    context: Arc<ConnectionContext<H>>,
    slots: Arc<Semaphore>,
}

impl<H: Handler> Server<H> {
    pub(crate) fn new(context: ConnectionContext<H>) -> Self {
        let slots = slots(&context.settings.load());
        Self {
            slots: Arc::new(Semaphore::new(slots)),
            context: Arc::new(context),
        }
    }

    /// Serves the listeners that are opened by `changes` until `stop`; returns when the last answer is done or the
    /// drain's deadline has passed.
    pub(crate) async fn run(self: Arc<Self>, mut changes: Changes, stop: CancellationToken) {
        let shutdown = Shutdown::default();
        let connections = TaskTracker::new();
        let mut loops = JoinSet::new();
        let mut slots = self.slots.available_permits();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(change) = changes.next() => match change {
                    Change::Opened(opened) => {
                        let serve = self.clone().serve(opened, connections.clone(), shutdown.clone());
                        loops.spawn(stop.clone().run_until_cancelled_owned(serve));
                    }
                    Change::Settings => slots = self.resize(slots),
                },
                Some(_) = loops.join_next() => {}
            }
        }
        // With the loops go the sockets: a new client is refused rather than left waiting. If a supervisor holds the
        // socket too, the client waits for the next process.
        drop(changes);
        while loops.join_next().await.is_some() {}
        let limit = self.context.settings.load().settings.drain;
        end(limit, &connections, &shutdown).await;
    }

    /// Serves a listener until it is stopped; then ends its connections.
    async fn serve(
        self: Arc<Self>,
        opened: OpenedListener,
        tasks: TaskTracker,
        shutdown: Shutdown,
    ) {
        let own = Shutdown {
            drain: shutdown.drain.child_token(),
            abort: shutdown.abort.child_token(),
        };
        let connections = TaskTracker::new();
        let accept = self.accept(&opened.listener, [&tasks, &connections], &own);
        if opened.stop.run_until_cancelled(accept).await.is_none() {
            drop(opened);
            let limit = self.context.settings.load().settings.drain;
            end(limit, &connections, &own).await;
        }
    }

    /// Accepts connections without end; each is counted by both `tasks`.
    async fn accept(&self, listener: &Listener, tasks: [&TaskTracker; 2], shutdown: &Shutdown) {
        loop {
            match listener.accept().await {
                Ok(accepted) => {
                    // While no slot is free, this connection waits here, and the next ones in the kernel's queue. If
                    // the slot were taken first, an idle listener would keep one from the others.
                    let open = self.admit(accepted.address()).await;
                    let (context, place) = (self.context.clone(), open.place.clone());
                    let run = open_and_run(context, accepted, place, shutdown.clone());
                    let run = tasks[1].track_future(run);
                    tasks[0].spawn(async move {
                        run.await;
                        drop(open);
                    });
                }
                Err(error) if is_peer_error(&error) => {
                    tracing::debug!(%error, "connection lost before it was accepted");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    /// Admits a connection of this peer when there is a slot.
    async fn admit(&self, address: Option<IpAddr>) -> OpenConnection {
        let context = &self.context;
        let slot = context.crowding.take(&self.slots).await;
        let trusted = &context.settings.load().settings.trusted_proxies;
        // The connections of a proxy are those of many clients.
        let of_client = |address: &IpAddr| !trusted.iter().any(|proxy| proxy.contains(*address));
        let place = context
            .crowding
            .add(Client::from(address.filter(of_client)));
        OpenConnection::new(context.metrics.clone(), slot, place)
    }

    /// Makes as many slots as the settings say, of so many `before`; returns their number. If too many connections are
    /// open, there is no slot for a new one until enough of them have ended.
    fn resize(&self, before: usize) -> usize {
        let now = slots(&self.context.settings.load());
        if now >= before {
            self.slots.add_permits(now - before);
            return now;
        }
        let fewer = u32::try_from(before - now).unwrap_or(u32::MAX);
        let slots = self.slots.clone();
        tokio::spawn(async move {
            let taken = slots.acquire_many_owned(fewer).await;
            taken.expect("the semaphore is never closed").forget();
        });
        before - fewer as usize
    }
}

/// Returns the number of connections that the settings allow at once.
fn slots(settings: &ActiveSettings) -> usize {
    settings
        .settings
        .connections
        .clamp(1, Semaphore::MAX_PERMITS)
}

/// Has connections finish their answers, within `limit`; then cuts them.
async fn end(limit: Duration, connections: &TaskTracker, shutdown: &Shutdown) {
    shutdown.drain.cancel();
    connections.close();
    let ended = told_of(connections.wait(), || {
        let connections = connections.len();
        tracing::info!(connections, "waiting for answers in flight");
    });
    if timeout(limit, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "drain deadline passed");
        shutdown.abort.cancel();
        connections.wait().await;
    }
}

/// Serves a connection after its handshake, if the listener has TLS. A client that has not finished its handshake when the
/// process ends has sent no request: it is cut.
async fn open_and_run<H: Handler>(
    context: Arc<ConnectionContext<H>>,
    accepted: AcceptedConnection,
    place: Arc<Place>,
    shutdown: Shutdown,
) {
    let limit = context.settings.load().settings.header_timeout;
    let handshake = accepted.open(limit);
    match unless_displaced(handshake, &context.metrics, &place, &shutdown).await {
        Some(Ok((stream, peer))) => {
            connection::run(context, stream, peer, place, shutdown).await;
        }
        // Scanners are many: the metric tells of them.
        Some(Err(error)) => tracing::debug!(%error, "no handshake"),
        None => {}
    }
}

/// Waits for a handshake; `None`: the process ends before, or the connection gives way to a client without a slot.
async fn unless_displaced<T>(
    handshake: impl Future<Output = T>,
    metrics: &Metrics,
    place: &Place,
    shutdown: &Shutdown,
) -> Option<T> {
    tokio::select! {
        biased;
        () = shutdown.drain.cancelled() => None,
        done = handshake => Some(done),
        () = place.called() => {
            metrics.displaced.inc();
            None
        }
    }
}

/// Returns whether an accept failed for one connection only.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, InvalidInput};
    // InvalidInput results from setting an option on a connection that is gone already.
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | InvalidInput
    )
}

/// A connection's slot, its place among the others, and its share of the gauge.
struct OpenConnection {
    metrics: Arc<Metrics>,
    place: Arc<Place>,
    _slot: OwnedSemaphorePermit,
}

impl OpenConnection {
    fn new(metrics: Arc<Metrics>, slot: OwnedSemaphorePermit, place: Arc<Place>) -> Self {
        metrics.accepted.inc();
        metrics.connections.inc();
        Self {
            metrics,
            place,
            _slot: slot,
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

#[cfg(test)]
mod tests;
