//! Short memory, few requests, and stores that lose or take nothing: no byte changes.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use tidegate_cache::fake::Faults;
use tidegate_engine::warm::Warmer;
use tidegate_engine::{Error, Object, OpenOptions};
use tidegate_origin::fake::Fault;
use tidegate_plan::RangeSpec;

use super::{GRACE, HELD};
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_disk_serves_what_memory_lost() {
    let world = World::plain();
    let bytes = sample(1, 3 * MIB);
    world.bucket.put(KEY, bytes.clone());
    // Far enough away for the disk to be faster.
    let far = [
        Fault::Latency(Duration::from_millis(20)),
        Fault::Rate(20 * MIB),
    ];
    world.bucket.set_faults(far);
    world.read(KEY).await.expect("read");
    let gets = world.bucket.gets();
    for delay in [0, 10] {
        // Chunks that a cursor still holds would be served without the disk.
        pass(HELD).await;
        world.store.evict_memory();
        world.store.set(Faults {
            delay: Duration::from_millis(delay),
            claims: Some((Duration::from_millis(delay), 1 << 30)),
            ..Faults::default()
        });
        let all = join_all((0..5).map(|_| world.read(KEY))).await;
        for got in all {
            same(&got.expect("read"), &bytes);
        }
    }
    assert_eq!(world.bucket.gets(), gets);
    assert_eq!(
        world.store.counts().disk_reads,
        24,
        "every chunk once a time"
    );
    pass(GRACE).await;
    assert_eq!(world.used(), 0);
}

/// A world with four requests, and three objects that have the slots which read-ahead may take, for two minutes.
async fn without_slots_of_read_ahead(max_queue: usize) -> (World, Vec<Object>) {
    let mut setup = Setup::default();
    setup.origin.max_requests = 4;
    setup.origin.max_queue = max_queue;
    // A second request would hide the wait.
    setup.assists.hedge = false;
    let world = setup.build();
    let mut open = Vec::new();
    for key in ["one", "two", "three"] {
        world.bucket.put(key, sample(2, MIB));
        world.bucket.fail_next([Fault::Rate(8 * KIB)]);
        let quiet = OpenOptions {
            quiet: true,
            ..first(RangeSpec::From(0))
        };
        open.push(world.open(key, quiet).await.expect("open"));
    }
    (world, open)
}

/// A reader that comes to read-ahead for which no request is free has one sent, as a reader of its own would. So has one
/// whose read-ahead breaks in the middle.
#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_no_slot_of_read_ahead() {
    for breaks in [false, true] {
        let (world, _open) = without_slots_of_read_ahead(100).await;
        let bytes = sample(1, 12 * MIB);
        world.bucket.put(KEY, bytes.clone());
        let rate = Fault::Rate(4 * MIB);
        world.bucket.set_faults([rate.clone()]);
        if breaks {
            world.bucket.fail_next([rate.clone()]);
            world.bucket.fail_next([rate, Fault::Reset(512 * KIB)]);
        }
        let begun = tokio::time::Instant::now();
        same(&world.read(KEY).await.expect("read"), &bytes);
        let took = begun.elapsed();
        assert!(
            took < secs(4),
            "3 s and no wait of 10 s for a slot: {took:?}"
        );
        assert_eq!(world.bucket.running(), 3, "they still have them");
    }
}

/// A reader of the warmer is none that a client waits for.
#[tokio::test(start_paused = true)]
async fn warming_takes_the_slots_of_read_ahead_alone() {
    let mut setup = Setup::default();
    setup.origin.max_requests = 4;
    setup.assists.hedge = false;
    let world = setup.build();
    world.bucket.put(KEY, sample(1, 40 * MIB));
    // The request of the open, which counts as a reader's, is over at once.
    world.bucket.fail_next(Vec::new());
    world.bucket.set_faults([Fault::Rate(4 * MIB)]);
    let (warmer, key) = (Warmer::new(world.engine.clone(), None), valid(KEY));
    let mut warm = std::pin::pin!(warmer.warm(&world.source, &key, &|_| ()));
    let mut most = 0;
    let warmed = loop {
        tokio::select! {
            warmed = &mut warm => break warmed.expect("warmed"),
            () = pass(Duration::from_millis(50)) => most = most.max(world.bucket.running()),
        }
    };
    assert_eq!((warmed.fetched, warmed.left_out), (40 * MIB, 0));
    assert_eq!(most, 3, "the fourth is a reader's");
}

/// A client's reader that comes to a chunk which is being warmed has a request sent if the warmer's finds no room.
#[tokio::test(start_paused = true)]
async fn a_reader_of_what_is_warmed_waits_for_no_slot_of_read_ahead() {
    let (world, _open) = without_slots_of_read_ahead(0).await;
    let bytes = sample(1, 6 * MIB);
    world.bucket.put(KEY, bytes.clone());
    let warm = tokio::spawn({
        let world = world.clone();
        let warmer = Warmer::new(world.engine.clone(), None);
        async move { warmer.warm(&world.source, &valid(KEY), &|_| ()).await }
    });
    settle().await;
    assert_eq!(world.bucket.running(), 3, "warming has begun, and waits");
    same(&world.read(KEY).await.expect("read"), &bytes);
    warm.abort();
}

