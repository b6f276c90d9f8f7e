//! Forced confirmations: they join no older question, and none replaces what they found.

use tidegate_origin::OriginError;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_forced_confirmation_joins_nothing_older() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    pass(secs(61)).await;
    // An older request whose answer is on its way when the object changes.
    world.bucket.fail_next([Fault::Rate(1)]);
    world.bucket.put(KEY, sample(2, 100));
    let old = world.get(KEY).await.expect("open");
    world.bucket.put(KEY, sample(3, 100));
    let object = world.open(KEY, forced()).await.expect("open");
    assert_eq!(object.outcome().forward, Some(ForwardReason::Request));
    same(&whole(&object).await.expect("read"), &sample(3, 100));
    drop(old);

    // A request that still waits for the head of its answer.
    pass(secs(61)).await;
    world.bucket.fail_next([Fault::Latency(secs(5))]);
    let slow = tokio::spawn({
        let world = world.clone();
        async move { world.get(KEY).await.map(|object| object.outcome()) }
    });
    settle().await;
    let gets = world.bucket.gets();
    let object = world.open(KEY, forced()).await.expect("open");
    assert!(!object.outcome().collapsed);
    assert_eq!(object.outcome().forward, Some(ForwardReason::Revalidated));
    assert_eq!(world.bucket.gets(), gets + 1, "a request of its own");
    slow.await.expect("no panic").expect("open");
}

#[tokio::test(start_paused = true)]
async fn an_older_question_does_not_replace_what_a_forced_one_found() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.read(KEY).await.expect("read");
    world.bucket.delete(KEY);
    pass(secs(61)).await;
    // Its answer will be 404, but only after the forced open has found the object.
    world.bucket.fail_next([
        Fault::Latency(secs(5)),
        Fault::Refuse(OriginError::NotFound),
    ]);
    let old = tokio::spawn({
        let world = world.clone();
        async move { world.get(KEY).await.err() }
    });
    settle().await;
    world.bucket.put(KEY, sample(2, 100));
    world.open(KEY, forced()).await.expect("open");
    assert_eq!(old.await.expect("no panic"), Some(Error::NotFound));
    same(
        &world.read(KEY).await.expect("still there"),
        &sample(2, 100),
    );
}

#[tokio::test(start_paused = true)]
async fn nor_does_it_while_the_forced_one_is_still_asking() {
    let world = strict();
    world.bucket.put(KEY, sample(1, 100));
    world.bucket.fail_next([
        Fault::Latency(secs(2)),
        Fault::Refuse(OriginError::NotFound),
    ]);
    world.bucket.fail_next([Fault::Latency(secs(5))]);
    let (old, forced, other) = tokio::join!(
        world.get(KEY),
        async {
            pass(secs(1)).await;
            world.open(KEY, forced()).await
        },
        async {
            pass(secs(3)).await;
            world.get(KEY).await
        }
    );
    assert_eq!(old.err(), Some(Error::NotFound));
    assert!(forced.is_ok());
    assert!(
        other
            .expect("not what the old one was told")
            .outcome()
            .collapsed
    );
}
