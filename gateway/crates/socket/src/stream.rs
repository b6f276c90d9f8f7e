//! A connection of any kind, whose writes can ask the kernel before it reports room.
//!
//! The kernel reports room only after a third of its buffer is free (`sk_stream_min_wspace` of Linux; three quarters of a
//! Unix socket's). A client that takes its bytes slowly, but steadily, may need minutes for that, and looks meanwhile
//! like one that takes none. [`Connection::retry_write`] tells the two apart.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use tidegate_tls::TlsStream;

/// A connection that carries requests and answers.
pub trait Connection: AsyncRead + AsyncWrite + Unpin {
    /// Lets the next write ask the kernel for room even if the kernel has reported none. A connection that has no kernel
    /// below it need not do anything.
    fn retry_write(&mut self) {}

    /// Returns whether the kernel has taken bytes since the last call that had been written before. Only a connection that
    /// keeps bytes after a write has such.
    fn take_handed_on(&mut self) -> bool {
        false
    }
}

/// A connection that a [`Listener`](crate::Listener) has accepted.
#[derive(Debug)]
pub struct Stream {
    kind: Kind,
    /// Whether a write that would wait asks the kernel once more.
    retries: bool,
    /// Whether the kernel has taken bytes.
    took: bool,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Encrypted, over one of the others.
    Tls(Box<TlsStream<Stream>>),
}

impl From<Kind> for Stream {
    fn from(kind: Kind) -> Self {
        Self {
            kind,
            retries: false,
            took: false,
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Kind::Tcp(stream).into()
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Kind::Unix(stream).into()
    }
}

impl From<TlsStream<Self>> for Stream {
    fn from(stream: TlsStream<Self>) -> Self {
        Kind::Tls(Box::new(stream)).into()
    }
}

impl Connection for Stream {
    fn retry_write(&mut self) {
        match &mut self.kind {
            Kind::Tcp(_) | Kind::Unix(_) => self.retries = true,
            Kind::Tls(stream) => stream.get_mut().0.get_mut().retry_write(),
        }
    }

    fn take_handed_on(&mut self) -> bool {
        match &mut self.kind {
            Kind::Tcp(_) | Kind::Unix(_) => false,
            Kind::Tls(stream) => std::mem::take(&mut stream.get_mut().0.get_mut().took),
        }
    }
}

impl Stream {
    /// Sends past a write that waits, if it is to retry. That write has left its waker, so the caller may wait on.
    fn or_retry(
        &mut self,
        polled: Poll<io::Result<usize>>,
        send: impl FnOnce(SockRef<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        if polled.is_ready() || !std::mem::take(&mut self.retries) {
            self.took |= polled.is_ready();
            return polled;
        }
        let sent = match &self.kind {
            Kind::Tcp(stream) => send(SockRef::from(stream)),
            Kind::Unix(stream) => send(SockRef::from(stream)),
            // The connection below it retries.
            Kind::Tls(_) => return polled,
        };
        match sent {
            Err(error) if is_no_room(&error) => Poll::Pending,
            sent => {
                self.took = true;
                Poll::Ready(sent)
            }
        }
    }
}

fn is_no_room(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Calls the same method on any kind of stream.
macro_rules! on_any {
    ($self:ident, $method:ident ( $($argument:expr),* )) => {
        match &mut $self.kind {
            Kind::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Kind::Unix(stream) => Pin::new(stream).$method($($argument),*),
            Kind::Tls(stream) => Pin::new(&mut **stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_any!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = on_any!(self, poll_write(cx, buf));
        self.or_retry(polled, |socket| socket.send(buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = on_any!(self, poll_write_vectored(cx, bufs));
        self.or_retry(polled, |socket| socket.send_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_any!(self, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_any!(self, poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    /// Writes until the stream would wait; returns the number of bytes that it took.
    async fn fill(stream: &mut (impl AsyncWrite + Unpin)) -> usize {
        let (bytes, mut taken) = (vec![7; 64 << 10], 0);
        while let Some(written) = try_write(stream, &bytes).await {
            taken += written;
        }
        taken
    }

    /// Returns the number of bytes that one write took, or `None` if it waits.
    async fn try_write(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Option<usize> {
        poll_fn(|cx| {
            let slices = [IoSlice::new(bytes)];
            match Pin::new(&mut *stream).poll_write_vectored(cx, &slices) {
                Poll::Ready(written) => Poll::Ready(Some(written.expect("the client is there"))),
                Poll::Pending => Poll::Ready(None),
            }
        })
        .await
    }

    /// Fills `stream`, lets the client take a little, and writes past the kernel's report, until the kernel has the room.
    async fn writes_what_little_was_taken(
        mut stream: Stream,
        mut client: impl AsyncRead + Unpin,
        little: usize,
    ) {
        fill(&mut stream).await;
        stream.retry_write();
        while try_write(&mut stream, &[7; 4096]).await.is_some() {
            stream.retry_write();
        }
        let mut taken = vec![0; little];
        client.read_exact(&mut taken).await.expect("bytes");
        // The kernel moves the bytes in its own time.
        let written = async {
            loop {
                stream.retry_write();
                if let Some(written) = try_write(&mut stream, &[7; 1024]).await {
                    return written;
                }
                tokio::task::yield_now().await;
            }
        };
        let written = timeout(Duration::from_secs(30), written).await;
        assert!(written.expect("room is found") > 0);
    }

    #[tokio::test]
    async fn a_write_finds_the_room_that_the_kernel_does_not_report_yet() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).await.expect("listening");
        let (stream, _) = listener.accept().await.expect("a connection");
        writes_what_little_was_taken(stream.into(), client, 256 << 10).await;

        let (stream, client) = UnixStream::pair().expect("a pair");
        // The kernel frees a whole write at a time.
        writes_what_little_was_taken(stream.into(), client, 64 << 10).await;
    }
}
