//! Readers that go on while a fault happens: every byte is checked, and failures are counted apart
//! from wrong bytes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use http::StatusCode;
use tokio::task::JoinSet;

use super::Object;
use crate::client::{Connection, next_piece};
use crate::context::progress;
use crate::measure::Latency;
use crate::peers::Peer;
use crate::random::Random;

/// The number of failures of a kind that are printed.
const TOLD: usize = 5;

/// The results of readers.
#[derive(Debug, Clone, Default)]
pub struct ReadResults {
    /// Answers that were right from the first byte to the last.
    pub right: u64,
    /// Requests without an answer, with an unexpected status, or with a body that broke off.
    pub failed: u64,
    /// Answers with a wrong byte.
    pub wrong: u64,
    /// Durations of right answers, to the last byte.
    pub took: Latency,
}

/// The behaviour of readers.
#[derive(Debug, Clone, Copy)]
pub struct Habit {
    /// The number of readers.
    pub readers: u64,
    /// Whether they also request random ranges.
    pub ranges: bool,
    /// The pause of each reader after an answer.
    pub rest: Duration,
}

/// Readers at work.
#[derive(Debug)]
pub struct Load {
    shared: Arc<LoadContext>,
    tasks: JoinSet<()>,
}

#[derive(Debug)]
struct LoadContext {
    objects: Arc<Vec<Object>>,
    addr: SocketAddr,
    prefix: String,
    habit: Habit,
    ends: AtomicBool,
    found: Mutex<ReadResults>,
}

enum Fault {
    Wrong(String),
    Failed(String),
}

impl Load {
    /// Starts to read `objects` from `peer`; random choices follow from `seed`.
    #[must_use]
    pub fn start(peer: &Peer, objects: &Arc<Vec<Object>>, habit: Habit, seed: u64) -> Self {
        let shared = Arc::new(LoadContext {
            objects: Arc::clone(objects),
            addr: peer.addr(),
            prefix: peer.path(""),
            habit,
            ends: AtomicBool::new(false),
            found: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let mut seeds = Random::new(seed);
        for _ in 0..habit.readers {
            let random = Random::new(seeds.next_u64());
            tasks.spawn(Arc::clone(&shared).go_on(random));
        }
        Self { shared, tasks }
    }

    /// Ignores failures from now on, because the scenario causes them; wrong bytes still count.
    pub fn forgive(&self) {
        self.shared.ends.store(true, Ordering::SeqCst);
    }

    /// Returns the number of right answers so far.
    #[must_use]
    pub fn right(&self) -> u64 {
        self.shared.found().right
    }

    /// Lets each reader end after its current answer, and returns the results.
    pub async fn end(mut self) -> ReadResults {
        self.forgive();
        while self.tasks.join_next().await.is_some() {}
        self.shared.found().clone()
    }
}

impl LoadContext {
    fn found(&self) -> MutexGuard<'_, ReadResults> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn go_on(self: Arc<Self>, mut random: Random) {
        let mut connection = None;
        while !self.ends.load(Ordering::SeqCst) {
            let since = Instant::now();
            let result = self.one(&mut connection, &mut random).await;
            let ends = self.ends.load(Ordering::SeqCst);
            if matches!(result, Err(Fault::Failed(_))) {
                connection = None;
            }
            self.count(result, since.elapsed(), ends);
            tokio::time::sleep(self.habit.rest).await;
        }
    }

    fn count(&self, result: Result<(), Fault>, took: Duration, ends: bool) {
        let mut found = self.found();
        match result {
            Ok(()) => {
                found.right += 1;
                found.took.record(took);
            }
            Err(Fault::Wrong(text)) => {
                found.wrong += 1;
                tell(found.wrong, &text);
            }
            Err(Fault::Failed(text)) if !ends => {
                found.failed += 1;
                tell(found.failed, &text);
            }
            Err(Fault::Failed(_)) => {}
        }
    }

    async fn one(
        &self,
        connection: &mut Option<Connection>,
        random: &mut Random,
    ) -> Result<(), Fault> {
        let failed = |error: anyhow::Error| Fault::Failed(format!("{error:#}"));
        let (key, pattern) = random.pick(&self.objects);
        let path = format!("{}{key}", self.prefix);
        let range = if self.habit.ranges && random.below(2) == 0 {
            let start = random.below(pattern.len);
            start..start + 1 + random.below(pattern.len - start)
        } else {
            0..pattern.len
        };
        let whole = range == (0..pattern.len);
        if connection.is_none() {
            *connection = Some(Connection::open(self.addr).await.map_err(failed)?);
        }
        let Some(open) = connection else {
            return Ok(());
        };
        open.revive().await.map_err(failed)?;
        let header = format!("bytes={}-{}", range.start, range.end - 1);
        let headers = [("range", header.as_str())];
        let asked = open.ask(&path, if whole { &[] } else { &headers }).await;
        let (head, mut body) = asked.map_err(failed)?;
        let wanted = if whole {
            StatusCode::OK
        } else {
            StatusCode::PARTIAL_CONTENT
        };
        if head.status != wanted {
            // The body is not read, so the connection cannot be used again.
            *connection = None;
            return Err(Fault::Failed(format!("{path}: status {}", head.status)));
        }
        let mut at = range.start;
        while let Some(piece) = next_piece(&mut body).await.map_err(failed)? {
            if !pattern.matches(at, &piece) {
                *connection = None;
                return Err(Fault::Wrong(format!("{path}: wrong bytes from {at} on")));
            }
            at += piece.len() as u64;
        }
        if at == range.end {
            return Ok(());
        }
        *connection = None;
        Err(Fault::Failed(format!(
            "{path}: ends at {at} of {}",
            range.end
        )))
    }
}

fn tell(count: u64, text: &str) {
    if count <= TOLD as u64 {
        progress(format!("   {text}"));
    }
}

impl ReadResults {
    /// Adds the results of other readers.
    pub fn merge(&mut self, other: &Self) {
        self.right += other.right;
        self.failed += other.failed;
        self.wrong += other.wrong;
        self.took.merge(&other.took);
    }
}
