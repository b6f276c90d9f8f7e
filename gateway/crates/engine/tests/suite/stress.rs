//! Many readers on many threads in real time, of objects that change, with drops, purges, seeks
//! and evictions at random moments: no wrong byte, and no hang.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tidegate_cache::fake::Faults;
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::{ByteRange, ETag, RangeSpec};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::*;

const KEYS: u64 = 6;
const TASKS: u64 = 200;

/// Returns the duration of the churn, 5 s by default: enough for about ten thousand opens. A longer
/// one helps to find a rare race.
fn lasts() -> Duration {
    let said = std::env::var("TIDEGATE_STRESS_SECS").ok();
    Duration::from_secs(said.and_then(|n| n.parse().ok()).unwrap_or(5))
}

/// Every version that a key ever had, by its ETag.
type History = Arc<Mutex<std::collections::HashMap<String, Bytes>>>;

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound.max(1)
    }
}

fn write(world: &World, history: &History, draw: &mut Draw, number: u64) {
    let size = match draw.below(4) {
        0 => draw.below(10),
        1 => 4096 * draw.below(20),
        2 => draw.below(100_000),
        _ => MIB + draw.below(MIB),
    };
    let bytes = sample(number, size);
    let tag = ETag::of_bytes([&bytes[..]]).as_str().to_owned();
    history.lock().expect("no panic").insert(tag, bytes.clone());
    world.bucket.put(&format!("k{}", draw.below(KEYS)), bytes);
}

/// Reads a random range, and may stop at a random byte. Returns whether the read ended whole.
async fn read(world: &World, history: &History, draw: &mut Draw) -> Result<bool, Error> {
    let key = format!("k{}", draw.below(KEYS));
    let spec = match draw.below(4) {
        0 => RangeSpec::From(0),
        1 => RangeSpec::Suffix(1 + draw.below(200_000)),
        2 => RangeSpec::From(draw.below(100_000)),
        _ => {
            let first = draw.below(2 * MIB);
            RangeSpec::Bounded {
                first,
                last: first + draw.below(300_000),
            }
        }
    };
    let how = OpenOptions {
        revalidate: draw.below(20) == 0,
        ..first(spec)
    };
    let opening = world.open(&key, how);
    let object = match draw.below(20) {
        0 => match timeout(Duration::from_micros(draw.below(2000)), opening).await {
            Ok(object) => object?,
            Err(_) => return Ok(false),
        },
        _ => opening.await?,
    };
    let version = object.version();
    let known = history
        .lock()
        .expect("no panic")
        .get(version.etag.as_str())
        .cloned();
    let known = known.expect("a version that was written");
    assert_eq!(known.len() as u64, version.size);
    let Some(range) = spec.resolve(version.size) else {
        return Ok(true);
    };
    let mut reader = object.read_at(range);
    drop(object);
    let leaves = (draw.below(3) == 0).then(|| draw.below(range.len()));
    let mut at = range.start;
    while let Some(piece) = reader.next().await {
        let piece = piece?;
        let due = ByteRange::new(at, at + piece.len() as u64);
        assert!(
            due.end <= range.end && piece == slice(&known, due),
            "wrong bytes in {key} {due:?}"
        );
        at = due.end;
        if leaves.is_some_and(|most| at - range.start > most) {
            return Ok(false);
        }
        if draw.below(30) == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(at, range.end, "whole");
    Ok(true)
}

async fn disturb(world: World, history: History, stop: Arc<AtomicBool>) {
    let (mut draw, mut number) = (Draw(4711), 100);
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        match draw.below(12) {
            0..=3 => write(&world, &history, &mut draw, number),
            4 => world.store.evict_memory(),
            5 => world.store.forget_everything(),
            6 => world.purge(&format!("k{}", draw.below(KEYS))).await,
            7 => world.purge_prefix("k").await,
            8 => world.store.set(Faults {
                lose: draw.below(2) == 0,
                refuse_memory: draw.below(4) == 0,
                delay: Duration::from_micros(draw.below(500)),
                ..Faults::default()
            }),
            9 => world
                .bucket
                .set_faults([Fault::Latency(Duration::from_micros(draw.below(3000)))]),
            10 => world.bucket.fail_next([Fault::Reset(draw.below(100_000))]),
            _ => world.bucket.set_faults([Fault::Rate(200 * MIB)]),
        }
        pass(Duration::from_millis(draw.below(8))).await;
    }
    world.bucket.set_faults([]);
    world.store.set(Faults::default());
}

async fn churn(budget: u64) {
    let mut setup = Setup {
        chunk: 4096 * 4,
        budget,
        bucket: FakeOrigin::new().with_frames(5000),
        ..Setup::default()
    };
    setup.profile.ttl = Duration::from_millis(20);
    setup.profile.stale_while_revalidate = Duration::from_millis(20);
    setup.profile.negative_ttl = Duration::from_millis(5);
    setup.profile.read_ahead = MIB;
    let world = setup.build();
    let history = History::default();
    for number in 0..40 {
        write(&world, &history, &mut Draw(number), number);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let disturbing = tokio::spawn(disturb(world.clone(), history.clone(), stop.clone()));
    let whole = Arc::new(AtomicU64::new(0));
    let readers: Vec<_> = (0..TASKS)
        .map(|task| {
            let (world, history) = (world.clone(), history.clone());
            let (stop, whole) = (stop.clone(), whole.clone());
            tokio::spawn(async move {
                let mut draw = Draw(task);
                while !stop.load(Ordering::Relaxed) {
                    let reading = timeout(secs(120), read(&world, &history, &mut draw));
                    match reading.await.expect("no hang") {
                        Ok(true) => drop(whole.fetch_add(1, Ordering::Relaxed)),
                        Ok(false) | Err(Error::Changed | Error::NotFound) => {}
                        Err(Error::Overloaded { .. } | Error::Unavailable) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        })
        .collect();
    pass(lasts()).await;
    // A slow machine takes longer for as much.
    while whole.load(Ordering::Relaxed) <= 100 && !readers.iter().all(JoinHandle::is_finished) {
        pass(Duration::from_millis(20)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for task in readers {
        timeout(secs(150), task)
            .await
            .expect("no hang")
            .expect("no panic");
    }
    disturbing.await.expect("no panic");
    assert!(whole.load(Ordering::Relaxed) > 100, "{whole:?} ended whole");
    world.engine.close(secs(30)).await;
    assert_eq!((world.bucket.running(), world.used()), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_of_changing_objects_see_no_wrong_byte() {
    churn(64 * MIB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nor_with_little_memory() {
    churn(MIB).await;
}

/// A reader has the last bytes of a chunk before its fetch has stored it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_warmed_counts_as_kept_once_its_fetch_has_ended() {
    let world = Setup {
        chunk: MIB,
        ..Setup::default()
    };
    let world = world.build();
    let warmer = tidegate_engine::warm::Warmer::new(world.engine.clone(), None);
    for nth in 0..40 {
        let key = format!("{nth}");
        world.bucket.put(&key, sample(nth, 3 * MIB));
        let warmed = warmer.warm(&world.source, &valid(&key), &|_| {}).await;
        assert_eq!(warmed.expect("warmed").left_out, 0, "{key}");
    }
}
