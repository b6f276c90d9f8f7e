//! Clients that take their bytes slowly: whether they are seen to take any.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::*;
use crate::server::connection;
use tidegate_socket::Connection;

/// A socket whose kernel takes the first bytes, and then never reports room. It has room for what the client takes.
struct SlowSocket {
    request: &'static [u8],
    /// The bytes that the kernel has room for.
    room: Arc<AtomicUsize>,
    reports_room: bool,
    retries: bool,
}

impl Connection for SlowSocket {
    fn retry_write(&mut self) {
        self.retries = true;
    }
}

impl AsyncRead for SlowSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.request.is_empty() {
            return Poll::Pending;
        }
        let count = self.request.len().min(buf.remaining());
        let (now, later) = self.request.split_at(count);
        buf.put_slice(now);
        self.request = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SlowSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.reports_room && !std::mem::take(&mut self.retries) {
            return Poll::Pending;
        }
        let room = self.room.load(Relaxed);
        let taken = room.min(buf.len());
        self.room.store(room - taken, Relaxed);
        self.reports_room = self.reports_room && taken == buf.len();
        match taken {
            0 => Poll::Pending,
            taken => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The settings of these tests.
fn settings() -> Settings {
    Settings {
        header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(60),
        stall_timeout: Duration::from_secs(30),
        ..Settings::default()
    }
}

/// Serves a client that takes `bytes` each second for `secs` seconds, and then none; returns when its connection ended,
/// after at most an hour.
async fn served_for(request: &'static [u8], bytes: usize, secs: u64) -> Option<Duration> {
    let room = Arc::new(AtomicUsize::new(100_000));
    let socket = SlowSocket {
        request,
        room: room.clone(),
        reports_room: true,
        retries: false,
    };
    let metrics = Arc::new(Metrics::default());
    let handler = Arc::new(FakeHandler::new(1 << 20, metrics.clone()));
    let context = Arc::new(ConnectionContext::new(handler, settings().into(), metrics));
    let began = Instant::now();
    let client = async {
        for _ in 0..secs {
            sleep(Duration::from_secs(1)).await;
            room.fetch_add(bytes, Relaxed);
        }
        sleep(Duration::from_secs(3600)).await;
    };
    let place = context.crowding.add(Client::Local);
    let run = connection::run(context, socket, Peer::default(), place, Shutdown::default());
    tokio::select! {
        () = run => Some(began.elapsed()),
        () = client => None,
    }
}

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_a_few_bytes_is_not_stalled() {
    let ended = served_for(REQUEST, 100, 600)
        .await
        .expect("it takes no more");
    let last = ended - Duration::from_secs(600);
    assert!(last <= Duration::from_secs(40), "{ended:?}");
    assert!(last >= Duration::from_secs(20), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_none_is_stalled() {
    let ended = served_for(REQUEST, 0, 0).await.expect("stalled");
    assert!(ended <= Duration::from_secs(40), "{ended:?}");
    assert!(ended >= Duration::from_secs(30), "{ended:?}");
}
