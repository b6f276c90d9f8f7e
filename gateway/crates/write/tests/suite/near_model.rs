//! Writers, renames, HTTP PUTs and foreign writers, against the bucket's own past: each later read returns, byte for
//! byte, a content of the bucket from within the time that the rules allow. It is never older than the last write from
//! here. Answers are lost, parts are sent again, tiers forget, and the process ends in between.
//!
//! Everything is drawn from a seed; a failure names it.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tidegate_engine::Error;
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::digest::Digests;
use tidegate_plan::{ByteRange, RangeSpec};
use tidegate_write::OpenMode;
use tidegate_write::Writer;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tokio::time::Instant;

use crate::support::draw::Draw;
use crate::support::engine::{self, KIB, Setup, pass, sample, secs, settle, valid};
use crate::support::spool::{Desk, Terms, set_owner};

const CHUNK: u64 = 4 * KIB;
/// Part sizes by seed; every third seed has parts that are no multiple of a chunk.
const PARTS: [u64; 3] = [16 * KIB, 4 * KIB, 10 * KIB];
const TTL: Duration = Duration::from_secs(10);
const KEYS: [&str; 3] = ["folder/a", "folder/b", "c"];

/// The content of a key, and its end.
type Was = (Option<Bytes>, Option<Instant>);

#[derive(Default)]
struct Past {
    was: Vec<Was>,
    /// The time of our last acknowledged write: nothing older is read from then on.
    ours: Option<Instant>,
}

struct Model {
    desk: Desk,
    terms: Terms,
    draw: Draw,
    pasts: BTreeMap<&'static str, Past>,
    version: u64,
    faults: bool,
}

fn terms(part: u64) -> Terms {
    Terms {
        part,
        ..Terms::default()
    }
}

impl Model {
    fn new(seed: u64, faults: bool) -> Self {
        let mut setup = Setup::profile(|profile| {
            profile.ttl = TTL;
            profile.stale_while_revalidate = Duration::ZERO;
            profile.stale_if_error = Duration::ZERO;
            profile.negative_ttl = secs(seed % 2 * 4);
        });
        setup.chunk = CHUNK;
        setup.bucket = FakeOrigin::new().with_min_part(1);
        let part = PARTS[usize::try_from(seed % 3).expect("small")];
        let spool = tempfile::tempdir().expect("a folder");
        let desk = Desk::over(setup.build(), spool, &terms(part));
        let past = || Past {
            was: vec![(None, None)],
            ours: None,
        };
        Self {
            desk,
            terms: terms(part),
            draw: Draw::new(seed),
            pasts: KEYS.map(|key| (key, past())).into(),
            version: 0,
            faults,
        }
    }

