//! The engine against a model: random operations, interleaved with reads that are under way. After
//! each step the answers are compared with the allowed ones.
//!
//! The model is the history of every key: its bytes, from when to when. A correct answer is, byte
//! for byte, the one range of one version that was current at some moment. That moment lies between
//! the beginning of the open, less the allowed staleness, and its end. A purge moves the earliest
//! moment forward. An error is correct only while the origin misbehaves, or if the object changed
//! under the reader. Every operation ends within bounded time.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tidegate_cache::fake::Faults;
use tidegate_engine::{Assists, Clock, Error, Open, OpenOutcome, Reader};
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::profile::DiskUse;
use tidegate_plan::{ByteRange, ETag, Profile, RangeSpec};
use tokio::time::Instant;

use crate::support::*;

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

    /// Returns the contents of the key at any time since `since`.
    fn since(&self, since: Option<Instant>) -> impl Iterator<Item = Option<&Bytes>> {
        self.was
            .iter()
            .filter(move |was| was.until.is_none_or(|until| Some(until) >= since))
            .map(|was| was.bytes.as_ref())
    }
}

/// A read that is under way.
struct Begun {
    key: usize,
    reader: Reader,
    bytes: Vec<u8>,
    /// The expected range and version, fixed at the open.
    range: ByteRange,
    version: Bytes,
    /// The time at which the reader opened the object.
    at: Instant,
}

struct Model {
    world: World,
    pasts: RefCell<[Past; KEYS.len()]>,
    begun: Vec<Begun>,
    weather: Cell<Weather>,
    /// The time of the origin's last misbehaviour: a request from then may show it until it ends.
    foul: Cell<Option<Instant>>,
    writes: Cell<u64>,
    clock: Clock,
    born: Instant,
    /// Whether the budget is smaller than one part.
    tight: bool,
}

impl Model {
    fn new(setup: Setup) -> Self {
        let tight = setup.budget < MIB;
        let world = setup.build();
        let born = Instant::now();
        let mut pasts: [Past; KEYS.len()] = Default::default();
        for past in &mut pasts {
            past.becomes(None);
        }
        let mut model = Self {
            world,
            pasts: RefCell::new(pasts),
            begun: Vec::new(),
            weather: Cell::new(Weather::Fine),
            foul: Cell::default(),
            writes: Cell::default(),
            clock: clock(),
            born,
            tight,
        };
        model.world.restart(model.clock.clone());
        model
    }

    async fn run(mut self, ops: &[Op]) {
        let mut told = String::new();
        for op in ops {
            let _ = writeln!(told, "{:>9.3?} {op:?}", self.born.elapsed());
            let done = tokio::time::timeout(BOUND, self.step(op)).await;
            match done {
                Ok(Ok(())) => {}
                Ok(Err(wrong)) => panic!("{wrong}\nafter\n{told}"),
                Err(_) => panic!("no end within {BOUND:?}\nafter\n{told}"),
            }
        }
        self.begun.clear();
        self.world.bucket.set_faults([]);
        pass(secs(700)).await;
        assert_eq!(self.world.bucket.running(), 0, "requests are left\n{told}");
        assert_eq!(self.world.used(), 0, "budget is left\n{told}");
        for (n, key) in KEYS.iter().enumerate() {
            let read = tokio::time::timeout(BOUND, self.world.read(key)).await;
            let now = match read.expect("no hang at the end") {
                // In fine weather, the read may find a lost chunk of a version that is gone.
                Err(Error::Changed) => self.world.read(key).await,
                now => now,
            };
            match (now, self.pasts.borrow()[n].now()) {
                (Ok(got), Some(bytes)) => assert_eq!(got, *bytes, "in the end\n{told}"),
                (Err(Error::NotFound), None) => {}
                (got, wanted) => panic!(
                    "in the end {key} is {:?} and not {:?}\n{told}",
                    got.map(|b| b.len()),
                    wanted.map(Bytes::len)
                ),
            }
        }
    }

