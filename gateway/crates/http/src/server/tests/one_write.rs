//! An answer of up to 1 MiB whose bytes are at hand leaves in one system call, head and all.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

use super::*;
use crate::server::connection::SharedConnection;
use crate::server::protocol::Protocol;
use tidegate_socket::Connection;

/// The server's end of a connection in memory, which counts the bytes of each call that would be a `write` or `writev`.
pub(super) struct Counted(DuplexStream, Arc<Mutex<Vec<usize>>>);

impl Counted {
    pub(super) fn new(stream: DuplexStream) -> Self {
        Self(stream, Arc::default())
    }

    fn count(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = &polled {
            self.1.lock().expect("whole").push(*bytes);
        }
        polled
    }
}

impl Connection for Counted {}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.0).poll_write(cx, buf);
        self.count(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.0).poll_write_vectored(cx, bufs);
        self.count(polled)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Returns the bytes of each call that sent an answer of this size.
async fn calls(size: usize) -> Vec<usize> {
    let metrics = Arc::new(Metrics::default());
    let activity = Arc::new(ConnectionActivity::new(metrics.clone()));
    let served = Arc::new(SharedConnection {
        handler: Arc::new(FakeHandler::new(size, metrics)),
        activity: activity.clone(),
        peer: Peer::default(),
    });
    let service = || served.service();
    let (mut client, server) = duplex(8 << 20);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let socket = Counted(server, calls.clone());
    let in_force = LiveSettings::from(patient()).load_full();
    let mut served = Protocol::new(socket, activity.clone(), in_force, service);
    let answered = pin!(async {
        let request = b"GET /at-hand HTTP/1.1\r\nHost: h\r\n\r\n";
        client.write_all(request).await.expect("written");
        head(&mut client).await;
        body(&mut client, size).await;
    });
    tokio::select! {
        () = answered => {}
        ended = poll_fn(|cx| served.poll(cx)) => panic!("it has ended: {ended:?}"),
    }
    let calls = calls.lock().expect("whole");
    calls.clone()
}

#[tokio::test]
async fn an_answer_of_up_to_1_mib_leaves_in_one_call() {
    // The frames of the object have 256 KiB.
    for size in [1, 35_000, 468_000, 1 << 20] {
        let calls = calls(size).await;
        assert!(
            matches!(calls[..], [bytes] if bytes > size),
            "{size}: {calls:?}"
        );
    }
    // A longer one is not held back until all of it is read.
    let calls = calls((1 << 20) + 1).await;
    assert!(calls.len() > 1, "{calls:?}");
}
