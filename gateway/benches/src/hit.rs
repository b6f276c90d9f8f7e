//! `hit N [WAY]`: answers N requests for an object in memory over one connection, for callgrind to count
//! (`just callgrind`). WAY is the way into the route, one of [`WAYS`]; without it the route is open.
//!
//! It covers all the work of a hit within the process, from hyper's parser to the buffers handed to
//! `writev`. The socket lives in memory: it sends the next request when the last answer is whole,
//! and discards the bytes. Neither a kernel nor a client nor a second thread is counted, so the
//! figure is the same on every run.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tidegate_benches::ways::{HOST, WAYS, Way};
use tidegate_benches::{Hot, SIZE};
use tidegate_socket::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

fn main() -> io::Result<()> {
    let hits = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let way = std::env::args().nth(2);
    let way = Way::of(way.as_deref().unwrap_or("open"));
    let usage = || io::Error::other(format!("usage: hit N [{}]", WAYS.join("|")));
    let (hits, way): (u32, Way) = hits.zip(way).ok_or_else(usage)?;
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        let hot = Hot::start().await;
        let (_, before) = hot.engine.traffic();
        let socket = Socket::new(hits, &way);
        hot.frontend_with(way.settings).serve_stream(socket).await;
        let (_, after) = hot.engine.traffic();
        assert_eq!(after - before, u64::from(hits) * SIZE as u64);
        assert_eq!(hot.origin.gets(), 1, "every one was a hit");
    });
    Ok(())
}

/// A client that sends the same request again and again.
#[derive(Debug)]
struct Socket {
    request: String,
    /// Requests not sent to their end, including the one under way. `asked` counts the bytes sent
    /// of that one: hyper reads the start of a connection in small pieces to detect its protocol.
    left: u32,
    asked: usize,
    answer: Answer,
    reader: Option<Waker>,
}

/// The part of the answer that is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    All,
    Bytes(usize),
}

impl Connection for Socket {}

impl Socket {
    fn new(hits: u32, way: &Way) -> Self {
        let (target, header) = (&way.target, &way.header);
        // The headers of a typical browser.
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {HOST}\r\n{header}\
             User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
             Accept: image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5\r\n\
             Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
             Connection: keep-alive\r\n\r\n"
        );
        Self {
            request,
            left: hits,
            asked: 0,
            answer: Answer::Bytes(0),
            reader: None,
        }
    }

    fn take(&mut self, bufs: &[io::IoSlice<'_>]) -> usize {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        let owed = match self.answer {
            Answer::Bytes(owed) => owed,
            Answer::All => head(&bufs[0]) + SIZE,
        };
        let owed = owed.checked_sub(len).expect("no more than one answer");
        self.answer = Answer::Bytes(owed);
        if owed == 0
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
        len
    }
}

/// Returns the length of the head, which hyper hands over in one piece.
fn head(text: &[u8]) -> usize {
    assert!(text.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert!(text.ends_with(b"\r\n\r\n"));
    text.len()
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.answer != Answer::Bytes(0) {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        // If no requests are left, the stream ends.
        if self.left > 0 {
            let rest = &self.request.as_bytes()[self.asked..];
            let len = rest.len().min(buf.remaining());
            buf.put_slice(&rest[..len]);
            self.asked += len;
        }
        if self.asked == self.request.len() {
            self.asked = 0;
            self.left -= 1;
            self.answer = Answer::All;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.take(bufs)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
