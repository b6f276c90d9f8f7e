//! The socket of a connection, which records its traffic.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::timeouts::ConnectionActivity;
use tidegate_socket::Connection;

/// A socket that records its traffic.
pub(super) struct WatchedSocket<S> {
    stream: S,
    activity: Arc<ConnectionActivity>,
    /// Bytes that were read from it before, and are read once more.
    before: Bytes,
}

impl<S> WatchedSocket<S> {
    pub(super) fn new(stream: S, activity: Arc<ConnectionActivity>) -> Self {
        let before = Bytes::new();
        Self {
            stream,
            activity,
            before,
        }
    }

    /// Puts bytes that were read from it before all others: a request's head has begun with them.
    pub(super) fn behind(self, read: Bytes) -> Self {
        if !read.is_empty() {
            self.activity.record_read();
        }
        let before = match self.before.is_empty() {
            true => read,
            false => [read, self.before].concat().into(),
        };
        Self { before, ..self }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.before.is_empty() {
            let some = self.before.len().min(buf.remaining());
            buf.put_slice(&self.before.split_to(some));
            return Poll::Ready(Ok(()));
        }
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

    fn record(&mut self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match polled {
            Poll::Ready(Ok(1..)) => self.activity.record_write(),
            Poll::Pending => self.record_wait(),
            Poll::Ready(_) => {}
        }
        polled
    }

    /// Records that a write or a flush waits, though some of the bytes before may have gone to the kernel.
    fn record_wait(&mut self) {
        if self.stream.take_handed_on() {
            self.activity.record_write();
        }
        self.activity.record_full();
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
        let polled = self.writer().poll_flush(cx);
        match polled {
            Poll::Pending => self.record_wait(),
            // The last bytes have gone to the kernel.
            Poll::Ready(Ok(())) if self.activity.write_waits() => self.activity.record_write(),
            Poll::Ready(_) => {}
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
