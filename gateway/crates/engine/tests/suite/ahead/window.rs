//! The window of a reader: earned by what it reads, small for a slow or random one, and cut to the budget.

use super::*;

#[tokio::test(start_paused = true)]
async fn ranges_that_follow_each_other_go_on_with_the_window() {
    let (world, bytes) = far(64 * MIB, 20 * MIB, |_| {});
    let mut waits = 0;
    for step in 0..64 {
        let (first, began) = (step * MIB, Instant::now());
        let spec = RangeSpec::Bounded {
            first,
            last: first + MIB - 1,
        };
        let got = world.range(KEY, spec).await.expect("read");
        same(&got, &slice(&bytes, ByteRange::new(first, first + MIB)));
        waits += u32::from(began.elapsed() > Duration::from_millis(20));
        pass(Duration::from_millis(25)).await;
    }
    assert!(waits <= 8, "{waits} of 64 requests had to wait");
    assert!(world.bucket.gets() <= 100, "{}", world.bucket.gets());
    assert_eq!(world.bucket.bytes(), 64 * MIB);
}

#[tokio::test(start_paused = true)]
async fn a_pause_between_two_requests_within_the_grace_keeps_the_window() {
    let (world, _) = far(64 * MIB, 20 * MIB, |_| {});
    for step in 0..8 {
        let spec = RangeSpec::Bounded {
            first: step * MIB,
            last: (step + 1) * MIB - 1,
        };
        world.range(KEY, spec).await.expect("read");
        pass(secs(1)).await;
    }
    let before = world.bucket.bytes();
    assert!(before > 8 * MIB, "there is something ahead: {before}");
    pass(secs(30)).await;
    assert_eq!(
        (world.bucket.running(), world.used()),
        (0, 0),
        "and it is let go"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_holds_little_ahead() {
    // A song at 256 KiB/s: read-ahead is seconds of it, and not the 128 MiB of the profile.
    let (world, bytes) = far(64 * MIB, 20 * MIB, |_| {});
    let object = world.get(KEY).await.expect("open");
    let reader = object.read_at(all(&object));
    let watched = world.clone();
    let watch = tokio::spawn(async move {
        let mut most = 0;
        loop {
            pass(secs(1)).await;
            most = most.max(watched.used());
            if most > 0 && watched.used() == 0 {
                return most;
            }
        }
    });
    same(&play(reader, 256 * KIB).await, &bytes);
    let most = watch.await.expect("no panic");
    assert!(most <= 6 * MIB, "{most} bytes held");
}

/// A film at 8 Mbit/s, whose connections carry twenty times as much.
#[tokio::test(start_paused = true)]
async fn a_reader_that_keeps_its_pace_needs_few_requests() {
    let (world, bytes) = far(96 * MIB, 20 * MIB, |_| {});
    let object = world.get(KEY).await.expect("open");
    let began = Instant::now();
    let got = play(object.read_at(all(&object)), MIB).await;
    same(&got, &bytes);
    assert!(began.elapsed() < secs(97), "{:?}", began.elapsed());
    assert!(world.bucket.gets() <= 110, "{}", world.bucket.gets());
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_stops_reading_stops_the_fetching() {
    // It may cost a grant, if that is more than it has earned (ADR 0036).
    let (world, _) = far(256 * MIB, 20 * MIB, |_| {});
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    let taken = take(&mut reader, 4 * MIB).await.len() as u64;
    pass(secs(60)).await;
    let (cost, held) = (world.bucket.bytes(), world.used());
    assert!(cost <= taken + 17 * MIB, "{taken} taken, {cost} fetched");
    assert!(held <= 18 * MIB, "{held} held");
    pass(secs(600)).await;
    assert_eq!(world.bucket.bytes(), cost);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_asks_step_by_step_earns_its_window() {
    for (steps, ahead) in [(4, 2 * MIB), (16, 16 * MIB)] {
        let (world, _) = far(256 * MIB, 20 * MIB, |_| {});
        let object = world.get(KEY).await.expect("open");
        let step = 256 * KIB;
        for n in 0..steps {
            let range = ByteRange::new(n * step, (n + 1) * step);
            take(&mut object.read_at(range), step).await;
        }
        pass(secs(1)).await;
        let (taken, cost) = (steps * step, world.bucket.bytes());
        assert!(cost <= taken + ahead + MIB, "{taken} taken, {cost} fetched");
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_little_while_memory_is_scarce() {
    let (world, _) = far(256 * MIB, 20 * MIB, |setup| setup.budget = 16 * MIB);
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    let taken = take(&mut reader, MIB).await.len() as u64;
    pass(secs(60)).await;
    let cost = world.bucket.bytes();
    assert!(cost <= 3 * taken + MIB, "{taken} taken, {cost} fetched");
}

#[tokio::test(start_paused = true)]
async fn random_seeks_fetch_little_ahead() {
    let (world, bytes) = far(64 * MIB, 20 * MIB, |_| {});
    let object = world.get(KEY).await.expect("open");
    let mut seed = 99_u64;
    let mut read = 0;
    for _ in 0..60 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let start = (seed >> 20) % (63 * MIB);
        let range = ByteRange::new(start, start + 64 * KIB);
        same(
            &collect(object.read_at(range)).await.expect("read"),
            &slice(&bytes, range),
        );
        read += 2 * CHUNK;
    }
    pass(secs(11)).await;
    assert!(
        world.bucket.bytes() <= read + MIB,
        "{} for {read}",
        world.bucket.bytes()
    );
    assert_eq!((world.bucket.running(), world.used()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_window_larger_than_the_budget_is_cut_to_it() {
    for refuse in [false, true] {
        let (world, bytes) = far(48 * MIB, 20 * MIB, |setup| setup.budget = 6 * MIB);
        world.store.set(tidegate_cache::fake::Faults {
            refuse_memory: refuse,
            refuse_disk: refuse,
            ..Default::default()
        });
        let read = tokio::time::timeout(secs(120), async {
            tokio::join!(world.read(KEY), world.read(KEY), async {
                pass(secs(1)).await;
                world.read(KEY).await
            })
        });
        let (one, two, three) = read.await.expect("no hang");
        for got in [one, two, three] {
            same(&got.expect("read"), &bytes);
        }
        pass(secs(11)).await;
        assert_eq!((world.bucket.running(), world.used()), (0, 0));
    }
}
