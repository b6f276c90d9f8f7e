//! Slots are bounded, given to readers first, and never lost.

use futures_util::future::join_all;
use futures_util::poll;
use tokio::time::Instant;

use super::*;
use crate::WaitFlag;
use crate::fake::{FakeOrigin, Fault};
use crate::metrics::Metrics;
use crate::testing::{content, drain, get, key, sample};

const S: fn(u64) -> Duration = Duration::from_secs;

fn setup(max: usize, queue: usize) -> (FakeOrigin, Arc<Limit>) {
    let fake = FakeOrigin::new();
    fake.put("k", sample(100));
    let meter = Metrics::default().of("test");
    let limit = Limit::new(Arc::new(fake.clone()), max, queue, S(10), meter);
    (fake, Arc::new(limit))
}

fn ahead() -> Get {
    Get {
        priority: Priority::Ahead,
        ..get(None)
    }
}

#[tokio::test(start_paused = true)]
async fn never_more_at_once_and_all_are_served() {
    let (fake, limit) = setup(3, 100);
    fake.set_faults([Fault::Latency(S(1)), Fault::Rate(100)]);
    let begun = Instant::now();
    let all = join_all((0..12).map(|_| async {
        let answer = content(&*limit, get(None)).await.expect("content");
        assert!(fake.running() <= 3);
        drain(answer.body).await.0.len()
    }));
    assert_eq!(all.await, [100; 12]);
    assert_eq!(
        begun.elapsed(),
        S(8),
        "four rounds of three, two seconds each"
    );
}

