//! The line to the origin: a TCP proxy that can limit the total rate of all answers, and that can
//! be cut.
//!
//! The simulated cloud limits each connection by itself. Here the limit is on the sum, as with a
//! network line or a disk behind the bucket. A cut breaks open connections and ends new ones at
//! once.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Bytes passed on at once: about a millisecond's worth.
const PIECE: usize = 64 * 1024;
/// The timer's granularity: the proxy makes up for at most this much oversleeping.
const SLACK: Duration = Duration::from_millis(3);

/// A running proxy.
#[derive(Debug)]
pub struct Line {
    addr: SocketAddr,
    bucket: Option<Arc<Bucket>>,
    cut: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The time from which the next piece may go, on any connection.
#[derive(Debug)]
struct Bucket(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Bytes per second.
    rate: f64,
    due: Instant,
}

impl Line {
    /// Starts a proxy in front of `upstream`; `rate` limits the total, in MB/s.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(upstream: SocketAddr, rate: Option<f64>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let (cut, state) = watch::channel(false);
        let bucket = rate.map(|rate| Arc::new(Bucket::new(rate * 1e6)));
        let task = tokio::spawn(accept(listener, upstream, bucket.clone(), state));
        Ok(Self {
            addr,
            bucket,
            cut,
            task,
        })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes the limit of a line that was started with one, to `rate` MB/s.
    pub fn limit(&self, rate: f64) {
        if let Some(bucket) = &self.bucket {
            bucket.state().rate = rate * 1e6;
        }
    }

    /// Cuts the line: no bytes pass from now on.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Mends the line: all bytes pass again.
    pub fn mend(&self) {
        self.cut.send_replace(false);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Bucket {
    fn new(rate: f64) -> Self {
        Self(Mutex::new(State {
            rate,
            due: Instant::now(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves `len` bytes and returns the time from which they may go.
    fn take(&self, len: usize) -> Instant {
        let now = Instant::now();
        let mut state = self.state();
        let goes = state.due.max(now.checked_sub(SLACK).unwrap_or(now));
        state.due = goes + Duration::from_secs_f64(len as f64 / state.rate);
        goes
    }
}

async fn accept(
    listener: TcpListener,
    upstream: SocketAddr,
    bucket: Option<Arc<Bucket>>,
    cut: watch::Receiver<bool>,
) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (bucket, mut cut) = (bucket.clone(), cut.clone());
        connections.spawn(async move {
            // A broken connection is no error: the other side sees it end.
            tokio::select! {
                // First, so that upstream does not see a connection that arrives while the line is
                // cut.
                biased;
                _ = cut.wait_for(|cut| *cut) => {}
                _ = carry(client, upstream, bucket) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(client: TcpStream, upstream: SocketAddr, bucket: Option<Arc<Bucket>>) -> Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        result = pass_on(from_client, to_server, None) => result,
        result = pass_on(from_server, to_client, bucket.as_deref()) => result,
    }
}

async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    bucket: Option<&Bucket>,
) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        if let Some(bucket) = bucket {
            tokio::time::sleep_until(bucket.take(len)).await;
        }
        to.write_all(&buffer[..len]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pieces_of_all_connections_go_one_after_the_other() {
        let bucket = Bucket::new(1e6);
        let start = Instant::now();
        let second = Duration::from_secs(1);
        assert_eq!(bucket.take(1_000_000), start);
        assert_eq!(bucket.take(2_000_000), start + second);
        assert_eq!(bucket.take(1), start + 3 * second);
        // Unused rate is not saved up, except for the timer's granularity.
        tokio::time::advance(10 * second).await;
        assert_eq!(bucket.take(1), Instant::now() - SLACK);
    }

    #[tokio::test]
    async fn what_is_cut_ends_and_what_is_mended_passes() {
        let upstream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let line = Line::start(upstream.local_addr().unwrap(), None)
            .await
            .unwrap();
        let mut client = TcpStream::connect(line.addr()).await.unwrap();
        client.write_all(b"x").await.unwrap();
        let (mut server, _) = upstream.accept().await.unwrap();
        server.write_all(b"y").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'y');
        line.cut();
        assert!(client.read_u8().await.is_err());
        let mut client = TcpStream::connect(line.addr()).await.unwrap();
        assert!(client.read_u8().await.is_err());
        line.mend();
        let mut client = TcpStream::connect(line.addr()).await.unwrap();
        client.write_all(b"x").await.unwrap();
        let (mut server, _) = upstream.accept().await.unwrap();
        server.write_all(b"y").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'y');
    }
}
