//! Heartbeats: no changes, but the sign that events arrive.

use super::*;

#[tokio::test]
async fn a_heartbeat_is_no_change_and_says_that_events_arrive() {
    let world = World::new();
    beat(&world, "01").await;
    assert!(world.applied().is_empty());
    assert_eq!(world.since(), Some(Timestamp(NOW)));
    let alive = r#"bucket_events_alive{subscription="bucket"}"#;
    assert_eq!(world.metric(alive), "1");
    world.now.fetch_add(20_001, Ordering::Relaxed);
    world.subscription.tick();
    assert_eq!((world.since(), world.metric(alive)), (None, "0".to_owned()));
    let gap = r#"bucket_events_gaps_total{subscription="bucket",reason="heartbeat"}"#;
    assert_eq!(world.metric(gap), "1");
}

/// An alert on 0 would never end where no heartbeat can come back.
#[tokio::test]
async fn only_a_subscription_with_a_heartbeat_shows_whether_it_is_alive() {
    let alive = "bucket_events_alive{";
    assert!(World::new().metrics().contains(alive));
    let world = World::with(None);
    world
        .deliver(&[record("media", "k", "01")])
        .await
        .expect("taken");
    world.subscription.gap(GapReason::Sequence);
    world.subscription.end();
    assert!(!world.metrics().contains(alive));
}

#[tokio::test]
async fn the_heartbeat_of_another_subscription_is_no_change_and_says_nothing() {
    let world = World::new();
    let keys = ["health/heartbeat-other", ".tidegate/heartbeat-bucket"];
    let records = keys.map(|key| record("media", key, "01"));
    world.deliver(&records).await.expect("taken");
    assert_eq!(world.applied(), [] as [&str; 0]);
    assert_eq!(*world.sink.renewed.lock().recover(), keys);
    let seen = r#"bucket_events_heartbeats_total{subscription="bucket",result="seen"}"#;
    assert_eq!(world.metric(seen), "1");
}
