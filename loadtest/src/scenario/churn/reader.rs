//! One of the readers, and the versions that it may see.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use http::{StatusCode, header};

use crate::client::{Answer, Connection};
use crate::pattern::Pattern;
use crate::random::{Random, mix};

/// The least length of a version; none is twice as long. Ranges below it exist in all versions.
const SHORTEST: u64 = 2 << 20;

/// State shared by all readers and the writer.
#[derive(Debug)]
pub struct ChurnState {
    seed: u64,
    last: u64,
    /// The version of each ETag when it was first seen.
    etags: Mutex<HashMap<String, u64>>,
    /// The time at which the last version was in place.
    pub last_change: OnceLock<Instant>,
    /// The number of readers that have the last version.
    pub arrived: AtomicU64,
    /// The flag that ends the readers.
    pub stop: AtomicBool,
}

impl ChurnState {
    /// Returns the state for versions 0 to `last`, whose contents follow from `seed`.
    #[must_use]
    pub fn new(seed: u64, last: u64) -> Self {
        Self {
            seed,
            last,
            etags: Mutex::default(),
            last_change: OnceLock::new(),
            arrived: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Returns the content of one version; lengths differ too.
    #[must_use]
    pub fn version(&self, number: u64) -> Pattern {
        let seed = mix(self.seed ^ number.wrapping_mul(0x9e37_79b9));
        Pattern {
            seed,
            len: SHORTEST + seed % SHORTEST,
        }
    }

    /// Returns the version whose bytes at `start` begin like `bytes`.
    fn recognise(&self, start: u64, bytes: &[u8]) -> Option<u64> {
        let beginning = &bytes[..bytes.len().min(32)];
        (0..=self.last).find(|&number| self.version(number).matches(start, beginning))
    }

    /// Checks a whole body, and that its ETag has always stood for the same version.
    fn check(&self, start: u64, end: Option<u64>, answer: &Answer) -> Result<u64> {
        let number = self
            .recognise(start, &answer.body)
            .context("no version begins like this")?;
        let version = self.version(number);
        let end = end.unwrap_or(version.len);
        let len = answer.body.len() as u64;
        ensure!(
            len == end - start,
            "{len} bytes of version {number} instead of {}",
            end - start
        );
        ensure!(
            version.matches(start, &answer.body),
            "begins as {number}, goes on otherwise"
        );
        if answer.head.status == StatusCode::PARTIAL_CONTENT {
            let said = text(answer, header::CONTENT_RANGE);
            let right = format!("bytes {start}-{}/{}", end - 1, version.len);
            ensure!(
                said == right,
                "Content-Range `{said}` over bytes of `{right}`"
            );
        }
        let etag = text(answer, header::ETAG);
        let mut etags = self.etags.lock().expect("no reader panics while it looks");
        let before = *etags.entry(etag.clone()).or_insert(number);
        ensure!(
            before == number,
            "ETag {etag} of version {before} over bytes of {number}"
        );
        Ok(number)
    }
}

fn text(answer: &Answer, name: header::HeaderName) -> String {
    let value = answer
        .head
        .headers
        .get(name)
        .and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// The observations of readers.
#[derive(Debug, Default)]
pub struct Observations {
    /// Whole bodies with the right bytes.
    pub bodies: u64,
    /// Answers that broke off: the client notices that and asks again.
    pub cut_off: u64,
    /// Answers with status 503.
    pub refused: u64,
    /// The versions in these bodies.
    pub versions: HashSet<u64>,
    /// Whole bodies with wrong bytes, and unexpected statuses.
    pub complaints: Vec<String>,
    /// The time from the last change to the last version, for each reader that got it.
    pub last_after: Vec<Duration>,
}

impl Observations {
    /// Adds the observations of another reader.
    pub fn add(&mut self, other: Self) {
        self.bodies += other.bodies;
        self.cut_off += other.cut_off;
        self.refused += other.refused;
        self.versions.extend(other.versions);
        self.complaints.extend(other.complaints);
        self.last_after.extend(other.last_after);
    }

    /// Returns the time that the slowest reader took to get the last version.
    #[must_use]
    pub fn slowest(&self) -> Option<Duration> {
        self.last_after.iter().max().copied()
    }
}

/// One reader.
#[derive(Debug)]
pub struct Reader {
    addr: SocketAddr,
    path: String,
    random: Random,
    shared: Arc<ChurnState>,
    seen: Observations,
}

impl Reader {
    /// Returns a reader of the object at `path`.
    #[must_use]
    pub fn new(number: u64, addr: SocketAddr, path: String, shared: Arc<ChurnState>) -> Self {
        let random = Random::new(mix(shared.seed ^ number));
        Self {
            addr,
            path,
            random,
            shared,
            seen: Observations::default(),
        }
    }

    /// Reads the whole object or a range, over and over, with a new connection after each failure.
    pub async fn read_until_stopped(mut self) -> Observations {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let Ok(mut connection) = Connection::open(self.addr).await else {
                self.seen.cut_off += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            };
            while !self.shared.stop.load(Ordering::Relaxed) {
                if self.read(&mut connection).await.is_err() {
                    self.seen.cut_off += 1;
                    break;
                }
            }
        }
        self.seen
    }

    /// # Errors
    /// If the answer broke off.
    async fn read(&mut self, connection: &mut Connection) -> Result<()> {
        let range = (self.random.below(4) == 0).then(|| {
            let start = self.random.below(SHORTEST - 32);
            (start, start + 32 + self.random.below(SHORTEST - 32 - start))
        });
        let wanted = range.map(|(start, end)| format!("bytes={start}-{}", end - 1));
        let header = wanted.as_deref().map(|value| ("range", value));
        let (answer, _) = connection.get(&self.path, header.as_slice()).await?;
        let expected = if range.is_some() {
            StatusCode::PARTIAL_CONTENT
        } else {
            StatusCode::OK
        };
        if answer.head.status == StatusCode::SERVICE_UNAVAILABLE {
            self.seen.refused += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else if answer.head.status == expected {
            let start = range.map_or(0, |(start, _)| start);
            self.judge(self.shared.check(start, range.map(|(_, end)| end), &answer));
        } else {
            self.seen
                .complaints
                .push(format!("status {}", answer.head.status));
        }
        Ok(())
    }

    fn judge(&mut self, version: Result<u64>) {
        match version {
            Ok(number) => {
                self.seen.bodies += 1;
                self.seen.versions.insert(number);
                if number == self.shared.last && self.seen.last_after.is_empty() {
                    self.arrive();
                }
            }
            Err(error) => self.seen.complaints.push(error.to_string()),
        }
    }

    fn arrive(&mut self) {
        // If the writer has not noted the time yet, the delay is zero.
        let after = self
            .shared
            .last_change
            .get()
            .map_or(Duration::ZERO, Instant::elapsed);
        self.seen.last_after.push(after);
        self.shared.arrived.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::client::Head;

    fn answer(body: impl Into<Bytes>, etag: &str) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, etag.parse().unwrap());
        Answer {
            head: Head {
                status: StatusCode::OK,
                headers,
            },
            body: body.into(),
        }
    }

    #[test]
    fn a_body_of_one_version_is_recognised() {
        let shared = ChurnState::new(1, 20);
        let body = shared.version(17).all();
        assert_eq!(shared.check(0, None, &answer(body, "\"a\"")).unwrap(), 17);
    }

    #[test]
    fn a_body_of_two_versions_a_short_one_and_a_strange_etag_are_complaints() {
        let shared = ChurnState::new(1, 20);
        let check = |body: Vec<u8>, etag| shared.check(0, None, &answer(body, etag));
        let mut mixed = shared.version(3).all().to_vec();
        mixed[1_000_000..1_000_100].copy_from_slice(&shared.version(4).bytes(1_000_000, 100));
        assert!(check(mixed, "\"m\"").is_err());
        assert!(check(shared.version(3).bytes(0, 500_000).to_vec(), "\"s\"").is_err());
        assert!(check(shared.version(3).all().to_vec(), "\"e\"").is_ok());
        assert!(check(shared.version(4).all().to_vec(), "\"e\"").is_err());
    }
}
