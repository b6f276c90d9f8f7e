//! Lives of an object that is written, and the recovery of their remains.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tidegate_origin::FakeOrigin;
use tidegate_plan::PartSizes;
use tidegate_write::{Commit, OpenMode, Settings, WritePath};
use tidegate_write::{Writer, Writers};

use super::engine::{Setup, World, sample, secs, valid};
use super::spool::{FILES, down, patched, until};

pub(crate) const KEY: &str = "folder/object";

/// The object's content before.
const BEFORE: &str = "before";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A time longer than anything that comes to an end.
const LONG: Duration = secs(600);

/// The promises to a program that writes an object.
#[derive(Clone, Default)]
pub(crate) struct Told {
    /// The content that was promised last.
    promised: Option<Bytes>,
    /// The contents that the program asked for since.
    asked: Vec<Bytes>,
    /// Calls that failed.
    failed: usize,
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let asked = Vec::from_iter(self.asked.iter().map(Bytes::len));
        let promised = self.promised.as_ref().map(Bytes::len);
        write!(
            f,
            "{promised:?} promised, {asked:?} asked for, {} failed",
            self.failed
        )
    }
}

impl Told {
    pub(crate) fn is_promised(&self) -> bool {
        self.promised.is_some()
    }

    /// Whether the program saw no failure.
    pub(crate) fn is_unnoticed(&self) -> bool {
        self.failed == 0
    }

    fn ask(&mut self, bytes: &Bytes) {
        self.asked.push(bytes.clone());
    }

    fn promise(&mut self, bytes: &Bytes) {
        self.promised = Some(bytes.clone());
        self.asked.clear();
    }
}

/// Returns whether the object may have this content, by the promises and requests.
pub(crate) fn is_allowed(found: &Option<Bytes>, told: &Told) -> bool {
    let promised = told.promised.clone().unwrap_or(BEFORE.into());
    found
        .as_ref()
        .is_some_and(|found| *found == promised || told.asked.contains(found))
}

/// Describes a found content for a failure message: its length, and where it differs from what was promised or asked for
/// in that length.
pub(crate) fn described(found: &Option<Bytes>, told: &Told) -> String {
    let Some(found) = found else {
        return "nothing".to_owned();
    };
    if found.len() < 10 {
        return format!("{found:?}");
    }
    let mut all = told.asked.iter().chain(&told.promised);
    let Some(expected) = all.find(|it| it.len() == found.len()) else {
        return format!("{} bytes", found.len());
    };
    let differs = |at: &usize| found[*at] != expected[*at];
    let (first, last) = (
        (0..found.len()).find(differs),
        (0..found.len()).rfind(differs),
    );
    let range = first.unwrap_or(0)..last.map_or(0, |last| last + 1);
    let zeros = found[range.clone()].iter().all(|byte| *byte == 0);
    format!(
        "{} bytes, others at {range:?}, all of them zero: {zeros},",
        found.len()
    )
}

pub(crate) fn is_untouched(found: &Option<Bytes>) -> bool {
    found.as_deref() == Some(BEFORE.as_bytes())
}

pub(crate) fn bucket() -> FakeOrigin {
    let bucket = FakeOrigin::new().with_min_part(1);
    bucket.put(KEY, BEFORE);
    bucket
}

/// The way in which an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Small, synced repeatedly, at various offsets, then cut off and made large.
    Small,
    /// Larger than the spool, in order.
    Large,
    /// Scattered writes, never synced, published at the close.
    Scattered,
    /// Small and then large, closed while the bucket is down, and replaced before it is back.
    Replaced,
}

/// The way in which a program leaves its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closes,
    Syncs,
    /// Without a call, as a process that is killed does.
    Leaves,
}

/// The outcome of a failure after which the process publishes the object nevertheless.
pub(crate) const PUBLISHED: &str = "published";

/// The result of a life.
pub(crate) struct Lived {
    pub(crate) is_published: bool,
}

