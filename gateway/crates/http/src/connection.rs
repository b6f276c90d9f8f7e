//! One connection: hyper over a watched socket, and the watchdog beside it.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::pulse::{Limits, Pulse, Why};
use super::serve::Server;
use super::settings::Settings;
use super::streams::{Outgoing, StreamTasks};

/// The two stages of the process's end: first graceful, then not.
#[derive(Debug, Clone, Default)]
pub(super) struct Ending {
    /// Finish the answers in flight, begin none.
    pub(super) drain: CancellationToken,
    /// Stop.
    pub(super) abort: CancellationToken,
}

/// Returns the protocol's parameters, which all connections share.
pub(super) fn protocol(settings: &Settings) -> Builder<StreamTasks> {
    let mut builder = Builder::new(StreamTasks);
    if !settings.http2 {
        builder = builder.http1_only();
    }
    let most = settings.max_header_bytes.max(MIN_BUFFER);
    builder
        .http1()
        .timer(TokioTimer::new())
        // The watchdog sees slow heads, and costs no timer a request.
        .header_read_timeout(None)
        .max_buf_size(most);
    builder
        .http2()
        .max_header_list_size(u32::try_from(most).unwrap_or(u32::MAX))
        .max_concurrent_streams(128)
        .max_send_buf_size(most);
    builder
}

/// The smallest buffer that hyper takes.
const MIN_BUFFER: usize = 8192;

/// The interface of a server that answers requests, such as the frontend.
pub(super) trait Handler: Send + Sync + 'static {
    /// The body of its answers.
    type Body: HttpBody<Data = Outgoing, Error: std::error::Error + Send + Sync> + Send + 'static;

    /// Answers one request of the connection whose notes `pulse` keeps.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        pulse: Arc<Pulse>,
        peer: Option<IpAddr>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Serves one connection until it ends, a deadline passes, or the process ends.
pub(super) async fn run<H: Handler, S>(
    server: Arc<Server<H>>,
    stream: S,
    peer: Option<IpAddr>,
    ending: Ending,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pulse = Arc::new(Pulse::new());
    let watched = Watched {
        stream,
        pulse: pulse.clone(),
    };
    let service = service_fn(|request| {
        let answer = server.handler.clone().answer(request, pulse.clone(), peer);
        async { Ok::<_, Infallible>(answer.await) }
    });
    let io = TokioIo::new(watched);
    let mut connection = pin!(server.protocol.serve_connection(io, service));
    let limits = Limits::from(&*server.settings);
    let mut look = limits.shortest();
    let mut draining = false;
    loop {
        // One of the two is waited for at a time: each wait costs something whenever the connection
        // wakes.
        let told = if draining {
            &ending.abort
        } else {
            &ending.drain
        };
        tokio::select! {
            biased;
            result = &mut connection => {
                if let Err(error) = result {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            () = told.cancelled() => {
                if draining {
                    return;
                }
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
            () = sleep(look) => {
                let checked = pulse.check(limits);
                server.metrics.streams_reset.inc_by(pulse.take_reset());
                match checked {
                    Ok(again) => look = again,
                    Err(Why::Leaves) => {
                        look = limits.shortest();
                        connection.as_mut().graceful_shutdown();
                    }
                    Err(why) => {
                        server.metrics.expired.inc();
                        tracing::debug!(?why, "connection expired");
                        return;
                    }
                }
            }
        }
    }
}

/// A socket that notes its traffic.
struct Watched<S> {
    stream: S,
    pulse: Arc<Pulse>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.pulse.arrived();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> Watched<S> {
    fn noted(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(polled, Poll::Ready(Ok(written)) if written > 0) {
            self.pulse.wrote();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.noted(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.noted(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
