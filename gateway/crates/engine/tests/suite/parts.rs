//! The requests of a reader in sequence: few, though no byte is fetched twice and no paced reader waits.

use std::time::Duration;

use bytes::Bytes;
use tidegate_engine::{Object, OpenOptions};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::{ByteRange, Client, RangeSpec};
use tokio::time::Instant;

use crate::support::*;

/// The bytes of a kernel's read.
const STEP: u64 = 128 * KIB;
/// The bytes a second of a player at 128 kbit/s, and at 2 Mbit/s.
const SPEECH: u64 = 16_000;
const MUSIC: u64 = 250_000;
/// The bytes a second of one connection far away, and of a fast one.
const FAR: u64 = 20_000_000;
const FAST: u64 = 200_000_000;

/// A mount of the recipe for audiobooks on one object of this size, with the version known from a listing.
struct Library {
    world: World,
    bytes: Bytes,
    object: Object,
}

async fn library(size: u64, rate: u64) -> Library {
    library_of(size, rate, 256 * MIB).await
}

async fn library_of(size: u64, rate: u64, budget: u64) -> Library {
    let (world, bytes) = far(size, rate, |setup| {
        setup.profile.read_ahead = 64 * MIB;
        setup.profile.streams = 4;
        setup.budget = budget;
    });
    let object = world
        .open(KEY, OpenOptions::default())
        .await
        .expect("opened");
    Library {
        world,
        bytes,
        object,
    }
}

impl Library {
    /// Reads as a kernel does for a program: each read is a reader of its own. Returns the longest wait after the first
    /// two chunks.
    async fn read(&self, range: ByteRange, rate: Option<u64>) -> Duration {
        let (mut at, mut longest) = (range.start, Duration::ZERO);
        let began = Instant::now();
        while at < range.end {
            let step = ByteRange::new(at, range.end.min(at + STEP));
            let asked = Instant::now();
            let got = collect(self.object.read_at(step)).await.expect("read");
            if at >= range.start + 2 * CHUNK {
                longest = longest.max(asked.elapsed());
            }
            same(&got, &slice(&self.bytes, step));
            at = step.end;
            if let Some(rate) = rate {
                let due = (at - range.start) as f64 / rate as f64;
                pass(Duration::from_secs_f64(due).saturating_sub(began.elapsed())).await;
            }
        }
        longest
    }

    /// Reads a header as a scan does, long before.
    async fn scan(&self) {
        self.read(ByteRange::new(0, 64 * KIB), None).await;
        pass(secs(30)).await;
    }

    async fn read_all(&self, rate: Option<u64>) -> Duration {
        self.read(all(&self.object), rate).await
    }

    /// Checks the requests so far, and that they brought every byte once.
    async fn costs(&self, most: u64) {
        pass(secs(30)).await;
        let (gets, size) = (self.world.bucket.gets(), self.bytes.len() as u64);
        assert!(gets <= most, "{gets} requests for {size} bytes");
        assert_eq!(self.world.bucket.bytes(), size, "every byte once");
        assert_eq!((self.world.bucket.running(), self.world.used()), (0, 0));
    }
}

/// After a scan: a first chunk, and as many parts of the rest as take 50 ms, or one for each stream.
#[tokio::test(start_paused = true)]
async fn a_scanned_track_read_at_once_costs_a_request_for_its_rest_or_one_a_stream() {
    for (rate, most, longest) in [(FAR, 5, 0.3), (FAST, 3, 0.2)] {
        let library = library(8 * MIB, rate).await;
        library.scan().await;
        let began = Instant::now();
        library.read_all(None).await;
        let took = began.elapsed().as_secs_f64();
        assert!(took < longest, "{took} s");
        library.costs(most).await;
    }
}