#[tokio::test(start_paused = true)]
async fn a_place_is_held_until_the_body_ends_or_is_dropped() {
    let (fake, limit) = setup(1, 10);
    let first = content(&*limit, get(None)).await.expect("content");
    let mut second = Box::pin(limit.get(get(None)));
    assert!(poll!(&mut second).is_pending());
    assert_eq!(fake.gets(), 1);
    drop(first.body);
    let Ok(Answer::Content(second)) = second.await else {
        panic!("no content");
    };
    let mut third = Box::pin(limit.get(get(None)));
    assert!(poll!(&mut third).is_pending());
    assert_eq!(drain(second.body).await.1, None);
    assert!(third.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn readers_go_first_each_in_turn() {
    let (fake, limit) = setup(1, 10);
    let running = content(&*limit, get(None)).await.expect("content");
    let named = |name: &str, priority| Get {
        key: key(name),
        priority,
        ..get(None)
    };
    let mut waiting = Vec::new();
    for (name, priority) in [
        ("a1", Priority::Ahead),
        ("d1", Priority::Demand),
        ("a2", Priority::Ahead),
        ("d2", Priority::Demand),
    ] {
        let mut request = limit.get(named(name, priority));
        assert!(poll!(&mut request).is_pending());
        waiting.push(request);
    }
    drop(running);
    join_all(waiting).await;
    let order: Vec<_> = fake.log()[1..].iter().map(|get| get.key.clone()).collect();
    assert_eq!(order, ["d1", "d2", "a1", "a2"].map(key));
}

#[tokio::test(start_paused = true)]
async fn a_quarter_is_kept_free_of_what_is_fetched_ahead() {
    let (fake, limit) = setup(4, 10);
    let mut requests: Vec<_> = (0..4).map(|_| limit.get(ahead())).collect();
    let mut answers = Vec::new();
    for request in &mut requests {
        if let Poll::Ready(answer) = poll!(request) {
            answers.push(answer);
        }
    }
    assert_eq!(answers.len(), 3);
    assert!(
        poll!(limit.get(get(None))).is_ready(),
        "a reader finds a place"
    );
    assert_eq!(fake.gets(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_no_reader_may_come_for_never_waits() {
    let (fake, limit) = setup(4, 10);
    let spare = || Get {
        priority: Priority::Spare,
        ..get(None)
    };
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(content(&*limit, spare()).await.expect("a place"));
    }
    assert_eq!(limit.get(spare()).await.expect_err("kept free"), QUEUE_FULL);
    running.pop();
    assert!(limit.get(spare()).await.is_ok());
    assert_eq!(fake.gets(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_turns_the_least_important_away() {
    let (_, limit) = setup(1, 2);
    let running = content(&*limit, get(None)).await.expect("content");
    let mut ahead_1 = limit.get(ahead());
    let mut ahead_2 = limit.get(ahead());
    assert!(poll!(&mut ahead_1).is_pending() && poll!(&mut ahead_2).is_pending());
    assert_eq!(limit.get(ahead()).await.expect_err("full"), QUEUE_FULL);
    let mut demand_1 = limit.get(get(None));
    assert!(poll!(&mut demand_1).is_pending());
    assert_eq!(
        ahead_2.await.expect_err("makes room for a reader"),
        QUEUE_FULL
    );
    let mut demand_2 = limit.get(get(None));
    assert!(poll!(&mut demand_2).is_pending());
    assert_eq!(
        limit.get(get(None)).await.expect_err("only readers wait"),
        QUEUE_FULL
    );
    assert_eq!(
        ahead_1.await.expect_err("makes room for a reader"),
        QUEUE_FULL
    );
    drop(running);
    assert!(demand_1.await.is_ok() && demand_2.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_and_probes_do_not_wait() {
    let (fake, limit) = setup(1, 10);
    let _running = content(&*limit, get(None)).await.expect("content");
    let begun = Instant::now();
    let late = limit.get(get(None)).await.expect_err("no place");
    assert_eq!(late, OriginError::Timeout(Phase::Queue));
    assert_eq!(begun.elapsed(), S(10));
    assert_eq!(limit.probe().await, Ok(()));
    assert_eq!((fake.gets(), fake.probes()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn those_that_leave_take_no_place_with_them() {
    let (_, limit) = setup(2, 100);
    let mut running = Vec::new();
    for _ in 0..2 {
        running.push(content(&*limit, get(None)).await.expect("content"));
    }
    let mut waiting: Vec<_> = (0..10).map(|_| limit.get(get(None))).collect();
    for request in &mut waiting {
        assert!(poll!(request).is_pending());
    }
    // Half are dropped while they wait, and two after they got a place but before they saw it.
    waiting.truncate(5);
    running.clear();
    waiting.drain(..2);
    for request in waiting {
        assert!(request.await.is_ok());
    }
    assert_eq!(limit.slots.state().running, [0, 0]);
    assert!(content(&*limit, get(None)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_gives_its_place_back() {
    let (fake, limit) = setup(1, 10);
    fake.fail_next([Fault::Refuse(OriginError::NotFound)]);
    assert!(limit.get(get(None)).await.is_err());
    assert!(limit.head(&key("k")).await.is_ok());
    assert_eq!(limit.slots.state().running, [0, 0]);
}

fn client(number: u32) -> Client {
    Client::V4(number)
}

#[tokio::test(start_paused = true)]
async fn clients_are_served_in_turn() {
    let (fake, limit) = setup(1, 100);
    let running = content(&*limit, get(None)).await.expect("content");
    let named = |name: &str| Get {
        key: key(name),
        ..get(None)
    };
    let names = ["a1", "a2", "a3", "a4", "b1", "b2", "c1"];
    let mut waiting = Vec::new();
    for name in names {
        let of = client(u32::from(name.as_bytes()[0]));
        let mut request = Box::pin(client::run_for_client(of, limit.get(named(name))));
        assert!(poll!(&mut request).is_pending());
        waiting.push(request);
    }
    drop(running);
    join_all(waiting).await;
    let order: Vec<_> = fake.log()[1..].iter().map(|get| get.key.clone()).collect();
    let turns = ["a1", "b1", "c1", "a2", "b2", "a3", "a4"].map(key);
    assert_eq!(order, turns);
    assert_eq!(limit.slots.state().running, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_fills_the_queue_makes_room_for_others() {
    let (_, limit) = setup(1, 3);
    let running = content(&*limit, get(None)).await.expect("content");
    let ask = |of| Box::pin(client::run_for_client(client(of), limit.get(get(None))));
    let (mut first, mut second, mut third) = (ask(1), ask(1), ask(1));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    assert!(poll!(&mut third).is_pending());
    assert_eq!(ask(1).await.expect_err("its own queue is full"), QUEUE_FULL);
    let mut other = ask(2);
    assert!(poll!(&mut other).is_pending());
    assert_eq!(third.await.expect_err("it makes room"), QUEUE_FULL);
    drop(running);
    assert!(first.await.is_ok() && other.await.is_ok() && second.await.is_ok());
    assert_eq!(limit.slots.state().running, [0, 0]);
}

/// A reader comes to bytes that are being fetched ahead: it waits behind no reader that comes later.
#[tokio::test(start_paused = true)]
async fn read_ahead_that_a_reader_waits_for_goes_among_the_readers() {
    let (fake, limit) = setup(4, 10);
    let mut running = Vec::new();
    for _ in 0..4 {
        running.push(content(&*limit, get(None)).await.expect("content"));
    }
    let named = |name: &str, priority| Get {
        key: key(name),
        priority,
        ..get(None)
    };
    let (awaited, unwanted) = (WaitFlag::default(), WaitFlag::default());
    let mut other = Box::pin(unwanted.run(limit.get(named("other", Priority::Ahead))));
    let mut ahead = Box::pin(awaited.run(limit.get(named("ahead", Priority::Ahead))));
    assert!(poll!(&mut other).is_pending() && poll!(&mut ahead).is_pending());
    awaited.set();
    awaited.set();
    assert!(poll!(&mut ahead).is_pending());
    let mut later = limit.get(named("later", Priority::Demand));
    assert!(poll!(&mut later).is_pending());
    running.pop();
    drop(ahead.await);
    assert_eq!(fake.log().last().expect("asked").key, key("ahead"));
    drop(running);
    let (later, other) = tokio::join!(later, other);
    drop((later, other));
    let order: Vec<_> = fake.log()[4..].iter().map(|get| get.key.clone()).collect();
    assert_eq!(order, ["ahead", "later", "other"].map(key));
}

/// Its wait before that counts.
#[tokio::test(start_paused = true)]
async fn awaited_read_ahead_waits_no_longer_than_others() {
    let (_fake, limit) = setup(1, 10);
    let _running = content(&*limit, get(None)).await.expect("content");
    let awaited = WaitFlag::default();
    let begun = Instant::now();
    let request = awaited.run(limit.get(ahead()));
    let reader = async {
        tokio::time::sleep(S(4)).await;
        awaited.set();
    };
    let (refused, ()) = tokio::join!(request, reader);
    assert_eq!(refused.err(), Some(OriginError::Timeout(Phase::Queue)));
    assert_eq!(begun.elapsed(), S(10));
}
