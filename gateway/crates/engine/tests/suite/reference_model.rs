//! The engine against a model: random operations, interleaved with reads that are under way. After
//! each step the answers are compared with the allowed ones.
//!
//! The model is the history of every key: its bytes, from when to when. A correct answer is, byte
//! for byte, the one range of one version that was current at some moment. That moment lies between
//! the beginning of the open, less the allowed staleness, and its end. A purge moves the earliest
//! moment forward; a soft one does so once the allowed staleness has passed since. An error is correct only while the origin misbehaves, or if the object changed
//! under the reader. Every operation ends within bounded time.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tidegate_cache::fake::Faults;
use tidegate_engine::Assists;
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{Profile, RangeSpec};
use tokio::time::Instant;

use crate::support::*;

mod draws;
mod model;

use draws::op;
use model::Model;

/// The smallest chunk, so that a few kilobytes are many chunks.
const SMALL: u64 = 4 * KIB;

const TTL: Duration = Duration::from_secs(10);

const WHILE_REVALIDATING: Duration = Duration::from_secs(20);

const IF_ERROR: Duration = Duration::from_secs(60);

const NEGATIVE: Duration = Duration::from_secs(3);

/// The bound for any operation, whatever the origin does: the sum of all its deadlines, retries and
/// queues lies below.
const BOUND: Duration = Duration::from_secs(900);

const KEYS: [&str; 4] = ["a/one", "a/two", "b/one", "b"];

