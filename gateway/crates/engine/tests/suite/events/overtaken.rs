//! Events that come late or beside a request under way: what is in doubt is asked for again.

use tidegate_origin::fake::Fault;
use tidegate_plan::ETag;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_event_of_the_known_version_costs_nothing_and_one_of_a_later_time_a_confirmation() {
    let covered = Covered::new(|_| {});
    let world = &covered.world;
    world.bucket.put(KEY, sample(1, 100));
    covered.heartbeat(world.engine.now());
    let object = world.get(KEY).await.expect("there");
    world.read(KEY).await.expect("there");
    let gets = world.bucket.gets();
    covered.report(KEY, ChangeKind::Created).await;
    covered.report(KEY, ChangeKind::Created).await;
    world.read(KEY).await.expect("there");
    assert_eq!(world.bucket.gets(), gets);

    // A copy onto itself keeps the ETag and changes headers.
    let version = object.version();
    let time = version.last_modified.expect("the bucket told it");
    let change = KeyChange {
        etag: Some(version.etag.clone()),
        size: Some(version.size),
        time: Some(time.plus(secs(5))),
        ..KeyChange::of("bucket", &valid(KEY), ChangeKind::Created)
    };
    covered.apply(&change).await;
    world.read(KEY).await.expect("there");
    assert_eq!(world.bucket.gets(), gets + 1);
}

#[tokio::test(start_paused = true)]
async fn an_overtaken_change_is_a_doubt_whatever_it_says() {
    for kind in [ChangeKind::Created, ChangeKind::Removed] {
        let covered = Covered::new(|_| {});
        let world = &covered.world;
        world.bucket.put(KEY, sample(1, 100));
        covered.heartbeat(world.engine.now());
        let version = world.get(KEY).await.expect("there").version().clone();
        world.read(KEY).await.expect("there");
        let (asked, fetched) = (world.bucket.gets(), world.bucket.bytes());
        // It names the very version that is known.
        let change = KeyChange {
            etag: Some(version.etag.clone()),
            size: Some(version.size),
            time: version.last_modified,
            is_overtaken: true,
            ..KeyChange::of("bucket", &valid(KEY), kind)
        };
        covered.apply(&change).await;
        for _ in 0..2 {
            same(&world.read(KEY).await.expect("there"), &sample(1, 100));
        }
        assert_eq!(world.bucket.gets(), asked + 1, "{kind:?}");
        assert_eq!(world.bucket.bytes(), fetched, "{kind:?}: not a byte");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resolve_that_began_before_the_event_records_nothing() {
    let covered = Covered::new(|_| {});
    let world = &covered.world;
    world.bucket.put(KEY, sample(1, 100));
    covered.heartbeat(world.engine.now());
    world.bucket.fail_next([Fault::Latency(secs(5))]);
    let reader = {
        let world = world.clone();
        tokio::spawn(async move { world.read(KEY).await })
    };
    settle().await;
    covered
        .apply(&KeyChange {
            etag: ETag::parse("\"other\""),
            ..KeyChange::of("bucket", &valid(KEY), ChangeKind::Created)
        })
        .await;
    let _ = reader.await.expect("no panic");
    let gets = world.bucket.gets();
    world.read(KEY).await.expect("there");
    assert_eq!(
        world.bucket.gets(),
        gets + 1,
        "its answer may be older than the event"
    );
}

#[tokio::test(start_paused = true)]
async fn a_resolve_during_the_removal_of_a_key_that_was_missing_records_nothing() {
    let covered = Covered::new(|profile| profile.negative_ttl = secs(10));
    let world = &covered.world;
    assert!(world.get(KEY).await.is_err());
    pass(secs(10)).await;
    // Its event is late: that of its removal comes first, while a request has its answer under way.
    world.bucket.put(KEY, sample(1, 100));
    world.bucket.fail_next([Fault::Latency(secs(5))]);
    let reader = {
        let world = world.clone();
        tokio::spawn(async move { world.read(KEY).await })
    };
    settle().await;
    covered.report(KEY, ChangeKind::Removed).await;
    same(
        &reader.await.expect("no panic").expect("there"),
        &sample(1, 100),
    );
    world.bucket.delete(KEY);
    assert!(world.get(KEY).await.is_err(), "it is gone");
}

#[tokio::test(start_paused = true)]
async fn a_missing_key_is_asked_for_after_a_removal_that_may_be_of_a_delete_marker() {
    let covered = Covered::new(|_| {});
    let world = &covered.world;
    covered.heartbeat(world.engine.now());
    assert!(world.get(KEY).await.is_err());
    // The bucket keeps versions: without the marker the version before it is the object again.
    world.bucket.put(KEY, sample(1, 100));
    let asked = world.asked();
    assert!(world.get(KEY).await.is_err());
    assert_eq!(world.asked(), asked, "known to be missing");
    covered
        .apply(&KeyChange::of("bucket", &valid(KEY), ChangeKind::Removed))
        .await;
    same(&world.read(KEY).await.expect("there"), &sample(1, 100));
}
