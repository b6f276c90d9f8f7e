//! The cost of a cold read at the origin: one request, if one is enough.

use futures_util::future::join_all;
use tidegate_cache::Tier;
use tidegate_engine::{Coverage, Error, ForwardReason, OpenOptions};
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::{ByteRange, Profile, RangeSpec};
use tokio::task::JoinSet;

use crate::support::*;

mod ranges;

#[tokio::test(start_paused = true)]
async fn a_cold_get_is_one_request_whatever_the_size_up_to_a_first_part() {
    for size in [1, 35 * KIB, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, MIB] {
        let world = World::plain();
        let bytes = sample(1, size);
        world.bucket.put(KEY, bytes.clone());
        same(&world.read(KEY).await.expect("read"), &bytes);
        assert_eq!(world.asked(), (1, 0), "size {size}");
        assert_eq!(world.bucket.bytes(), size);
        // From then on it costs nothing.
        same(&world.read(KEY).await.expect("read"), &bytes);
        assert_eq!(world.asked(), (1, 0), "size {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_byte_more_than_the_first_part_is_one_request_more() {
    let world = World::plain();
    let bytes = sample(1, MIB + 1);
    world.bucket.put(KEY, bytes.clone());
    same(&world.read(KEY).await.expect("read"), &bytes);
    assert_eq!(world.asked(), (2, 0));
    assert_eq!(world.bucket.bytes(), MIB + 1);
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_cold_object_share_one_request() {
    for size in [35 * KIB, CHUNK, CHUNK + 1, MIB] {
        let world = World::plain();
        let bytes = sample(1, size);
        world.bucket.put(KEY, bytes.clone());
        world
            .bucket
            .set_faults([Fault::Latency(secs(1)), Fault::Rate(100 * KIB)]);
        let all = join_all((0..200).map(|_| world.read(KEY))).await;
        for got in all {
            same(&got.expect("read"), &bytes);
        }
        assert_eq!(world.asked(), (1, 0), "size {size}");
    }
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_cold_large_object_share_its_bytes() {
    let world = World::plain();
    let bytes = sample(1, 24 * MIB);
    world.bucket.put(KEY, bytes.clone());
    world
        .bucket
        .set_faults([Fault::Latency(secs(1)), Fault::Rate(MIB)]);
    let all = join_all((0..50).map(|_| world.read(KEY))).await;
    for got in all {
        same(&got.expect("read"), &bytes);
    }
    assert_eq!(world.bucket.bytes(), 24 * MIB, "every byte once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_on_many_threads_share_one_request() {
    for round in 0..50 {
        let world = World::plain();
        let bytes = sample(round, 2 * CHUNK + 9);
        world.bucket.put(KEY, bytes.clone());
        let mut readers = JoinSet::new();
        for _ in 0..16 {
            let world = world.clone();
            readers.spawn(async move { world.read(KEY).await });
        }
        for got in readers.join_all().await {
            same(&got.expect("read"), &bytes);
        }
        assert_eq!(world.asked(), (1, 0), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_asks_for_the_version_alone() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, MIB));
    let object = world.open(KEY, OpenOptions::default()).await.expect("open");
    assert_eq!(
        (object.version().size, world.asked(), world.bucket.bytes()),
        (MIB, (0, 1), 0)
    );
    // A HEAD after a GET sends no request.
    world.bucket.put("other", sample(2, 10));
    world.read("other").await.expect("read");
    world
        .open("other", OpenOptions::default())
        .await
        .expect("open");
    assert_eq!(world.asked(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_empty_object_costs_at_most_two_requests_and_then_none() {
    for spec in [
        RangeSpec::From(0),
        RangeSpec::Suffix(5),
        RangeSpec::Bounded { first: 0, last: 9 },
    ] {
        let world = World::plain();
        world.bucket.put(KEY, "");
        let object = world.open(KEY, first(spec)).await.expect("open");
        assert_eq!(object.version().size, 0);
        assert!(whole(&object).await.expect("nothing to read").is_empty());
        assert_eq!(object.locate(all(&object)), Coverage::All(Tier::Memory));
        assert_eq!(world.asked(), (1, 1));
        world.open(KEY, first(spec)).await.expect("open");
        assert_eq!(world.asked(), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn odd_keys_are_keys() {
    let long = "k".repeat(1024);
    for key in [
        "a b/c+d%e",
        "//double//slash//",
        "ünï/çödé/日本語",
        "?query#fragment",
        &long,
    ] {
        let world = World::plain();
        let bytes = sample(1, 100);
        world.bucket.put(key, bytes.clone());
        same(&world.read(key).await.expect("read"), &bytes);
        assert_eq!(world.asked(), (1, 0), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_outcome_says_how_it_was_found() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 100));
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    let (one, two) = tokio::join!(world.get(KEY), world.get(KEY));
    let (one, two) = (one.expect("open").outcome(), two.expect("open").outcome());
    assert_eq!(one.forward, Some(ForwardReason::Miss));
    assert_eq!(two.forward, Some(ForwardReason::Miss));
    assert!(
        one.collapsed != two.collapsed,
        "one asked, the other waited"
    );
    pass(secs(2)).await;
    let hit = world.get(KEY).await.expect("open");
    assert_eq!((hit.outcome().forward, hit.outcome().stored), (None, true));
    // Asked at 0 s, answered at 1 s, read at 3 s: the age counts from the time of the request.
    assert_eq!((hit.outcome().age, hit.outcome().ttl_ms), (secs(3), 57_000));
    assert_eq!(hit.locate(all(&hit)), Coverage::All(Tier::Memory));
}

#[tokio::test(start_paused = true)]
async fn a_part_of_one_chunk_in_memory_needs_no_reader() {
    let world = World::plain();
    let bytes = sample(1, 3 * CHUNK - 7);
    world.bucket.put(KEY, bytes.clone());
    let object = world.get(KEY).await.expect("open");
    let held = |start, end| object.held(ByteRange::new(start, end)).map(|it| it.bytes);
    same(&whole(&object).await.expect("read"), &bytes);
    settle().await;
    let asked = world.asked();
    for (start, end) in [
        (0, 1),
        (0, CHUNK),
        (CHUNK, CHUNK + 9),
        (2 * CHUNK, 3 * CHUNK - 7),
    ] {
        let got = held(start, end).expect("memory has it");
        same(&got, &slice(&bytes, ByteRange::new(start, end)));
    }
    for (start, end) in [(0, CHUNK + 1), (CHUNK - 1, CHUNK + 1), (5, 5)] {
        assert_eq!(held(start, end), None, "{start}..{end}");
    }
    world.store.evict_memory();
    assert_eq!(held(0, 1), None);
    assert_eq!(world.asked(), asked);
    // A larger one is read ahead: its cursor sees each read.
    world.bucket.put("large", sample(2, 2 * MIB));
    let large = world.get("large").await.expect("open");
    whole(&large).await.expect("read");
    settle().await;
    assert!(large.held(ByteRange::new(0, 1)).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_origin_may_ignore_ranges() {
    let world = World::plain();
    let bytes = sample(1, 2 * MIB);
    world.bucket.put(KEY, bytes.clone());
    world.bucket.fail_next([Fault::IgnoreRange]);
    let got = world
        .range(
            KEY,
            RangeSpec::Bounded {
                first: 10,
                last: 19,
            },
        )
        .await;
    same(
        &got.expect("the first bytes of what was sent"),
        &bytes.slice(10..20),
    );
    assert!(world.bucket.bytes() <= CHUNK + 64 * KIB, "the rest is left");
}

#[tokio::test(start_paused = true)]
async fn a_missing_object_is_missing() {
    let world = Setup::bucket(FakeOrigin::new()).build();
    assert_eq!(world.read(KEY).await, Err(Error::NotFound));
    assert_eq!(world.asked(), (1, 0));
}

/// Programs that open many files before they read one do not hold all the memory.
#[tokio::test(start_paused = true)]
async fn what_is_opened_and_not_read_holds_no_memory_for_long() {
    let setup = Setup {
        profile: Profile::backup(),
        budget: 16 * MIB,
        ..Setup::default()
    };
    let world = setup.build();
    let mut objects = Vec::new();
    for n in 0..40 {
        let key = format!("{n}");
        world.bucket.put(&key, sample(n, MIB));
        let all = RangeSpec::From(0);
        let object = world.open(&key, first(all)).await.expect("open");
        object.release_after(secs(5));
        objects.push(object);
    }
    for (n, object) in objects.iter().enumerate() {
        same(&whole(object).await.expect("read"), &sample(n as u64, MIB));
    }
}

/// A HEAD's 404 does not name a missing bucket. It answers a mount that lists as well, and no client that asks meanwhile.
#[tokio::test(start_paused = true)]
async fn a_bare_404_answers_no_client_that_asks_meanwhile() {
    for (missing, wanted) in [
        (OriginError::NotFound, Error::NotFound),
        (
            OriginError::NoSuchBucket,
            Error::BadOrigin("no such bucket"),
        ),
    ] {
        let world = World::plain();
        world.bucket.fail_next([Fault::Latency(secs(1))]);
        world.bucket.fail_next([Fault::Refuse(missing)]);
        let bare = OpenOptions {
            bare: true,
            ..OpenOptions::default()
        };
        let later = async {
            settle().await;
            world.get(KEY).await
        };
        let (bare, later) = tokio::join!(world.open(KEY, bare), later);
        assert_eq!(bare.map(drop), Err(Error::NotFound));
        assert_eq!(later.map(drop), Err(wanted));
        assert_eq!(world.asked(), (1, 1));
    }
}
