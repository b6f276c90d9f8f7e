use prometheus_client::registry::Registry;

use super::*;

const MIB: u64 = 1 << 20;

#[tokio::test]
async fn read_ahead_leaves_a_quarter_for_demand() {
    let budget = Budget::new(8 * MIB);
    let ahead = budget
        .ahead(6 * MIB)
        .expect("three quarters are free for it");
    assert!(budget.ahead(1024).is_none());
    let demand = budget.try_demand(2 * MIB).expect("kept for demand");
    assert_eq!(budget.used(), 8 * MIB);
    drop((ahead, demand));
    assert_eq!(budget.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn demand_waits_its_turn_and_is_shed_in_the_end() {
    let budget = Budget::new(MIB);
    let all = budget.try_demand(MIB).expect("free");
    let waiting = tokio::spawn({
        let budget = budget.clone();
        async move { budget.demand(1024).await.map(drop) }
    });
    tokio::task::yield_now().await;
    drop(all);
    assert_eq!(waiting.await.expect("no panic"), Ok(()));

    let _all = budget.try_demand(MIB).expect("free again");
    assert!(matches!(
        budget.demand(1024).await,
        Err(Error::Overloaded { .. })
    ));

    let mut registry = Registry::default();
    budget.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
    for line in [
        "budget_size_bytes 1048576",
        "budget_used_bytes 1048576",
        "budget_waits_total 2",
        "budget_refused_total 1",
    ] {
        assert!(
            text.lines().any(|it| it == line),
            "{line} is not in\n{text}"
        );
    }
}

#[tokio::test]
async fn a_charge_splits_and_never_exceeds_the_whole() {
    let budget = Budget::new(MIB);
    let mut charge = budget.try_demand(100 * MIB).expect("cut to the whole");
    let half = charge.split(MIB / 2);
    drop(charge);
    assert_eq!(budget.used(), MIB / 2);
    drop(half);
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_budget_grows_and_shrinks_under_its_reservations() {
    let budget = Budget::new(8 * MIB);
    let share = budget.share(2);
    let mut held = budget.try_demand(6 * MIB).expect("free");
    budget.resize(4 * MIB);
    let figures = |budget: &Budget| (budget.total(), budget.used(), budget.free());
    assert_eq!(figures(&budget), (4 * MIB, 6 * MIB, 0));
    assert_eq!(share.total(), 2 * MIB);
    assert!(budget.try_demand(1024).is_none());
    // The first 2 MiB that come back are no longer there.
    drop(held.split(2 * MIB));
    assert_eq!(figures(&budget), (4 * MIB, 4 * MIB, 0));
    drop(held.split(MIB));
    assert_eq!(figures(&budget), (4 * MIB, 3 * MIB, MIB));
    budget.resize(2 * MIB);
    budget.resize(16 * MIB);
    assert_eq!(figures(&budget), (16 * MIB, 3 * MIB, 13 * MIB));
    drop(held);
    assert_eq!(figures(&budget), (16 * MIB, 0, 16 * MIB));
    assert_eq!(share.total(), 8 * MIB);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_more_than_is_left_gets_all_of_a_smaller_budget() {
    let budget = Budget::new(8 * MIB);
    let held = budget.try_demand(MIB).expect("free");
    let waiting = tokio::spawn({
        let budget = budget.clone();
        async move { budget.in_turn(8 * MIB).await }
    });
    tokio::task::yield_now().await;
    budget.resize(2 * MIB);
    tokio::task::yield_now().await;
    drop(held);
    let charge = waiting.await.expect("no panic");
    assert_eq!((budget.used(), budget.free()), (2 * MIB, 0));
    drop(charge);
    assert_eq!(budget.used(), 0);
}

/// A waiter that gives up must not hand back permits that a smaller budget does not have.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_pays_what_is_owed() {
    let budget = Budget::new(8 * MIB);
    let held = budget.try_demand(4 * MIB).expect("free");
    let waiting = budget.demand(8 * MIB);
    let shrink = async {
        budget.resize(2 * MIB);
        tokio::task::yield_now().await;
        drop(held);
    };
    let (taken, ()) = tokio::join!(waiting, shrink);
    drop(taken);
    assert_eq!((budget.used(), budget.free()), (0, 2 * MIB));
    let all = budget.try_demand(2 * MIB).expect("free");
    assert!(budget.demand(1024).await.is_err());
    drop(all);
    assert_eq!(budget.free(), 2 * MIB);
}

/// Reservations of many tasks while the size changes: what is free in the end is the whole, and at no time is more
/// reserved than the largest size.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sizes_change_under_load_and_no_byte_is_lost() {
    let budget = Budget::new(8 * MIB);
    let tasks = (0..8_u64).map(|task| {
        let budget = budget.clone();
        tokio::spawn(async move {
            for nth in 0..2_000 {
                let bytes = (1 + (task * 7 + nth * 13) % 4_096) * 1024;
                let charge = budget.demand(bytes).await.expect("a turn comes");
                assert!(budget.used() <= 8 * MIB);
                if nth.is_multiple_of(3) {
                    tokio::task::yield_now().await;
                }
                drop(charge);
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for nth in 0..500 {
        budget.resize((1 + nth % 8) * MIB);
        tokio::task::yield_now().await;
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    budget.resize(8 * MIB);
    assert_eq!((budget.used(), budget.free()), (0, 8 * MIB));
}
