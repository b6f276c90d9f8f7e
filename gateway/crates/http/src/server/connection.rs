//! One connection: hyper over a watched socket, and the watchdog beside it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::crowding::{Crowding, MIN_IDLE};
use super::dormant::Dormant;
use super::live_settings::LiveSettings;
use super::streams::CountedBytes;
use super::timeouts::{ConnectionActivity, Expiry, Timeouts};
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
    type Body: HttpBody<Data = CountedBytes, Error: std::error::Error + Send + Sync>
        + Send
        + 'static;

    /// Answers one request of the connection that `activity` records.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        activity: Arc<ConnectionActivity>,
        peer: Peer,
    ) -> impl Future<Output = Result<Response<Self::Body>, Infallible>> + Send;
}

/// Serves one connection until it ends, a deadline passes, or the process ends.
pub(crate) async fn run<H: Handler, S>(
    context: Arc<ConnectionContext<H>>,
    stream: S,
    peer: Peer,
    shutdown: Shutdown,
) where
    S: Connection + Send + 'static,
{
    let activity = Arc::new(ConnectionActivity::new(context.metrics.clone()));
    let watched = WatchedSocket {
        stream,
        activity: activity.clone(),
    };
    let service = service_fn(|request| {
        let handler = context.handler.clone();
        handler.answer(request, activity.clone(), peer.clone())
    });
    let io = TokioIo::new(watched);
    let in_force = context.settings.load_full();
    let mut connection = pin!(in_force.protocol.serve_connection(io, service));
    let timeouts = Timeouts::from(&in_force.settings);
    let mut next_check = Instant::now() + timeouts.shortest();
    let mut draining = false;
    loop {
        let signal = match draining {
            true => &shutdown.abort,
            false => &shutdown.drain,
        };
        let event = pin!(next_event(signal, &context.crowding, next_check));
        let served = poll_fn(|cx| poll_once(connection.as_mut(), &activity, cx));
        let event = tokio::select! {
            biased;
            result = served => return log_end(result),
            event = Dormant::new(event) => event,
        };
        if matches!(event, Event::Check)
            && let Poll::Ready(result) = retry_write(connection.as_mut(), &activity).await
        {
            return log_end(result);
        }
        match event {
            Event::Shutdown if draining => return activity.cut_off(),
            Event::Shutdown => {
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
            Event::Crowded if gives_way(&context, &activity) => {
                connection.as_mut().graceful_shutdown();
            }
            Event::Crowded => {}
            Event::Check => match check(&context.metrics, &activity, timeouts) {
                Ok(time) => next_check = Instant::now() + time,
                Err(Expiry::StreamStalled) => {
                    next_check = Instant::now() + timeouts.shortest();
                    connection.as_mut().graceful_shutdown();
                }
                Err(why) => {
                    context.metrics.expired.inc();
                    tracing::debug!(?why, "connection expired");
                    return;
                }
            },
        }
    }
}

/// Lets a connection go on as far as it can without waiting.
fn poll_once<C: Future>(
    connection: Pin<&mut C>,
    activity: &ConnectionActivity,
    cx: &mut Context<'_>,
) -> Poll<C::Output> {
    let polled = connection.poll(cx);
    activity.settle();
    polled
}

/// Does the same, and a write that waits asks the kernel for room: the client may have taken bytes, and too few for the
/// kernel to report room by itself.
async fn retry_write<C: Future>(
    mut connection: Pin<&mut C>,
    activity: &ConnectionActivity,
) -> Poll<C::Output> {
    poll_fn(|cx| {
        activity.set_retries(true);
        let polled = poll_once(connection.as_mut(), activity, cx);
        activity.set_retries(false);
        Poll::Ready(polled)
    })
    .await
}

/// Returns whether a connection ends for a client that waits for its slot.
fn gives_way<H>(context: &ConnectionContext<H>, activity: &ConnectionActivity) -> bool {
    let gives_way = activity.is_idle_for(MIN_IDLE) && context.crowding.is_wanted();
    if gives_way {
        context.metrics.displaced.inc();
    }
    gives_way
}

fn log_end<E: std::fmt::Display>(result: Result<(), E>) {
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

/// Waits for the end of the process, for a client without a slot, or for the time of the next check.
async fn next_event(end: &CancellationToken, crowding: &Crowding, next_check: Instant) -> Event {
    tokio::select! {
        () = end.cancelled() => Event::Shutdown,
        () = crowding.called() => Event::Crowded,
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
    Crowded,
    Check,
}

/// A socket that records its traffic.
struct WatchedSocket<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.record_read();
        }
        polled
    }
}

impl<S: Connection> WatchedSocket<S> {
    /// Returns the socket for a write.
    fn writer(&mut self) -> Pin<&mut S> {
        if self.activity.retries() {
            self.stream.retry_write();
        }
        Pin::new(&mut self.stream)
    }

    fn record(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match polled {
            Poll::Ready(Ok(1..)) => self.activity.record_write(),
            Poll::Pending => self.activity.record_full(),
            Poll::Ready(_) => {}
        }
        polled
    }
}

impl<S: Connection> AsyncWrite for WatchedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = self.writer().poll_write(cx, buf);
        self.record(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = self.writer().poll_write_vectored(cx, bufs);
        self.record(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.writer().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