impl Lived {
    /// Returns the outcome in the words of the table. Whether the program was told of the failure is not among them: it
    /// is told if it waits for the call that fails, and the order in which threads come to a call is not fixed.
    pub(crate) fn outcome(&self, told: &Told) -> &'static str {
        match (self.is_published, told.failed) {
            (true, _) => PUBLISHED,
            (false, 0) => "waits; the next start publishes it",
            (false, _) => "told; the next start publishes what was promised",
        }
    }
}

impl Life {
    pub(crate) const ALL: [Self; 4] = [Self::Small, Self::Large, Self::Scattered, Self::Replaced];

    fn settings(self, spool: &Path) -> Settings {
        let part = match self {
            Self::Small => MIB,
            _ => 256 * KIB,
        };
        let size = match self {
            Self::Large => 3 * MIB,
            _ => 1 << 30,
        };
        Settings {
            size: size + FILES,
            parts: PartSizes::new(part),
            kept: 2 * part,
            patience: secs(20),
            // The limit is so short that the journal is rewritten all the time.
            journal: 500,
            ..Settings::new(spool.to_owned())
        }
    }

    pub(crate) fn start(self, spool: &Path, bucket: FakeOrigin) -> Option<(World, Writers)> {
        let world = Setup::bucket(bucket).build();
        let settings = self.settings(spool);
        let writers = Writers::start(
            &WritePath::new(&world.engine),
            settings,
            std::slice::from_ref(&world.source),
        );
        Some((world, writers.ok()?))
    }

    /// Runs from the start of the process until the object is published or cannot be.
    pub(crate) async fn live(
        self,
        spool: &Path,
        bucket: FakeOrigin,
        told: &Arc<Mutex<Told>>,
    ) -> Lived {
        let mut started = self.start(spool, bucket.clone());
        if started.is_none() {
            told.lock().expect("sound").failed += 1;
            started = self.start(spool, bucket.clone());
        }
        let (world, writers) = started.expect("it fails once");
        let mut hand = Hand {
            writer: opened(&world, &writers).await,
            truth: Bytes::new(),
            told,
            syncs_itself: self == Self::Large,
            is_over: false,
        };
        match self {
            Self::Small => hand.small().await,
            Self::Large => hand.large().await,
            Self::Scattered => hand.scattered().await,
            Self::Replaced => {
                bucket.set_faults([down()]);
                for (length, ending) in [(700, End::Closes), (MIB, End::Closes), (900, End::Syncs)]
                {
                    hand.whole(length, ending).await;
                    hand = hand.replaced(&world, &writers).await;
                }
                hand.whole(300_000, End::Leaves).await;
                bucket.set_faults([]);
            }
        }
        let Hand { writer, truth, .. } = hand;
        drop(writer);
        let _ = tokio::time::timeout(LONG, writers.settled()).await;
        let is_published = bucket.object(KEY).is_some_and(|(_, bytes)| bytes == truth);
        if is_published {
            until(|| writers.pending().is_empty() && writers.spooled().0 == 0).await;
        }
        world.engine.close(secs(5)).await;
        Lived { is_published }
    }
}

/// Opens the object to be replaced or created.
pub(crate) async fn opened(world: &World, writers: &Writers) -> Writer {
    let key = valid(KEY);
    let opened = writers.open(&world.source, &key, OpenMode::Create, Vec::new());
    opened.await.expect("no disk is needed for that")
}

/// Starts over a spool, has its contents published, and returns the object.
pub(crate) async fn taken_up(life: Life, spool: &Path, bucket: FakeOrigin) -> Option<Bytes> {
    if let Some((world, writers)) = life.start(spool, bucket.clone()) {
        let settled = tokio::time::timeout(LONG, writers.settled()).await;
        settled.expect("what is there is published");
        world.engine.close(secs(5)).await;
    }
    bucket.object(KEY).map(|(_, bytes)| bytes)
}

/// A program that writes.
struct Hand<'a> {
    writer: Writer,
    truth: Bytes,
    told: &'a Arc<Mutex<Told>>,
    /// Whether bytes that leave the spool cause a sync.
    syncs_itself: bool,
    /// Whether writing is impossible from now on.
    is_over: bool,
}