    async fn step(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Begin(..) if self.asks_nothing() => {}
            Op::Begin(key, range, most) => {
                if let Ok((_, Some(begun))) = self.open(*key, *range, How::Plain).await? {
                    self.begun.push(begun);
                    self.go_on(self.begun.len() - 1, *most).await?;
                }
            }
            Op::GoOn(at, most) if !self.begun.is_empty() => {
                self.go_on(at % self.begun.len(), *most).await?;
            }
            Op::Finish(at) if !self.begun.is_empty() => {
                self.go_on(at % self.begun.len(), u64::MAX).await?;
            }
            Op::Leave(at) if !self.begun.is_empty() => {
                self.begun.swap_remove(at % self.begun.len());
            }
            Op::Restart => self.world.restart(self.clock.clone()),
            Op::During(reads, ops) => {
                let reads = reads
                    .iter()
                    .map(|(key, range, how)| self.read(*key, *range, *how));
                let others = async {
                    for op in ops {
                        self.happen(op).await;
                    }
                };
                let (reads, ()) = tokio::join!(futures_util::future::join_all(reads), others);
                reads.into_iter().collect::<Result<(), _>>()?;
            }
            Op::Read(key, range, how) => self.read(*key, *range, *how).await?,
            op => self.happen(op).await,
        }
        Ok(())
    }

    /// Runs an operation whose result needs no comparison.
    async fn happen(&self, op: &Op) {
        match op {
            Op::Write(key, size) => {
                self.writes.update(|n| n + 1);
                self.write(*key, sample(self.writes.get(), *size));
            }
            Op::WriteBack(key) => {
                let old = self.pasts.borrow()[*key].before();
                if let Some(bytes) = old {
                    self.write(*key, bytes);
                }
            }
            Op::Mend(key) if self.pasts.borrow()[*key].now().is_some() => {
                self.writes.update(|n| n + 1);
                let mended = format!("text/{}", self.writes.get());
                let headers = [("content-type", mended.as_str())];
                self.world.bucket.mend(KEYS[*key], &headers);
            }
            Op::Delete(key) => {
                self.world.bucket.delete(KEYS[*key]);
                self.pasts.borrow_mut()[*key].becomes(None);
            }
            Op::Purge(key) => {
                self.world.purge(KEYS[*key]).await;
                self.pasts.borrow_mut()[*key].purged = Some(Instant::now());
            }
            Op::PurgePrefix(prefix) => {
                self.world.purge_prefix(prefix).await;
                self.purged(prefix);
            }
            Op::Evict => self.world.store.evict_memory(),
            Op::Disk(disk) => self.world.store.set(disk.faults()),
            Op::Origin(weather) => self.turn(*weather).await,
            Op::Pass(millis) => pass(Duration::from_millis(*millis)).await,
            _ => {}
        }
    }

    fn write(&self, key: usize, bytes: Bytes) {
        self.world.bucket.put(KEYS[key], bytes.clone());
        self.pasts.borrow_mut()[key].becomes(Some(bytes));
    }

    fn purged(&self, prefix: &str) {
        for (key, past) in KEYS.iter().zip(self.pasts.borrow_mut().iter_mut()) {
            if key.starts_with(prefix) {
                past.purged = Some(Instant::now());
            }
        }
    }

    /// Changes the weather. An open of any version can only believe the tag in its answer, so wrong
    /// tags may only meet parts of a known version: opens end before, and none begin.
    async fn turn(&self, weather: Weather) {
        if weather == Weather::WrongTag {
            self.change(Weather::Fine);
            pass(secs(60)).await;
        }
        self.change(weather);
    }

    fn asks_nothing(&self) -> bool {
        self.weather.get() == Weather::WrongTag
    }

    fn change(&self, weather: Weather) {
        if self.weather.get().excuses() || weather.excuses() {
            self.foul.set(Some(Instant::now()));
        }
        self.weather.set(weather);
        self.world.bucket.set_faults(weather.faults());
    }

    /// Returns whether the origin misbehaves, or did a short while ago: the breaker and requests
    /// under way remember it.
    fn excused(&self) -> bool {
        let lately = |foul: Instant| foul.elapsed() < secs(400);
        self.weather.get().excuses() || self.foul.get().is_some_and(lately)
    }

    /// Returns whether an error is allowed: the origin is bad, or the budget is smaller than one
    /// part, so that concurrent readers may have to be shed.
    fn allows(&self, error: &Error) -> bool {
        self.excused() || (self.tight && matches!(error, Error::Overloaded { .. }))
    }

    /// Opens, and compares the version. Returns the error if that is correct.
    async fn open(
        &self,
        key: usize,
        range: Range,
        how: How,
    ) -> Result<Result<(OpenOutcome, Option<Begun>), Error>, String> {
        let began = Instant::now();
        let purged = self.pasts.borrow()[key].purged;
        let size_now = self.pasts.borrow()[key]
            .now()
            .map_or(SMALL, |bytes| bytes.len() as u64);
        let spec = range.spec(size_now);
        let open = Open {
            first: (how != How::Head).then_some(spec),
            revalidate: how == How::Forced,
            only_if_cached: how == How::OnlyIfCached,
            ..Open::default()
        };
        let object = match self.world.open(KEYS[key], open).await {
            Ok(object) => object,
            Err(error) => return self.judge_error(key, how, (began, purged), error).map(Err),
        };
        // The greatest age of an answer. Restarts and faults do not change it.
        let stale = match how {
            How::Forced if !self.excused() => Duration::ZERO,
            _ if self.excused() => TTL + IF_ERROR,
            _ => TTL + WHILE_REVALIDATING,
        };
        let since = began.checked_sub(stale).max(purged);
        let pasts = self.pasts.borrow();
        let possible: Vec<_> = pasts[key].since(since).flatten().collect();
        let version = object.version();
        let tag_of = |bytes: &&&Bytes| ETag::of_bytes([&bytes[..]]) == version.etag;
        let Some(bytes) = possible.iter().find(tag_of) else {
            return Err(format!(
                "{} is {:?} of {} bytes, none of the {} that it may be since {:?}",
                KEYS[key],
                version.etag,
                version.size,
                possible.len(),
                since.map(|since| since - self.born),
            ));
        };
        if bytes.len() as u64 != version.size {
            return Err(format!("{} has another size", KEYS[key]));
        }
        let resolved = spec.resolve(version.size).filter(|_| how != How::Head);
        let begun = resolved.map(|range| Begun {
            key,
            reader: object.read_at(range),
            bytes: Vec::new(),
            range,
            version: Bytes::clone(bytes),
            at: began,
        });
        Ok(Ok((object.outcome(), begun)))
    }

    fn judge_error(
        &self,
        key: usize,
        how: How,
        (began, purged): (Instant, Option<Instant>),
        error: Error,
    ) -> Result<Error, String> {
        // A negative entry, or in bad weather an old truth.
        let negative = match how {
            How::Forced => Duration::ZERO,
            _ => NEGATIVE,
        };
        let since = began.checked_sub(negative).max(purged);
        let right = match error {
            Error::NotFound => self.pasts.borrow()[key]
                .since(since)
                .any(|was| was.is_none()),
            Error::NotCached => how == How::OnlyIfCached,
            _ => self.allows(&error),
        };
        if right {
            Ok(error)
        } else {
            Err(format!("{} is told {error:?}", KEYS[key]))
        }
    }

    async fn read(&self, key: usize, range: Range, how: How) -> Result<(), String> {
        // As in a frontend: an object that changed before the first byte is opened anew, a few
        // times.
        if self.asks_nothing() {
            return Ok(());
        }
        for _ in 0..4 {
            let Ok((_, Some(mut begun))) = self.open(key, range, how).await? else {
                return Ok(());
            };
            match read_on(&mut begun, u64::MAX).await? {
                Some(Error::Changed) if begun.bytes.is_empty() => {}
                Some(Error::Changed) => return self.may_have_changed(&begun),
                Some(error) if !self.allows(&error) => {
                    return Err(format!("{} ends with {error:?}", KEYS[key]));
                }
                _ => return Ok(()),
            }
        }
        if self.excused() {
            return Ok(());
        }
        Err(format!("{} changes again and again", KEYS[key]))
    }

    async fn go_on(&mut self, at: usize, most: u64) -> Result<(), String> {
        let ended = read_on(&mut self.begun[at], most).await?;
        match ended {
            Some(Error::Changed) => {
                let begun = self.begun.swap_remove(at);
                self.may_have_changed(&begun)
            }
            Some(error) => {
                // The failed reader itself held memory.
                let allowed = self.allows(&error);
                let key = KEYS[self.begun.swap_remove(at).key];
                match allowed {
                    true => Ok(()),
                    false => Err(format!("{key} ends with {error:?}")),
                }
            }
            None if self.begun[at].reader.remaining() == 0 => {
                self.begun.swap_remove(at);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Checks a reported change: it is correct unless the bucket has had the reader's version, and
    /// no purge, since before the reader opened it.
    fn may_have_changed(&self, begun: &Begun) -> Result<(), String> {
        let past = &self.pasts.borrow()[begun.key];
        let stood = past.stands_since(&begun.version, begun.at);
        if !stood || self.excused() {
            return Ok(());
        }
        Err(format!("{} is told of a change", KEYS[begun.key]))
    }
}

/// Reads up to `most` bytes more, and compares them. Returns the error that ended the read, if any.
async fn read_on(begun: &mut Begun, most: u64) -> Result<Option<Error>, String> {
    let mut taken = 0;
    while taken < most {
        let piece = match begun.reader.next().await {
            None => break,
            Some(Err(error)) => return Ok(Some(error)),
            Some(Ok(piece)) => piece,
        };
        taken += piece.len() as u64;
        begun.bytes.extend_from_slice(&piece);
    }
    let got = begun.bytes.len() as u64;
    let due = ByteRange::new(begun.range.start, begun.range.start + got);
    if due.end > begun.range.end {
        return Err(format!("{} has too many bytes", KEYS[begun.key]));
    }
    if begun.bytes != slice(&begun.version, due) {
        return Err(format!("WRONG BYTES in {} within {due:?}", KEYS[begun.key]));
    }
    if taken < most && got != begun.range.len() {
        return Err(format!("{} ends early without an error", KEYS[begun.key]));
    }
    Ok(None)
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

fn key() -> impl Strategy<Value = usize> {
    0..KEYS.len()
}

fn range() -> impl Strategy<Value = Range> {
    prop_oneof![
        3 => Just(Range::All),
        1 => (0..256u64).prop_map(Range::From),
        1 => (0..256u64).prop_map(Range::Suffix),
        3 => (0..256u64, 0..256u64).prop_map(|(a, b)| Range::Bounded(a, b)),
    ]
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(SMALL),
        Just(SMALL + 1),
        1..20 * SMALL,
        (MIB..MIB + 400 * KIB),
    ]
}

fn weather() -> impl Strategy<Value = Weather> {
    use Weather::*;
    prop::sample::select(vec![
        Fine, Fine, Fine, Fine, Slow, Slow, Truncates, Resets, Stalls, Throttles, Down, WrongTag,
        WrongRange, NoBucket, Careless,
    ])
}

fn how() -> impl Strategy<Value = How> {
    prop::sample::select(vec![
        How::Plain,
        How::Plain,
        How::Plain,
        How::Forced,
        How::OnlyIfCached,
        How::Head,
    ])
}

fn disk() -> impl Strategy<Value = Disk> {
    use Disk::*;
    prop::sample::select(vec![Well, Well, Slow, Loses, Refuses, AndMemoryRefuses])
}

fn during() -> impl Strategy<Value = Op> {
    let read = (0..2usize, range(), how());
    let other = prop_oneof![
        3 => (0..2usize, size()).prop_map(|(key, size)| Op::Write(key, size)),
        1 => (0..2usize).prop_map(Op::WriteBack),
        1 => (0..2usize).prop_map(Op::Delete),
        3 => (0..2usize).prop_map(Op::Purge),
        1 => Just(Op::PurgePrefix("a/")),
        1 => Just(Op::Evict),
        8 => prop::sample::select(vec![0, 1, 20, 100, 320, 1000]).prop_map(Op::Pass),
    ];
    let (reads, others) = (
        prop::collection::vec(read, 1..5),
        prop::collection::vec(other, 0..6),
    );
    (reads, others).prop_map(|(reads, others)| Op::During(reads, others))
}

fn op(storms: bool) -> impl Strategy<Value = Op> {
    let calm = prop_oneof![
        8 => (key(), size()).prop_map(|(key, size)| Op::Write(key, size)),
        2 => key().prop_map(Op::WriteBack),
        1 => key().prop_map(Op::Mend),
        2 => key().prop_map(Op::Delete),
        14 => (key(), range(), how()).prop_map(|(key, range, how)| Op::Read(key, range, how)),
        8 => (key(), range(), 0..200_000u64).prop_map(|(key, range, n)| Op::Begin(key, range, n)),
        6 => (0..64usize, 0..100_000u64).prop_map(|(at, n)| Op::GoOn(at, n)),
        5 => (0..64usize).prop_map(Op::Finish),
        3 => (0..64usize).prop_map(Op::Leave),
        8 => during(),
        3 => key().prop_map(Op::Purge),
        2 => prop::sample::select(vec!["a/", "b", "", "a/one"]).prop_map(Op::PurgePrefix),
        1 => Just(Op::Restart),
        3 => Just(Op::Evict),
        2 => disk().prop_map(Op::Disk),
        6 => prop::sample::select(vec![1, 100, 2_000, 5_000, 11_000, 31_000, 61_000])
            .prop_map(Op::Pass),
    ];
    match storms {
        true => prop_oneof![6 => calm, 1 => weather().prop_map(Op::Origin)].boxed(),
        false => {
            let mild = prop::sample::select(vec![Weather::Fine, Weather::Slow, Weather::Careless]);
            prop_oneof![12 => calm, 1 => mild.prop_map(Op::Origin)].boxed()
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