#[tokio::test(start_paused = true)]
async fn what_the_disk_loses_the_origin_brings() {
    for (read_ahead, delay) in [(0, 0), (0, 50), (8 * MIB, 0), (8 * MIB, 50)] {
        let world = Setup::profile(|p| p.read_ahead = read_ahead).build();
        let bytes = sample(1, 3 * MIB);
        world.bucket.put(KEY, bytes.clone());
        world.read(KEY).await.expect("read");
        world.store.evict_memory();
        world.store.set(Faults {
            lose: true,
            delay: Duration::from_millis(delay),
            ..Faults::default()
        });
        let read = tokio::time::timeout(secs(60), world.read(KEY)).await;
        same(&read.expect("in bounded time").expect("read"), &bytes);
        pass(GRACE).await;
        assert_eq!(world.used(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn stores_that_take_nothing_change_no_byte() {
    for (refuse_memory, refuse_disk) in [(true, false), (true, true), (false, true)] {
        let world = World::plain();
        let bytes = sample(1, 5 * MIB);
        world.bucket.put(KEY, bytes.clone());
        world.store.set(Faults {
            refuse_memory,
            refuse_disk,
            ..Faults::default()
        });
        for _ in 0..2 {
            same(&world.read(KEY).await.expect("read"), &bytes);
        }
        pass(GRACE).await;
        assert_eq!((world.used(), world.bucket.running()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tiny_budget_slows_and_breaks_nothing() {
    for (budget, readers) in [
        (CHUNK, 1),
        (CHUNK, 4),
        (CHUNK + 100 * KIB, 4),
        (MIB, 8),
        (64 * KIB, 2),
    ] {
        let world = Setup {
            budget,
            ..Setup::default()
        }
        .build();
        let objects: Vec<_> = (0..readers).map(|n| sample(n, 5 * MIB + n)).collect();
        for (n, bytes) in objects.iter().enumerate() {
            world.bucket.put(&format!("k{n}"), bytes.clone());
        }
        world.bucket.set_faults([Fault::Rate(64 * MIB)]);
        let world = &world;
        let reads = (0..objects.len()).map(|n| async move { world.read(&format!("k{n}")).await });
        let all = tokio::time::timeout(secs(120), join_all(reads)).await;
        for (got, bytes) in all.expect("no hang").into_iter().zip(&objects) {
            same(&got.expect("read"), bytes);
        }
        pass(GRACE).await;
        assert_eq!(
            (world.used(), world.bucket.running()),
            (0, 0),
            "budget {budget}"
        );
    }
}

/// A reader waits for memory first and for a request second. In the other order, readers that hold one and wait for the
/// other would block each other.
#[tokio::test(start_paused = true)]
async fn slow_readers_short_of_memory_and_of_requests_keep_going() {
    let mut setup = Setup {
        budget: 8 * CHUNK,
        ..Setup::default()
    };
    setup.origin.max_requests = 4;
    let world = setup.build();
    world.store.set(Faults {
        refuse_memory: true,
        refuse_disk: true,
        ..Faults::default()
    });
    let objects: Vec<_> = (0..16).map(|n| sample(n, 2 * MIB)).collect();
    for (n, bytes) in objects.iter().enumerate() {
        world.bucket.put(&format!("k{n}"), bytes.clone());
    }
    let (world, objects, since) = (&world, &objects, tokio::time::Instant::now());
    join_all((0..objects.len()).map(|n| async move {
        let object = world.get(&format!("k{n}")).await.expect("open");
        let (mut reader, mut bytes) = (object.read_at(all(&object)), Vec::new());
        while let Some(piece) = reader.next().await {
            bytes.extend_from_slice(&piece.expect("no error"));
            pass(Duration::from_millis(100)).await;
        }
        assert_eq!(bytes, objects[n]);
    }))
    .await;
    // No reader went on only because another one's timeout of 10 s had passed.
    assert!(since.elapsed() < secs(8), "{:?}", since.elapsed());
    pass(GRACE).await;
    assert_eq!((world.used(), world.bucket.running()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_budget_sheds_and_recovers() {
    let world = Setup {
        budget: CHUNK,
        ..Setup::default()
    }
    .build();
    world.bucket.put("a", sample(1, 2 * CHUNK));
    world.bucket.put("b", sample(2, CHUNK));
    world.bucket.fail_next([Fault::Pause {
        after: 64 * KIB,
        pause: secs(9),
    }]);
    // The second read waits for the first to finish, and gets its turn.
    let (a, b) = tokio::join!(world.read("a"), async {
        settle().await;
        world.read("b").await
    });
    same(&a.expect("read"), &sample(1, 2 * CHUNK));
    same(&b.expect("read"), &sample(2, CHUNK));
    settle().await;
    assert_eq!(world.used(), 0);

    // A client that stands still for ever, on a chunk that memory does not take.
    world.store.set(Faults {
        refuse_memory: true,
        refuse_disk: true,
        ..Faults::default()
    });
    world.store.forget_everything();
    let object = world.get("a").await.expect("open");
    let mut reader = object.read_at(all(&object));
    take(&mut reader, 1).await;
    assert!(matches!(
        world.read("b").await,
        Err(Error::Overloaded { .. })
    ));
    drop((reader, object));
    same(&world.read("b").await.expect("read"), &sample(2, CHUNK));
}