impl Hand<'_> {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("sound")
    }

    /// Writes; tries once more after a failure.
    async fn write(&mut self, at: u64, bytes: &Bytes) {
        if self.is_over {
            return;
        }
        let mut rest = bytes.clone();
        let whole = patched(&self.truth, at, bytes);
        let mut offset = at;
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(128 << 10));
            let length = piece.len() as u64;
            if self.syncs_itself {
                // Promised content is published as it was at that time, or later.
                self.told().ask(&whole.slice(..offset as usize));
            }
            for _ in 0..2 {
                match self.writer.write_at(offset, piece.clone()).await {
                    Ok(()) => {
                        self.is_over = false;
                        break;
                    }
                    Err(_) => {
                        self.told().failed += 1;
                        // A spool that cannot record the bytes that leave it stays full.
                        self.is_over = true;
                    }
                }
            }
            if self.is_over {
                break;
            }
            offset += length;
        }
        let written = bytes.slice(..(offset - at) as usize);
        if !self.is_over {
            self.truth = whole;
        } else if !written.is_empty() {
            self.truth = patched(&self.truth, at, &written);
        }
    }

    async fn append(&mut self, bytes: &Bytes) {
        self.write(self.truth.len() as u64, bytes).await;
    }

    /// Syncs; tries once more after a failure.
    async fn sync(&mut self) {
        self.told().ask(&self.truth);
        for _ in 0..2 {
            match self.writer.sync().await {
                Ok(()) => return self.told().promise(&self.truth),
                Err(_) => self.told().failed += 1,
            }
        }
    }

    async fn cut(&mut self, size: u64) {
        let truth = self.truth.slice(..size as usize);
        // Promised content is cut as well, whenever the cut is recorded.
        let cut: Vec<Bytes> = {
            let told = self.told();
            let all = told.asked.iter().chain(&told.promised);
            all.map(|it| it.slice(..it.len().min(size as usize)))
                .collect()
        };
        self.told().asked.extend(cut);
        self.truth = truth;
        for _ in 0..2 {
            match self.writer.truncate(size).await {
                Ok(()) => return,
                Err(_) => self.told().failed += 1,
            }
        }
    }

    /// Closes; tries once more after a failure.
    async fn close(&mut self, commit: Commit) {
        self.told().ask(&self.truth);
        for _ in 0..2 {
            match self.writer.commit(commit).await {
                Ok(()) => return self.told().promise(&self.truth),
                Err(_) => self.told().failed += 1,
            }
        }
    }

    async fn small(&mut self) {
        self.write(0, &sample(1, 700)).await;
        self.sync().await;
        // Its bytes move from the journal into a file of their own.
        self.write(5000, &sample(2, 700)).await;
        self.sync().await;
        for round in 0..5 {
            self.append(&sample(round, 300)).await;
            self.sync().await;
        }
        self.cut(4000).await;
        self.sync().await;
        self.write(8192, &sample(3, 2 * MIB + 300_000)).await;
        self.sync().await;
        self.append(&sample(4, 500)).await;
        self.close(Commit::Background).await;
    }

    async fn large(&mut self) {
        self.write(0, &sample(1, MIB)).await;
        self.sync().await;
        for round in 2..6 {
            self.append(&sample(round, MIB)).await;
        }
        self.sync().await;
        for round in 6..8 {
            self.append(&sample(round, MIB)).await;
        }
        self.close(Commit::Close).await;
    }

    /// Leaves the object, and opens it to be replaced.
    async fn replaced(self, world: &World, writers: &Writers) -> Self {
        let Self { writer, told, .. } = self;
        drop(writer);
        Self {
            writer: opened(world, writers).await,
            truth: Bytes::new(),
            told,
            syncs_itself: false,
            is_over: false,
        }
    }

    async fn whole(&mut self, length: u64, end: End) {
        self.write(0, &sample(length, length)).await;
        match end {
            End::Closes => self.close(Commit::Background).await,
            End::Syncs => self.sync().await,
            End::Leaves => {
                let truth = self.truth.clone();
                self.told().ask(&truth);
            }
        }
    }

    async fn scattered(&mut self) {
        for round in 0..12 {
            let at = (11 - round) * 60_001;
            self.write(at, &sample(round, 60_001)).await;
        }
        self.close(Commit::Close).await;
    }
}