    fn key(&mut self) -> &'static str {
        KEYS[usize::try_from(self.draw.below(KEYS.len() as u64)).expect("few")]
    }

    fn bytes(&mut self, most: u64) -> Bytes {
        self.version += 1;
        let length = self.draw.below(most);
        sample(self.version, length)
    }

    /// Records the bucket's present contents.
    fn observe(&mut self) {
        for (key, past) in &mut self.pasts {
            let now = self.desk.object(key);
            let last = past.was.last_mut().expect("one at least");
            if last.0 != now {
                last.1 = Some(Instant::now());
                past.was.push((now, None));
            }
        }
    }

    async fn acknowledged(&mut self, key: &str) {
        self.observe();
        // The replaced content is older, and the next one is younger.
        pass(Duration::from_millis(1)).await;
        let past = self.pasts.get_mut(key).expect("one of them");
        past.ours = Some(Instant::now());
        pass(Duration::from_millis(1)).await;
    }

    fn fault(&mut self) {
        let fault = match self.draw.below(5) {
            0 => Fault::Refuse(OriginError::Unavailable("down")),
            1 | 2 => Fault::LoseAnswer,
            3 => Fault::Damage,
            _ => Fault::Reset(self.draw.below(20) * KIB),
        };
        for _ in 0..self.draw.below(4) {
            self.desk.bucket().fail_next([]);
        }
        self.desk.bucket().fail_next([fault]);
    }

    async fn write(&mut self, key: &'static str, how: OpenMode) {
        let writer = match self.desk.open(key, how).await {
            Ok(writer) => writer,
            Err(_) => return,
        };
        for _ in 0..=self.draw.below(4) {
            let at = match self.draw.below(3) {
                0 => writer.size(),
                _ => self.draw.below(6 * self.terms.part),
            };
            let bytes = self.bytes(3 * self.terms.part);
            let _ = writer.write_at(at, bytes).await;
            match self.draw.below(8) {
                0 => {
                    let size = self.draw.below(6 * self.terms.part);
                    let _ = writer.truncate(size).await;
                }
                1 => {
                    let version = u32::try_from(self.version).expect("few");
                    set_owner(&writer, version).await;
                }
                // Parts are on their way.
                2 | 3 => settle().await,
                _ => {}
            }
        }
        self.commit(key, writer).await;
    }

    async fn commit(&mut self, key: &'static str, writer: Writer) {
        let committed = writer.publish().await;
        if committed.is_ok() {
            self.acknowledged(key).await;
        }
        drop(writer);
        // Failed uploads are tried again in the background.
        self.desk.writers.settled().await;
        self.observe();
    }

    async fn receive(&mut self, key: &'static str) {
        let bytes = self.bytes(6 * self.terms.part);
        let pieces: Vec<_> = bytes.chunks(3000).map(Bytes::copy_from_slice).collect();
        let body = stream::iter(pieces.into_iter().map(Ok::<_, ClientDisconnect>));
        let incoming = IncomingObject {
            headers: Vec::new(),
            wanted: WriteCondition::Anything,
            length: Some(bytes.len() as u64),
            digests: Digests::default(),
        };
        let (world, key_of) = (&self.desk.world, valid(key));
        let received = self
            .desk
            .writers
            .write_path()
            .receive(&world.source, &key_of, incoming, body)
            .await;
        if received.is_ok() {
            self.acknowledged(key).await;
        }
    }

    async fn rename(&mut self, from: &'static str, to: &'static str) {
        let source = self.desk.world.source.clone();
        let (old, new) = (valid(from), valid(to));
        let renamed = self.desk.writers.rename(&source, &old, &new).await;
        if renamed.is_ok() && from != to {
            self.acknowledged(from).await;
            self.acknowledged(to).await;
        }
    }

    async fn read(&mut self, key: &'static str) {
        self.observe();
        let range = match self.draw.below(3) {
            0 => None,
            _ => {
                let first = self.draw.below(4 * self.terms.part);
                let last = first + self.draw.below(3 * self.terms.part);
                Some(RangeSpec::Bounded { first, last })
            }
        };
        let now = Instant::now();
        let past = &self.pasts[key];
        let since = past.ours.max(now.checked_sub(TTL));
        let may_be: Vec<_> = past
            .was
            .iter()
            .filter(|(_, until)| until.is_none_or(|until| Some(until) >= since))
            .map(|(bytes, _)| bytes.clone())
            .collect();
        for _ in 0..3 {
            let world = &self.desk.world;
            let found = match world.get(key).await {
                Ok(object) => {
                    let size = object.version().size;
                    let range = range.map_or(Some(ByteRange::new(0, size)), |it| it.resolve(size));
                    match range {
                        Some(range) => {
                            let read = engine::collect(object.read_at(range)).await;
                            read.map(|bytes| Some((size, range, bytes)))
                        }
                        None => return,
                    }
                }
                Err(Error::NotFound) => Ok(None),
                Err(error) => Err(error),
            };
            match found {
                // A version that was replaced elsewhere and is not completely cached.
                Err(Error::Changed) => continue,
                // The breaker has not closed yet.
                Err(_) if self.faults => {}
                Err(error) => panic!("{key}: {error}"),
                Ok(None) => assert!(may_be.contains(&None), "{key} is there"),
                Ok(Some((size, range, bytes))) => {
                    let is_it = |was: &Bytes| {
                        was.len() as u64 == size && engine::slice(was, range) == bytes
                    };
                    let right = may_be.iter().flatten().any(is_it);
                    assert!(right, "{key}: {range:?} of {size} bytes is of no version");
                }
            }
            return;
        }
    }

    async fn step(mut self) -> Self {
        let key = self.key();
        match self.draw.below(24) {
            0..3 => self.write(key, OpenMode::Create).await,
            3..7 => self.write(key, OpenMode::Change).await,
            7 | 8 => self.receive(key).await,
            9 | 10 => {
                let to = self.key();
                self.rename(key, to).await;
            }
            11 => {
                let (source, id) = (self.desk.world.source.clone(), valid(key));
                if self.desk.writers.remove(&source, &id).await.is_ok() {
                    self.acknowledged(key).await;
                }
            }
            12 => {
                let bytes = self.bytes(6 * self.terms.part);
                self.desk.bucket().put(key, bytes);
            }
            13 => self.desk.world.purge(key).await,
            14 => self.desk.world.store.evict_memory(),
            15 => self.desk.world.store.lose_every(2),
            16 => pass(secs(self.draw.below(15))).await,
            17 => {
                self.desk.bucket().set_faults([]);
                let terms = terms(self.terms.part);
                self.desk = self.desk.switched_off([], &terms).await;
                self.desk.writers.settled().await;
            }
            18 | 19 if self.faults => self.fault(),
            _ => {}
        }
        self.observe();
        // The remaining faults are not for readers.
        self.desk.bucket().forgive();
        for key in KEYS {
            self.read(key).await;
        }
        self
    }
}

async fn run(seed: u64, faults: bool) {
    let mut model = Model::new(seed, faults);
    for _ in 0..60 {
        model = model.step().await;
    }
    pass(secs(100)).await;
    for key in KEYS {
        model.pasts.get_mut(key).expect("one of them").ours = Some(Instant::now());
        model.read(key).await;
    }
    pass(secs(700)).await;
    assert_eq!(model.desk.world.used(), 0, "budget is left");
}

#[tokio::test(start_paused = true)]
async fn what_is_read_is_what_the_bucket_has() {
    for seed in 0..40 {
        println!("seed {seed}");
        run(seed, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_an_origin_that_fails() {
    for seed in 100..140 {
        println!("seed {seed}");
        run(seed, true).await;
    }
}
