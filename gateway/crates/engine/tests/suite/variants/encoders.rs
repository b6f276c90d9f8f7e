//! The encoders: few at a time, within the budget, and no reader waits for a free one.

use std::thread::available_parallelism;

use futures_util::future::join_all;
use tidegate_engine::Object;

use super::*;
use crate::support::whole;

fn encoders() -> usize {
    available_parallelism().map_or(1, usize::from).clamp(2, 4)
}

#[tokio::test(start_paused = true)]
async fn encoders_are_few_and_no_reader_waits_for_one() {
    let world = Setup::bucket(pausing()).build();
    let counts = Counts::of(&world);
    let mut objects = Vec::new();
    for seed in 0..40 {
        world
            .bucket
            .put(&format!("{seed}.js"), text(seed, 100 * KIB));
        objects.push(world.get(&format!("{seed}.js")).await.expect("there"));
    }
    let (began, before) = (Instant::now(), world.used());
    let want = async |object: &Object| {
        let variant = object.variant(BR).await;
        (variant.is_some(), began.elapsed())
    };
    let all = join_all(objects.iter().map(want));
    let watch = async {
        settle().await;
        world.used() - before
    };
    let (all, used) = tokio::join!(all, watch);
    let (made, at_once): (Vec<_>, Vec<_>) = all.into_iter().partition(|(made, _)| *made);
    assert_eq!(made.len(), encoders());
    assert!(
        at_once.iter().all(|(_, took)| took.is_zero()),
        "identity at once"
    );
    assert!(used <= encoders() as u64 * 5 * MIB, "{used}");
    assert_eq!(counts.refused("busy"), 40 - encoders() as u64);
}

#[tokio::test(start_paused = true)]
async fn without_memory_for_an_encoder_the_answer_is_identity() {
    let setup = Setup {
        budget: 16 * MIB,
        ..Setup::default()
    };
    let world = setup.build();
    let counts = Counts::of(&world);
    world.bucket.put("a.js", text(1, 100 * KIB));
    let object = world.get("a.js").await.expect("there");
    whole(&object).await.expect("read");
    let others = world.engine.budget().try_demand(10 * MIB).expect("free");
    assert!(object.variant(BR).await.is_none());
    assert_eq!((counts.refused("memory"), counts.runs("kept")), (1, 0));
    drop(others);
    assert!(object.variant(BR).await.is_some());
}
