//! An origin whose connections stall. This TCP proxy delays answers by 20 ms, holds each connection
//! to 20 MB/s, and pauses one after the other for 50 to 400 ms.
//!
//! Connections pause independently, but never all busy ones at once: a reader with several
//! connections can always go on. A connection does not make up for the bytes that it did not carry
//! while paused.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::random::Random;

const LATENCY: Duration = Duration::from_millis(20);
const BYTES_PER_SECOND: f64 = 20e6;
const PAUSE_MS: (u64, u64) = (50, 400);
/// The time that a busy connection runs between two pauses.
const RUN_MS: (u64, u64) = (500, 1500);
/// A connection that carried something within this time is busy.
const BUSY: Duration = Duration::from_millis(100);
/// Bytes passed on at once: a few milliseconds' worth.
const PIECE: usize = 64 * 1024;

/// A description for reports.
pub const CONFIG: &str = "a TCP proxy: answers delayed by 20 ms and held to 20 MB/s a connection; \
    each connection pauses for 50 to 400 ms after every 500 to 1500 ms that it was busy, \
    independently, but never all at once";

/// A running proxy.
#[derive(Debug)]
pub struct PausingProxy {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

/// The state of all connections, by id.
#[derive(Debug, Default)]
struct ConnectionStates(Mutex<HashMap<u64, State>>);

#[derive(Debug, Clone, Copy)]
struct State {
    carried: Instant,
    paused: bool,
}

impl PausingProxy {
    /// Starts a proxy in front of `upstream`; its pauses follow from `seed`.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start(upstream: SocketAddr, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, upstream, seed));
        Ok(Self { addr, task })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for PausingProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, upstream: SocketAddr, seed: u64) {
    let shared = Arc::new(ConnectionStates::default());
    let mut connections = tokio::task::JoinSet::new();
    let mut seeds = Random::new(seed);
    let mut id = 0;
    while let Ok((client, _)) = listener.accept().await {
        id += 1;
        let (shared, random) = (Arc::clone(&shared), Random::new(seeds.next_u64()));
        connections.spawn(async move {
            // A broken connection is no error: the other side sees it end.
            let _ = carry(client, upstream, id, &shared, random).await;
            shared.lock().remove(&id);
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(
    client: TcpStream,
    upstream: SocketAddr,
    id: u64,
    shared: &ConnectionStates,
    random: Random,
) -> Result<()> {
    let server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let asked = Mutex::new(Instant::now());
    tokio::select! {
        result = questions(from_client, to_server, &asked) => result,
        result = answers(from_server, to_client, &asked, id, shared, random) => result,
    }
}

async fn questions(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    asked: &Mutex<Instant>,
) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        to.write_all(&buffer[..len]).await?;
    }
}

async fn answers(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    asked: &Mutex<Instant>,
    id: u64,
    shared: &ConnectionStates,
    mut random: Random,
) -> Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut due = Instant::now();
    let mut run = between(&mut random, RUN_MS);
    loop {
        let len = from.read(&mut buffer).await?;
        if len == 0 {
            return Ok(());
        }
        let asked = *asked.lock().unwrap_or_else(PoisonError::into_inner);
        // The timer's granularity is a millisecond: make up for at most 2 ms of oversleeping.
        let now = Instant::now();
        due = due.max(now.checked_sub(Duration::from_millis(2)).unwrap_or(now));
        tokio::time::sleep_until(due.max(asked + LATENCY)).await;
        to.write_all(&buffer[..len]).await?;
        let takes = Duration::from_secs_f64(len as f64 / BYTES_PER_SECOND);
        due = due.max(asked + LATENCY) + takes;
        run = run.saturating_sub(takes);
        if shared.carried(id, run.is_zero()) {
            tokio::time::sleep(between(&mut random, PAUSE_MS)).await;
            shared.goes_on(id);
            run = between(&mut random, RUN_MS);
        }
    }
}

impl ConnectionStates {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a connection carried bytes. If `wants_to_pause`, returns whether it may: only
    /// while another connection is busy and not paused.
    fn carried(&self, id: u64, wants_to_pause: bool) -> bool {
        let now = Instant::now();
        let mut all = self.lock();
        let other = |(of, state): (&u64, &State)| {
            *of != id && !state.paused && now.duration_since(state.carried) < BUSY
        };
        let paused = wants_to_pause && all.iter().any(other);
        let carried = now;
        all.insert(id, State { carried, paused });
        paused
    }

    fn goes_on(&self, id: u64) {
        if let Some(state) = self.lock().get_mut(&id) {
            state.paused = false;
        }
    }
}

fn between(random: &mut Random, (from, to): (u64, u64)) -> Duration {
    Duration::from_millis(from + random.below(to - from + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_busy_connection_may_not_pause() {
        let shared = ConnectionStates::default();
        assert!(!shared.carried(1, true));
        assert!(!shared.carried(2, false));
        assert!(shared.carried(1, true));
        assert!(!shared.carried(2, true));
        shared.goes_on(1);
        assert!(shared.carried(2, true));
        shared.goes_on(2);
        tokio::time::advance(BUSY).await;
        assert!(!shared.carried(1, true));
    }
}
