//! A reader of one body, at full speed or paced, to the end or not, with every byte checked.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use http::StatusCode;

use crate::client::{Connection, next_piece};
use crate::measure::Flow;
use crate::pattern::Pattern;

/// The longest delay that a paced reader may still catch up.
const SLACK: Duration = Duration::from_millis(100);

/// The object, range and pace of a read.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    /// The path at the peer.
    pub path: &'a str,
    /// The expected bytes.
    pub pattern: Pattern,
    /// The requested range; if `None`, the whole object, without a `Range` header.
    pub range: Option<Range<u64>>,
    /// Bytes per second; if `None`, as fast as possible.
    pub pace: Option<f64>,
    /// The number of bytes after which the reader leaves and breaks the connection.
    pub leave_after: Option<u64>,
}

impl<'a> Reading<'a> {
    /// Reads all of the object, as fast as possible.
    #[must_use]
    pub const fn whole(path: &'a str, pattern: Pattern) -> Self {
        Self {
            path,
            pattern,
            range: None,
            pace: None,
            leave_after: None,
        }
    }

    /// Reads a part of the object, as fast as possible.
    #[must_use]
    pub const fn part(path: &'a str, pattern: Pattern, range: Range<u64>) -> Self {
        let mut reading = Self::whole(path, pattern);
        reading.range = Some(range);
        reading
    }

    /// Performs the read.
    ///
    /// # Errors
    /// If the status does not match the request, or a byte is wrong or missing.
    pub async fn run(&self, connection: &mut Connection) -> Result<Flow> {
        let path = self.path;
        let asked = Instant::now();
        let (head, mut body) = match &self.range {
            Some(range) => {
                let range = format!("bytes={}-{}", range.start, range.end - 1);
                connection.ask(path, &[("range", &range)]).await?
            }
            None => connection.ask(path, &[]).await?,
        };
        let wanted = match self.range {
            Some(_) => StatusCode::PARTIAL_CONTENT,
            None => StatusCode::OK,
        };
        ensure!(head.status == wanted, "{path}: status {}", head.status);
        let range = self.range.clone().unwrap_or(0..self.pattern.len);
        let mut at = range.start;
        let mut flow = Flow::default();
        let mut pace = self.pace.map(|rate| Pace::new(asked, rate));
        loop {
            let since = Instant::now();
            let Some(piece) = next_piece(&mut body).await? else {
                break;
            };
            flow.came(asked.elapsed(), since.elapsed(), piece.len());
            ensure!(
                self.pattern.matches(at, &piece),
                "{path}: wrong bytes from offset {at} on"
            );
            at += piece.len() as u64;
            if self.leave_after.is_some_and(|enough| flow.bytes >= enough) {
                return Ok(flow);
            }
            if let Some(pace) = &mut pace {
                pace.rest(piece.len()).await;
            }
        }
        ensure!(
            at == range.end,
            "{path}: ends at {at} instead of {}",
            range.end
        );
        Ok(flow)
    }
}

/// The time at which a paced reader wants its next bytes.
#[derive(Debug)]
struct Pace {
    due: Instant,
    rate: f64,
}

impl Pace {
    const fn new(now: Instant, rate: f64) -> Self {
        Self { due: now, rate }
    }

    async fn rest(&mut self, len: usize) {
        let now = Instant::now();
        let latest = now.checked_sub(SLACK).unwrap_or(now);
        self.due = self.due.max(latest) + Duration::from_secs_f64(len as f64 / self.rate);
        tokio::time::sleep_until(self.due.into()).await;
    }
}

/// Reads an object over `connections` at once, each with one request for its own share, and returns
/// each flow. On a direct peer this is the most that the origin and the machine can give.
///
/// # Errors
/// As [`Reading::run`].
pub async fn in_parallel(
    addr: std::net::SocketAddr,
    path: &str,
    pattern: Pattern,
    connections: u64,
) -> Result<Vec<Flow>> {
    let share = pattern.len.div_ceil(connections);
    let shares = (0..connections).map(|n| n * share..((n + 1) * share).min(pattern.len));
    let mut tasks = tokio::task::JoinSet::new();
    for range in shares.filter(|range| !range.is_empty()) {
        let path = path.to_owned();
        let mut connection = Connection::open(addr).await?;
        tasks.spawn(async move {
            Reading::part(&path, pattern, range)
                .run(&mut connection)
                .await
        });
    }
    tasks.join_all().await.into_iter().collect()
}

/// Reads an object in sequence by ranges of `step` bytes, each a new request on the same
/// connection.
///
/// # Errors
/// As [`Reading::run`].
pub async fn by_ranges(
    connection: &mut Connection,
    path: &str,
    pattern: Pattern,
    step: u64,
) -> Result<Flow> {
    let mut flow = Flow::default();
    let mut start = 0;
    while start < pattern.len {
        let end = (start + step).min(pattern.len);
        flow.then(
            &Reading::part(path, pattern, start..end)
                .run(connection)
                .await?,
        );
        start = end;
    }
    Ok(flow)
}