#[derive(Debug, Clone)]
enum Op {
    /// Writes new bytes of this length to the key.
    Write(usize, u64),
    /// Writes the bytes of an older version.
    WriteBack(usize),
    /// Sets other headers on the same bytes.
    Mend(usize),
    Delete(usize),
    /// Reads a range to its end.
    Read(usize, Range, How),
    /// Opens and reads a little; the rest stays for later.
    Begin(usize, Range, u64),
    /// Reads on in a begun read.
    GoOn(usize, u64),
    Finish(usize),
    /// Drops a begun read.
    Leave(usize),
    /// Reads side by side, with operations that happen meanwhile.
    During(Vec<(usize, Range, How)>, Vec<Op>),
    Purge(usize),
    PurgePrefix(&'static str),
    Soften(usize),
    SoftenPrefix(&'static str),
    Restart,
    Evict,
    Disk(Disk),
    Origin(Weather),
    Pass(u64),
}

/// A range in 256ths of the object, so that it is often satisfiable.
#[derive(Debug, Clone, Copy)]
enum Range {
    All,
    From(u64),
    Suffix(u64),
    Bounded(u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Plain,
    Forced,
    OnlyIfCached,
    Head,
}

#[derive(Debug, Clone, Copy)]
enum Disk {
    Well,
    Slow,
    Loses,
    Refuses,
    AndMemoryRefuses,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Weather {
    Fine,
    /// Correct answers, but late and slow: no error is excused.
    Slow,
    Truncates,
    Resets,
    Stalls,
    Throttles,
    Down,
    WrongTag,
    WrongRange,
    NoBucket,
    /// Ignores conditions; the tags of its answers are still correct.
    Careless,
}

impl Weather {
    fn faults(self) -> Vec<Fault> {
        match self {
            Self::Fine => vec![],
            Self::Slow => vec![
                Fault::Latency(Duration::from_millis(300)),
                Fault::Rate(20_000),
            ],
            Self::Truncates => vec![Fault::Truncate(5000)],
            Self::Resets => vec![Fault::Reset(3000), Fault::Rate(100_000)],
            Self::Stalls => vec![Fault::Stall(7000)],
            Self::Throttles => vec![Fault::Refuse(OriginError::Throttled {
                retry_after: Some(secs(1)),
            })],
            Self::Down => vec![Fault::Refuse(OriginError::Unavailable("503"))],
            Self::WrongTag => vec![Fault::WrongETag],
            Self::WrongRange => vec![Fault::WrongRange],
            Self::NoBucket => vec![Fault::Refuse(OriginError::NoSuchBucket)],
            Self::Careless => vec![Fault::IgnoreConditions],
        }
    }

    /// Returns whether answers may be errors, or old.
    fn excuses(self) -> bool {
        !matches!(self, Self::Fine | Self::Slow | Self::Careless)
    }
}

/// The content of a key at some time: bytes, or nothing.
#[derive(Debug, Clone)]
struct Was {
    bytes: Option<Bytes>,
    until: Option<Instant>,
}

/// One key's past.
#[derive(Debug, Default)]
struct Past {
    was: Vec<Was>,
    purged: Option<Instant>,
    softened: Option<Instant>,
}

impl Past {
    fn becomes(&mut self, bytes: Option<Bytes>) {
        let now = Instant::now();
        if let Some(last) = self.was.last_mut() {
            last.until = Some(now);
        }
        self.was.push(Was { bytes, until: None });
    }

    fn before(&self) -> Option<Bytes> {
        let mut old = self.was.iter().rev().skip(1);
        old.find_map(|was| was.bytes.clone())
    }

    fn now(&self) -> Option<&Bytes> {
        self.was.last()?.bytes.as_ref()
    }

    /// Returns whether the key has had this content since before `at`, and was not purged since.
    fn stands_since(&self, content: &Bytes, at: Instant) -> bool {
        let purged = self.purged.is_some_and(|purged| purged >= at);
        let became = self.was.iter().rev().nth(1).and_then(|was| was.until);
        self.now() == Some(content) && became.is_none_or(|became| became < at) && !purged
    }

    /// Returns the soft purge that was the last one before an open `began`, if the open must have confirmed the version
    /// since: softened versions are `served` for that long. A later one, while the object was opened, begins that time
    /// anew.
    fn confirmed_since(
        &self,
        softened: Option<Instant>,
        began: Instant,
        served: Duration,
    ) -> Option<Instant> {
        let is_over = |softened: &Instant| began.duration_since(*softened) >= served;
        softened.filter(|softened| is_over(softened) && self.softened == Some(*softened))
    }

    /// Returns the contents of the key at any time since `since`.
    fn since(&self, since: Option<Instant>) -> impl Iterator<Item = Option<&Bytes>> {
        self.was
            .iter()
            .filter(move |was| was.until.is_none_or(|until| Some(until) >= since))
            .map(|was| was.bytes.as_ref())
    }
}

impl Range {
    fn spec(self, size: u64) -> RangeSpec {
        let at = |part: u64| part * size / 256;
        match self {
            Self::All => RangeSpec::From(0),
            Self::From(part) => RangeSpec::From(at(part)),
            Self::Suffix(part) => RangeSpec::Suffix(at(part).max(1)),
            Self::Bounded(a, b) => RangeSpec::Bounded {
                first: at(a.min(b)),
                last: at(a.max(b)),
            },
        }
    }
}

impl Disk {
    fn faults(self) -> Faults {
        let well = Faults::default();
        match self {
            Self::Well => well,
            Self::Slow => Faults {
                delay: Duration::from_millis(50),
                ..well
            },
            Self::Loses => Faults { lose: true, ..well },
            Self::Refuses => Faults {
                refuse_disk: true,
                ..well
            },
            Self::AndMemoryRefuses => Faults {
                refuse_disk: true,
                refuse_memory: true,
                ..well
            },
        }
    }
}

/// Builds a small engine whose rules the model knows.
fn small(versions: bool, budget: u64, disk: DiskUse) -> Setup {
    let bucket = FakeOrigin::new().with_frames(1500);
    Setup {
        bucket: if versions {
            bucket.with_versions()
        } else {
            bucket
        },
        chunk: SMALL,
        budget,
        profile: Profile {
            read_ahead: 512 * KIB,
            streams: 3,
            ttl: TTL,
            stale_while_revalidate: WHILE_REVALIDATING,
            stale_if_error: IF_ERROR,
            negative_ttl: NEGATIVE,
            disk,
            ..Profile::web()
        },
        ..Setup::default()
    }
}

fn play(setup: Setup, ops: &[Op]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async { Model::new(setup).run(ops).await });
}

/// Explores the same cases on every run; `TIDEGATE_MODEL_CASES` sets their number.
fn explore(seed: u8, storms: bool, assists: Assists) {
    let cases = std::env::var("TIDEGATE_MODEL_CASES").ok();
    let config = Config {
        cases: cases.and_then(|n| n.parse().ok()).unwrap_or(60),
        failure_persistence: None,
        max_shrink_iters: 3000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let strategy = (
        any::<bool>(),
        prop::sample::select(vec![8 * KIB, 64 * KIB, 16 * MIB]),
        prop::sample::select(vec![DiskUse::Off, DiskUse::First, DiskUse::Second]),
        prop::collection::vec(op(storms), 10..80),
    );
    let outcome =
        TestRunner::new_with_rng(config, rng).run(&strategy, |(versions, budget, disk, ops)| {
            let setup = Setup {
                assists,
                ..small(versions, budget, disk)
            };
            play(setup, &ops);
            Ok(())
        });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn with_a_healthy_origin_every_answer_is_right() {
    explore(1, false, Assists::default());
}

#[test]
fn with_a_failing_origin_no_answer_is_wrong() {
    explore(2, true, Assists::default());
}

/// The plain path of a fetch, without its decorators.
const PLAIN: Assists = Assists {
    race: false,
    rescue: false,
    hedge: false,
    steer: false,
};

#[test]
fn without_decorators_every_answer_of_a_healthy_origin_is_right() {
    explore(3, false, PLAIN);
}

#[test]
fn without_decorators_no_answer_of_a_failing_origin_is_wrong() {
    explore(4, true, PLAIN);
}