/// Without a scan, it may be one.
#[tokio::test(start_paused = true)]
async fn a_track_read_at_once_earns_its_rest() {
    for (rate, most) in [(FAR, 14), (FAST, 11)] {
        let library = library(8 * MIB, rate).await;
        library.read_all(None).await;
        library.costs(most).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_scanned_track_at_the_pace_of_a_player_costs_few_requests_and_no_wait() {
    for pace in [SPEECH, MUSIC] {
        for (rate, most) in [(FAR, 5), (FAST, 3)] {
            let library = library(8 * MIB, rate).await;
            library.scan().await;
            let longest = library.read_all(Some(pace)).await;
            assert_eq!(longest, Duration::ZERO, "{pace} of {rate}");
            library.costs(most).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_book_at_the_pace_of_a_player_costs_a_request_for_each_four_mebibytes() {
    for pace in [SPEECH, MUSIC] {
        let library = library(100 * MIB, FAR).await;
        let longest = library.read_all(Some(pace)).await;
        assert_eq!(longest, Duration::ZERO, "{pace}");
        library.costs(32).await;
    }
}

/// A part that was fetched ahead fails before its reader comes: it is fetched again in parts, and not chunk by chunk.
#[tokio::test(start_paused = true)]
async fn a_part_that_has_failed_is_fetched_again_in_parts() {
    let library = library(40 * MIB, FAR).await;
    let bucket = &library.world.bucket;
    let mut at = 20 * MIB;
    library.read(ByteRange::new(0, at), Some(MUSIC)).await;
    bucket.set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    let gets = bucket.gets();
    while bucket.gets() == gets {
        let step = ByteRange::new(at, at + STEP);
        library.read(step, Some(MUSIC)).await;
        at = step.end;
    }
    pass(secs(2)).await;
    assert_eq!(bucket.running(), 0, "it has failed");
    bucket.set_faults([Fault::Rate(FAR)]);
    let (gets, bytes) = (bucket.gets(), bucket.bytes());
    library
        .read(ByteRange::new(at, 40 * MIB), Some(MUSIC))
        .await;
    let more = bucket.gets() - gets;
    assert!(
        more <= 8,
        "{more} requests for {} bytes",
        bucket.bytes() - bytes
    );
    assert!(bucket.bytes() <= 40 * MIB, "{} bytes", bucket.bytes());
}

/// A program that goes back has not proved that it reads on from there.
#[tokio::test(start_paused = true)]
async fn a_seek_back_over_what_no_tier_has_costs_a_chunk() {
    let library = library(40 * MIB, FAR).await;
    library.read(ByteRange::new(0, 32 * MIB), None).await;
    pass(secs(30)).await;
    library.world.store.forget_everything();
    let bucket = &library.world.bucket;
    let before = (bucket.gets(), bucket.bytes());
    let back = ByteRange::new(8 * MIB, 8 * MIB + STEP);
    library.read(back, None).await;
    pass(secs(30)).await;
    assert_eq!(
        (bucket.gets() - before.0, bucket.bytes() - before.1),
        (1, CHUNK)
    );
}

/// After a scan, the head of each track is cached, and nothing more.
#[tokio::test(start_paused = true)]
async fn a_scan_of_a_track_costs_one_request_and_so_does_what_it_left() {
    let library = library(4 * MIB, FAST).await;
    library.scan().await;
    let bucket = &library.world.bucket;
    assert_eq!((bucket.gets(), bucket.bytes()), (1, CHUNK));
    library.read_all(None).await;
    library.costs(2).await;
}

/// The kernel keeps the pages that the scan has read: a program that opens the track anew asks the mount for the next ones.
#[tokio::test(start_paused = true)]
async fn a_scanned_track_whose_head_the_kernel_has_costs_one_request_more() {
    for (start, pause) in [
        (128 * KIB, 30),
        (256 * KIB, 30),
        (128 * KIB, 1),
        (256 * KIB, 1),
    ] {
        let mut library = library(4 * MIB, FAST).await;
        library.read(ByteRange::new(0, 128 * KIB), None).await;
        pass(secs(pause)).await;
        library.object = library
            .world
            .open(KEY, OpenOptions::default())
            .await
            .expect("opened");
        library.read(ByteRange::new(start, 4 * MIB), None).await;
        library.costs(2).await;
    }
}

/// Many listeners share the budget: each has little beyond its window then, and none has nothing.
#[tokio::test(start_paused = true)]
async fn long_parts_leave_half_of_the_budget_to_windows() {
    let library = library_of(24 * MIB, FAR, 8 * MIB).await;
    let (world, mut most) = (&library.world, 0);
    let listen = library.read_all(Some(MUSIC));
    tokio::pin!(listen);
    loop {
        tokio::select! {
            longest = &mut listen => {
                assert_eq!(longest, Duration::ZERO);
                break;
            }
            () = pass(secs(1)) => most = most.max(world.used()),
        }
    }
    assert!(most <= 4 * MIB, "{most} held");
    library.costs(55).await;
}

/// A program that reads the first 700 KB, for the picture among a track's tags, and closes it.
#[tokio::test(start_paused = true)]
async fn a_reader_of_a_tracks_tags_costs_at_most_three_times_what_it_reads() {
    for size in [4 * MIB, 64 * MIB] {
        let library = library(size, FAST).await;
        library.read(ByteRange::new(0, 700 * KIB), None).await;
        pass(secs(30)).await;
        let cost = library.world.bucket.bytes();
        assert!(cost <= 3 * 768 * KIB, "{cost} of {size} fetched");
    }
}

/// A picture that a program opens through a mount, and reads as the kernel does: each read leaves before the next comes.
#[tokio::test(start_paused = true)]
async fn a_small_object_is_finished_between_two_reads_of_a_mount() {
    let world = World::plain();
    let bytes = sample(1, 810_000);
    world.bucket.put(KEY, bytes.clone());
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_millis(20)), Fault::Rate(FAR)]);
    let how = OpenOptions {
        client: Client::Own,
        ..first(RangeSpec::From(0))
    };
    let object = world.open(KEY, how).await.expect("opened");
    for start in (0..bytes.len() as u64).step_by(128 << 10) {
        let step = ByteRange::new(start, (start + STEP).min(810_000));
        let got = collect(object.read_at(step)).await.expect("read");
        same(&got, &slice(&bytes, step));
        pass(Duration::from_millis(5)).await;
    }
    assert_eq!((world.asked(), world.bucket.bytes()), ((1, 0), 810_000));
}
