//! The protocol of a connection: HTTP/1 or HTTP/2, as its first bytes tell, and none while it rests.
//!
//! hyper keeps some 20 KB for each connection: buffers for the heads of requests and answers, and the place of an answer's
//! future. A client that has had its answers may stay for a minute and more. So a connection of HTTP/1 that is idle gives
//! them back, and begins anew with the next bytes. A connection of HTTP/2 keeps them: it has a state of its own.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tidegate_socket::Connection;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::time::Instant;

use super::crowding::MIN_IDLE;
use super::live_settings::ActiveSettings;
use super::streams::{CountedBytes, StreamExecutor};
use super::timeouts::ConnectionActivity;
use super::watched_socket::WatchedSocket;

/// The first bytes of a connection of HTTP/2 (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The most bytes that are read before hyper is there to take them: a usual head at once.
const FIRST_READ: usize = 2048;

/// The time in which an idle client of HTTP/2 answers the PING that tells it of the end. After that it may have left without
/// a word, as a phone does that has lost its network.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

type Io<S> = TokioIo<WatchedSocket<S>>;

/// The parts of a connection that hyper gives back: its socket, and the bytes that were read of the next request.
type ConnectionParts<S, V> = hyper::Result<http1::Parts<Io<S>, V>>;

/// The error that ends a connection.
type Failure = Box<dyn Error + Send + Sync>;

/// The body of an answer.
pub(crate) trait AnswerBody:
    HttpBody<Data = CountedBytes, Error: std::error::Error + Send + Sync> + Send + 'static
{
}

impl<B> AnswerBody for B where
    B: HttpBody<Data = CountedBytes, Error: std::error::Error + Send + Sync> + Send + 'static
{
}

/// A connection that is served in its protocol.
pub(super) struct Protocol<S, V: HttpService<Incoming>, F> {
    state: State<S, V>,
    activity: Arc<ConnectionActivity>,
    in_force: Arc<ActiveSettings>,
    /// Makes the service that answers requests.
    service: F,
    is_http1: bool,
    /// The time when it was told to end as soon as no answer is under way.
    told_at: Option<Instant>,
}

enum State<S, V: HttpService<Incoming>> {
    /// It waits for the first bytes of a request, of which these are there.
    Resting(WatchedSocket<S>, Vec<u8>),
    Http1(Box<http1::Connection<Io<S>, V>>),
    /// hyper gives the socket back.
    Leaving(Pin<Box<dyn Future<Output = ConnectionParts<S, V>> + Send>>),
    Http2(Pin<Box<http2::Connection<Io<S>, V, StreamExecutor>>>),
    Ended,
}

