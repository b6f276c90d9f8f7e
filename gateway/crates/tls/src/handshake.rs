//! A handshake within bounds: of time, of bytes that the client may send before it is done, and of bytes that wait for it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::HandshakeKind;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, server};

use crate::challenge::ACME_PROTOCOL;
use crate::{ClientNames, Side, Tls};

/// The most bytes that a client may send before the handshake is done: a hello, and a chain of certificates.
const MAX_HANDSHAKE: usize = 32 << 10;

/// The most bytes of answers that one connection keeps encrypted and unsent.
const MAX_UNSENT: usize = 32 << 10;

/// The first byte of each TLS record of a handshake (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// The time in which a client whose connection ends with the handshake takes its answer.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The answer to a client that speaks plain HTTP.
const PLAIN_ANSWER: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\n\
    content-length: 41\r\nconnection: close\r\n\r\nthis port speaks HTTPS, and no plain HTTP";

/// An encrypted connection.
pub type TlsStream<S> = server::TlsStream<BoundedSocket<S>>;

/// Turns accepted connections into encrypted ones.
#[derive(Debug, Clone)]
pub struct Acceptor {
    tls: Arc<Tls>,
    side: Side,
}

/// The reason why there is no encrypted connection.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The client was slow.
    #[error("the client did not finish the handshake in time")]
    Late,
    /// The client speaks plain HTTP; it was told.
    #[error("the client speaks no TLS")]
    NoTls,
    /// The client is an authority that looked whether a name leads here, and has seen it.
    #[error("an authority has looked for the answer to its challenge")]
    Challenge,
    /// The two did not agree, or the client left.
    #[error("{0}")]
    Failed(io::Error),
}

/// The results of handshakes, as they are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HandshakeResult {
    Full,
    Resumed,
    Failed,
    Late,
    NoTls,
    Challenge,
}

impl HandshakeResult {
    /// All of them, in the order of their declaration.
    pub(crate) const ALL: [Self; 6] = [
        Self::Full,
        Self::Resumed,
        Self::Failed,
        Self::Late,
        Self::NoTls,
        Self::Challenge,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
            Self::Failed => "failed",
            Self::Late => "late",
            Self::NoTls => "no_tls",
            Self::Challenge => "challenge",
        }
    }
}

impl Acceptor {
    pub(crate) fn new(tls: Arc<Tls>, side: Side) -> Self {
        Self { tls, side }
    }

    /// Shakes hands with a client, in at most `limit`; returns the names in its certificate if it has shown one.
    ///
    /// # Errors
    /// If the client is slow, or does not agree; the connection is closed then.
    pub async fn accept<S>(
        &self,
        stream: S,
        limit: Duration,
    ) -> Result<(TlsStream<S>, Option<ClientNames>), HandshakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let acceptor = TlsAcceptor::from(self.tls.present.load().config(self.side));
        let socket = BoundedSocket::new(stream);
        let bound = |connection: &mut rustls::ServerConnection| {
            connection.set_buffer_limit(Some(MAX_UNSENT));
        };
        let handshake = acceptor.accept_with(socket, bound).into_fallible();
        let done = match timeout(limit, handshake).await {
            Ok(Ok(stream)) if is_challenge(&stream) => {
                end_challenge(stream).await;
                Err(HandshakeError::Challenge)
            }
            Ok(Ok(stream)) => Ok(opened(stream)),
            Ok(Err((_, socket))) if !socket.speaks_tls() => {
                socket.answer_plain().await;
                Err(HandshakeError::NoTls)
            }
            Ok(Err((error, _))) => Err(HandshakeError::Failed(error)),
            Err(_) => Err(HandshakeError::Late),
        };
        let result = match &done {
            Ok((stream, _)) => match stream.get_ref().1.handshake_kind() {
                Some(HandshakeKind::Resumed) => HandshakeResult::Resumed,
                _ => HandshakeResult::Full,
            },
            Err(HandshakeError::Late) => HandshakeResult::Late,
            Err(HandshakeError::NoTls) => HandshakeResult::NoTls,
            Err(HandshakeError::Challenge) => HandshakeResult::Challenge,
            Err(HandshakeError::Failed(_)) => HandshakeResult::Failed,
        };
        self.tls.metrics.count_handshake(result);
        done
    }
}

fn is_challenge<S>(stream: &TlsStream<S>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(ACME_PROTOCOL)
}

/// Ends a connection of an authority: it carries no requests (RFC 8737, 3).
async fn end_challenge<S: AsyncRead + AsyncWrite + Unpin>(mut stream: TlsStream<S>) {
    // An authority that does not take the end has left.
    let _ = timeout(LAST_ANSWER_TIMEOUT, stream.shutdown()).await;
}

/// Returns a connection after its handshake, and the names in the client's certificate.
fn opened<S>(mut stream: TlsStream<S>) -> (TlsStream<S>, Option<ClientNames>) {
    let (socket, connection) = stream.get_mut();
    socket.is_open = true;
    let shown = connection.peer_certificates().and_then(<[_]>::first);
    let names = shown.and_then(ClientNames::read);
    (stream, names)
}

/// A socket that bounds the bytes of a handshake. After it, it only passes on.
pub struct BoundedSocket<S> {
    stream: S,
    /// The first byte from the client.
    first: Option<u8>,
    received: usize,
    is_open: bool,
}

impl<S: fmt::Debug> fmt::Debug for BoundedSocket<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

impl<S> BoundedSocket<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            first: None,
            received: 0,
            is_open: false,
        }
    }

    /// Returns the socket.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns whether nothing shows that the client speaks another protocol.
    fn speaks_tls(&self) -> bool {
        self.is_open || self.first.is_none_or(|byte| byte == HANDSHAKE_RECORD)
    }
}

impl<S: AsyncWrite + Unpin> BoundedSocket<S> {
    /// Answers a client that sends what may be plain HTTP; any other is left without an answer.
    async fn answer_plain(mut self) {
        if !self.first.is_some_and(|byte| byte.is_ascii_uppercase()) {
            return;
        }
        let answer = async {
            self.stream.write_all(PLAIN_ANSWER.as_bytes()).await?;
            self.stream.shutdown().await
        };
        // A client that does not take it has left: there is nothing to do for it.
        let _ = timeout(LAST_ANSWER_TIMEOUT, answer).await;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_open {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        if self.received > MAX_HANDSHAKE {
            let error = "the client sends too much before the handshake is done";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        self.received += new.len();
        self.first = self.first.or(new.first().copied());
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        // An alert would stand before the answer to a client that does not know alerts.
        if !self.speaks_tls() {
            return Poll::Ready(Ok(buf.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.speaks_tls() {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
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
