//! Purges beside requests under way: nothing from before comes back, and a reader that began ends whole.

use tidegate_origin::OriginError;

use super::*;

#[tokio::test(start_paused = true)]
async fn after_a_purge_everything_is_asked_for_anew() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 100));
    for round in 1..=3 {
        world.read(KEY).await.expect("read");
        assert_eq!(world.bucket.bytes(), round * 100);
        if round == 1 {
            world.purge(KEY).await;
        } else {
            world.purge_prefix("folder/").await;
        }
    }
    // Other keys are left alone.
    world.bucket.put("other", sample(2, 10));
    world.read("other").await.expect("read");
    world.purge(KEY).await;
    world.purge_prefix("folder/").await;
    let bytes = world.bucket.bytes();
    world.read("other").await.expect("read");
    assert_eq!(world.bucket.bytes(), bytes);
    // A purge removes negative entries too.
    assert_eq!(world.read("new").await, Err(Error::NotFound));
    world.bucket.put("new", sample(3, 10));
    world.purge("new").await;
    same(&world.read("new").await.expect("read"), &sample(3, 10));
}

/// Opens in the background, so that the test can act before the origin answers.
fn opening(world: &World) -> tokio::task::JoinHandle<Result<bytes::Bytes, Error>> {
    let world = world.clone();
    tokio::spawn(async move { world.read(KEY).await })
}

#[tokio::test(start_paused = true)]
async fn a_question_begun_before_a_purge_installs_nothing() {
    for by_prefix in [false, true] {
        for cached in [false, true] {
            let world = Setup::profile(|p| p.stale_while_revalidate = Duration::ZERO).build();
            world.bucket.put(KEY, sample(1, 100));
            if cached {
                world.read(KEY).await.expect("read");
                pass(secs(61)).await;
            }
            // The answer is on its way, slowly; then the object changes and is purged.
            world.bucket.fail_next([Fault::Latency(secs(5))]);
            let old = opening(&world);
            pass(secs(1)).await;
            if by_prefix {
                world.purge_prefix("fold").await;
            } else {
                world.purge(KEY).await;
            }
            world.bucket.fail_next([Fault::Latency(secs(1))]);
            let (bytes, gets) = (world.bucket.bytes(), world.bucket.gets());
            same(&world.read(KEY).await.expect("read"), &sample(1, 100));
            assert_eq!(
                world.bucket.gets(),
                gets + 1,
                "it joined nothing from before"
            );
            assert_eq!(
                world.bucket.bytes(),
                bytes + 100,
                "and read nothing from before"
            );
            world.bucket.put(KEY, sample(2, 100));
            world.purge(KEY).await;
            old.await.expect("no panic").expect("read");
            same(&world.read(KEY).await.expect("read"), &sample(2, 100));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_confirmation_behind_an_answer_installs_nothing_after_a_purge() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    pass(secs(61)).await;
    world.bucket.fail_next([Fault::Latency(secs(5))]);
    world.read(KEY).await.expect("stale, and asks behind");
    pass(secs(1)).await;
    world.purge(KEY).await;
    pass(secs(10)).await;
    let bytes = world.bucket.bytes();
    world.read(KEY).await.expect("read");
    assert_eq!(world.bucket.bytes(), bytes + 100, "fetched anew");
}

#[tokio::test(start_paused = true)]
async fn an_open_that_a_purge_overtakes_brings_nothing_back() {
    // The purge comes between every two steps of the open: look-up on disk, request, answer.
    for steps in 0..10 {
        for fails in [false, true] {
            let mut world = Setup::profile(|p| p.stale_while_revalidate = Duration::ZERO).build();
            let clock = clock();
            world.restart(clock.clone());
            world.bucket.put(KEY, sample(1, 100));
            world.read(KEY).await.expect("read");
            pass(secs(61)).await;
            world.restart(clock);
            if fails {
                world
                    .bucket
                    .fail_next([Fault::Refuse(OriginError::NoSuchBucket)]);
            }
            let old = opening(&world);
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            world.purge(KEY).await;
            let _ = old.await.expect("no panic");
            // Later readers get no bytes that were fetched before the purge.
            world
                .bucket
                .set_faults([Fault::Refuse(OriginError::NoSuchBucket)]);
            let after = world.read(KEY).await;
            assert!(
                after.is_err() || world.bucket.bytes() == 200,
                "after {steps} steps"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_is_not_undone_by_an_origin_that_fails() {
    let world = Setup::profile(|p| p.stale_while_revalidate = Duration::ZERO).build();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    world.purge(KEY).await;
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("503"))]);
    assert_eq!(world.read(KEY).await, Err(Error::Unavailable));
    let range = world.range(KEY, RangeSpec::Suffix(5)).await;
    assert_eq!(range, Err(Error::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn a_reader_from_before_a_purge_ends_whole() {
    let world = World::plain();
    let bytes = sample(1, 6 * MIB);
    world.bucket.put(KEY, bytes.clone());
    let object = world.get(KEY).await.expect("open");
    let mut reader = object.read_at(all(&object));
    let mut got = take(&mut reader, MIB).await.to_vec();
    world.purge(KEY).await;
    let (rest, error) = collect_until_error(&mut reader).await;
    got.extend_from_slice(&rest);
    assert_eq!(error, None);
    same(&got.into(), &bytes);
}
