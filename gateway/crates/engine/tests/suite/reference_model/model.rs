//! The engine beside the history of every key: each answer is compared with what it may be.

use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_engine::{Clock, Error, OpenOptions, OpenOutcome, PurgeKind, Reader, Scope};
use tidegate_plan::{ByteRange, ETag};
use tokio::time::Instant;

use super::{
    BOUND, How, IF_ERROR, KEYS, NEGATIVE, Op, Past, Range, SMALL, TTL, WHILE_REVALIDATING, Weather,
};
use crate::support::*;

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

/// An engine, and all that its answers may be.
pub(super) struct Model {
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
    pub(super) fn new(setup: Setup) -> Self {
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

    pub(super) async fn run(mut self, ops: &[Op]) {
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
            Op::Soften(key) => {
                self.world.soften(KEYS[*key]).await;
                self.pasts.borrow_mut()[*key].softened = Some(Instant::now());
            }
            Op::SoftenPrefix(prefix) => {
                let target = Scope::Prefix((*prefix).into());
                self.world.purge_by(target, PurgeKind::Soft).await;
                for (key, past) in KEYS.iter().zip(self.pasts.borrow_mut().iter_mut()) {
                    if key.starts_with(prefix) {
                        past.softened = Some(Instant::now());
                    }
                }
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
        let (purged, softened) = {
            let past = &self.pasts.borrow()[key];
            (past.purged, past.softened)
        };
        let size_now = self.pasts.borrow()[key]
            .now()
            .map_or(SMALL, |bytes| bytes.len() as u64);
        let spec = range.spec(size_now);
        let open = OpenOptions {
            first: (how != How::Head).then_some(spec),
            revalidate: how == How::Forced,
            only_if_cached: how == How::OnlyIfCached,
            ..OpenOptions::default()
        };
        let object = match self.world.open(KEYS[key], open).await {
            Ok(object) => object,
            Err(error) => {
                let purged = purged.max(softened);
                return self.judge_error(key, how, (began, purged), error).map(Err);
            }
        };
        // The greatest age of an answer. Restarts and faults do not change it.
        let stale = match how {
            How::Forced if !self.excused() => Duration::ZERO,
            _ if self.excused() => TTL + IF_ERROR,
            _ => TTL + WHILE_REVALIDATING,
        };
        let pasts = self.pasts.borrow();
        let softened = pasts[key].confirmed_since(softened, began, stale.saturating_sub(TTL));
        let since = began.checked_sub(stale).max(purged).max(softened);
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