impl<S, V, F, B> Protocol<S, V, F>
where
    S: Connection + Send + 'static,
    V: HttpService<Incoming, ResBody = B, Future: Send + 'static> + Unpin + Send + 'static,
    V::Error: Into<Failure>,
    B: AnswerBody,
    F: Fn() -> V,
{
    /// Takes a connection that has brought nothing yet.
    pub(super) fn new(
        stream: S,
        activity: Arc<ConnectionActivity>,
        in_force: Arc<ActiveSettings>,
        service: F,
    ) -> Self {
        let socket = WatchedSocket::new(stream, activity.clone());
        Self {
            state: State::Resting(socket, Vec::new()),
            activity,
            in_force,
            service,
            is_http1: false,
            told_at: None,
        }
    }

    /// Serves as far as it can without waiting; ready when the connection has ended.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let polled = self.poll_state(cx);
        self.activity.settle();
        polled
    }

    /// Does the same at once, and a write that waits asks the kernel for room: the client may have taken bytes, and too few
    /// for the kernel to report room by itself.
    pub(super) async fn retry_write(&mut self) -> Poll<Result<(), Failure>> {
        poll_fn(|cx| {
            self.activity.set_retries(true);
            let polled = self.poll(cx);
            self.activity.set_retries(false);
            Poll::Ready(polled)
        })
        .await
    }

    fn poll_state(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        loop {
            match &mut self.state {
                State::Resting(socket, _) if self.told_at.is_some() => {
                    ready!(Pin::new(socket).poll_shutdown(cx))?;
                    self.state = State::Ended;
                }
                State::Resting(socket, first) => {
                    let may_be_http2 = !self.is_http1;
                    let kind = ready!(poll_first_bytes(socket, first, may_be_http2, cx))?;
                    self.begin(kind);
                }
                State::Http1(connection) => {
                    return Pin::new(connection).poll(cx).map_err(Into::into);
                }
                State::Http2(connection) => {
                    return connection.as_mut().poll(cx).map_err(Into::into);
                }
                State::Leaving(leaving) => {
                    let parts = ready!(leaving.as_mut().poll(cx))?;
                    let socket = parts.io.into_inner().behind(parts.read_buf);
                    self.state = State::Resting(socket, Vec::new());
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Has the connection end as soon as no answer is under way.
    pub(super) fn end(&mut self) {
        self.told_at.get_or_insert_with(Instant::now);
        match &mut self.state {
            State::Http1(connection) => Pin::new(&mut **connection).graceful_shutdown(),
            State::Http2(connection) => connection.as_mut().graceful_shutdown(),
            State::Resting(..) | State::Leaving(_) | State::Ended => {}
        }
    }

    /// Returns whether it was told to end.
    pub(super) fn is_told(&self) -> bool {
        self.told_at.is_some()
    }

    /// Returns the time of its next check: this one, or an earlier one, if it was told to end.
    pub(super) fn next_check(&self, planned: Instant) -> Instant {
        match self.told_at {
            Some(_) => planned.min(Instant::now() + PING_TIMEOUT),
            None => planned,
        }
    }

    /// Returns whether its client of HTTP/2 was told of the end, has not answered, and has no stream. hyper would wait for
    /// the answer without a limit. While the last bytes of answers may be on their way, the client reads these first: it
    /// has the time of a stalled one since the last stream ended, or the kernel last had room.
    pub(super) fn has_gone(&self) -> bool {
        let is_late = self
            .told_at
            .is_some_and(|told_at| told_at.elapsed() >= PING_TIMEOUT);
        let stall = self.in_force.settings.stall_timeout.max(MIN_IDLE);
        is_late && matches!(self.state, State::Http2(_)) && self.activity.is_quiet_for(stall)
    }

    /// Gives back the memory that a connection does not need while it is idle. One that must close keeps its protocol, which
    /// closes it: the rest of a body that hyper has given up would be taken for the next request.
    pub(super) fn rest(&mut self) {
        let rests = self.told_at.is_none() && self.activity.goes_on();
        self.state = match mem::replace(&mut self.state, State::Ended) {
            State::Http1(mut connection) if rests => {
                Pin::new(&mut *connection).graceful_shutdown();
                State::Leaving(Box::pin(connection.without_shutdown()))
            }
            other => other,
        };
    }

    /// Returns whether it waits for a request, without a protocol.
    #[cfg(test)]
    pub(super) fn is_resting(&self) -> bool {
        matches!(self.state, State::Resting(..))
    }

    /// Begins the protocol that the first bytes have told; ends if there are none.
    fn begin(&mut self, kind: Option<Kind>) {
        let before = mem::replace(&mut self.state, State::Ended);
        let (State::Resting(socket, first), Some(kind)) = (before, kind) else {
            return;
        };
        let io = TokioIo::new(socket.behind(first.into()));
        let (service, protocols) = ((self.service)(), &self.in_force.protocols);
        self.is_http1 = kind == Kind::Http1;
        self.state = match kind {
            Kind::Http1 => State::Http1(Box::new(protocols.http1.serve_connection(io, service))),
            Kind::Http2 => State::Http2(Box::pin(protocols.http2.serve_connection(io, service))),
        };
    }
}

/// The protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Http1,
    Http2,
}

/// Reads until the first bytes tell the protocol; `None`: the client has left without any.
fn poll_first_bytes<S: Connection>(
    socket: &mut WatchedSocket<S>,
    first: &mut Vec<u8>,
    may_be_http2: bool,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Option<Kind>>> {
    let mut buffer = [0; FIRST_READ];
    loop {
        let mut read = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut *socket).poll_read(cx, &mut read))?;
        first.extend_from_slice(read.filled());
        if may_be_http2 && first.starts_with(PREFACE) {
            return Poll::Ready(Ok(Some(Kind::Http2)));
        }
        let has_ended = read.filled().is_empty();
        if has_ended && first.is_empty() {
            return Poll::Ready(Ok(None));
        }
        if has_ended || !may_be_http2 || !PREFACE.starts_with(first) {
            return Poll::Ready(Ok(Some(Kind::Http1)));
        }
    }
}
