//! One connection: hyper over a watched socket, and the watchdog beside it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::{HttpService, service_fn};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::crowding::{Crowding, MIN_IDLE, Place};
use super::live_settings::LiveSettings;
use super::protocol::{AnswerBody, Protocol};
use super::timeouts::{ConnectionActivity, Expiry, HeadWait, Timeouts, Turn};
use super::woken_future::WokenFuture;
use crate::metrics::Metrics;
use tidegate_socket::{Connection, Peer};

/// The two stages of the process's end: first graceful, then not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shutdown {
    /// Finish the answers in flight, begin none.
    pub(crate) drain: CancellationToken,
    /// Stop.
    pub(crate) abort: CancellationToken,
}

/// The state that all connections share.
pub(crate) struct ConnectionContext<H> {
    pub(super) handler: Arc<H>,
    pub(super) settings: LiveSettings,
    pub(super) metrics: Arc<Metrics>,
    pub(super) crowding: Crowding,
}

impl<H> ConnectionContext<H> {
    pub(crate) fn new(handler: Arc<H>, settings: LiveSettings, metrics: Arc<Metrics>) -> Self {
        Self {
            handler,
            settings,
            metrics,
            crowding: Crowding::default(),
        }
    }
}

/// The interface of a server that answers requests, such as the frontend.
pub(crate) trait Handler: Send + Sync + 'static {
    /// The body of its answers.
    type Body: AnswerBody;

    /// Answers one request of a connection, with this head and body, when its turn has come.
    fn answer(
        &self,
        request: (&Parts, Incoming),
        turn: Turn,
        peer: &Peer,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>> + Send;
}

/// The parts of a connection that its requests share. A request counts references to this only: the reference to the
/// handler is counted by all connections, and processors would meet at it.
pub(super) struct SharedConnection<H> {
    pub(super) handler: Arc<H>,
    pub(super) activity: Arc<ConnectionActivity>,
    pub(super) peer: Peer,
}

impl<H: Handler> SharedConnection<H> {
    fn new(context: &ConnectionContext<H>, peer: Peer) -> Self {
        Self {
            handler: context.handler.clone(),
            activity: Arc::new(ConnectionActivity::new(context.metrics.clone())),
            peer,
        }
    }

    /// Returns the service that answers the connection's requests.
    pub(super) fn service(
        self: &Arc<Self>,
    ) -> impl HttpService<Incoming, ResBody = H::Body, Error = Infallible, Future: Send>
    + Unpin
    + Send
    + use<H> {
        let served = self.clone();
        service_fn(move |request: Request<Incoming>| {
            let served = served.clone();
            let (parts, sent) = request.into_parts();
            // Boxed: hyper has a place for the answer's future in each connection, and would move it there. Memory that the
            // last request of this thread has just given back is in the processor's cache, that place is not.
            Box::pin(async move {
                let turn = Turn(served.activity.clone());
                let request = (&parts, sent);
                served.handler.answer(request, turn, &served.peer).await
            })
        })
    }
}

/// Serves one connection until it ends, a deadline passes, or the process ends.
pub(super) async fn run<H: Handler, S>(
    context: Arc<ConnectionContext<H>>,
    stream: S,
    peer: Peer,
    place: Arc<Place>,
    shutdown: Shutdown,
) where
    S: Connection + Send + 'static,
{
    let served = Arc::new(SharedConnection::new(&context, peer));
    let activity = served.activity.clone();
    place.set_activity(activity.clone());
    let service = || served.service();
    let in_force = context.settings.load_full();
    let mut connection = Protocol::new(stream, activity.clone(), in_force.clone(), service);
    let timeouts = Timeouts::from(&in_force.settings);
    let (mut next_check, mut draining) = (Instant::now() + timeouts.shortest(), false);
    loop {
        let signal = match draining {
            true => &shutdown.abort,
            false => &shutdown.drain,
        };
        let event = pin!(next_event(signal, &place, next_check));
        let served = poll_fn(|cx| connection.poll(cx));
        let event = tokio::select! {
            biased;
            result = served => return log_end(result),
            event = WokenFuture::new(event) => event,
        };
        if matches!(event, Event::Check)
            && let Poll::Ready(result) = connection.retry_write().await
        {
            return log_end(result);
        }
        match event {
            Event::Shutdown if draining => return activity.cut_off(),
            Event::Shutdown => {
                draining = true;
                connection.end();
            }
            Event::Called if connection.is_told() => {}
            Event::Called => match gives_way(&context.metrics, &activity) {
                Some(wait) if wait.is_idle => connection.end(),
                // hyper would wait for the rest of the head.
                Some(_) => return,
                None => place.stay(),
            },
            Event::Check if connection.has_gone() => return,
            Event::Check => match check(&context.metrics, &activity, timeouts) {
                Ok(time) => {
                    next_check = Instant::now() + time;
                    if activity.is_idle_for(MIN_IDLE) {
                        connection.rest();
                    }
                }
                Err(Expiry::StreamStalled) => {
                    next_check = Instant::now() + timeouts.shortest();
                    connection.end();
                }
                Err(why) => {
                    context.metrics.expired.inc();
                    tracing::debug!(?why, "connection expired");
                    return;
                }
            },
        }
        next_check = connection.next_check(next_check);
    }
}

/// Returns the wait of a connection that ends for a client without a slot; `None`: a request came in the meantime.
fn gives_way(metrics: &Metrics, activity: &ConnectionActivity) -> Option<HeadWait> {
    let wait = activity.head_wait().filter(|wait| wait.time >= MIN_IDLE)?;
    metrics.displaced.inc();
    Some(wait)
}

fn log_end<E: std::fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

/// Waits for the end of the process, for a call to give way, or for the time of the next check.
async fn next_event(end: &CancellationToken, place: &Place, next_check: Instant) -> Event {
    tokio::select! {
        () = end.cancelled() => Event::Shutdown,
        () = place.called() => Event::Called,
        () = sleep_until(next_check) => Event::Check,
    }
}

/// Checks the deadlines of a connection; returns the time until the next check.
fn check(
    metrics: &Metrics,
    activity: &ConnectionActivity,
    timeouts: Timeouts,
) -> Result<Duration, Expiry> {
    let checked = activity.check(timeouts);
    metrics.streams_reset.inc_by(activity.take_streams_reset());
    checked
}

/// The causes to look at a connection that its client did not wake.
enum Event {
    Shutdown,
    /// A client waits for a slot.
    Called,
    Check,
}
