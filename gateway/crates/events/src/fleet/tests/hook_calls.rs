//! The gateway that calls the hooks of a bucket, and the changes that the others remember for it.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_gateway_calls_the_hooks_and_another_takes_over_from_a_lost_one() {
    let (a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    a.receive(&b.sent()).await;
    a.fleet.publish(changed("x"));
    a.fleet.call_hooks(key_change("x"));
    b.receive(&a.sent()).await;
    assert_eq!(a.hooks() + b.hooks(), 1);
    // The other one has heard of nothing for too long.
    let survivor = match a.hooks() {
        1 => b,
        _ => a,
    };
    // Within the time for which changes are remembered.
    advance(peers::PEER_TIMEOUT).await;
    survivor.fleet.tick();
    assert_eq!(survivor.hooks(), 1);
}

/// A gateway that has joined meanwhile has not heard of the change.
#[tokio::test(start_paused = true)]
async fn the_gateway_whose_turn_it_was_when_a_change_came_calls_its_hooks() {
    // Returns whether it is the turn of a gateway, which then has one call more.
    let is_its_turn = |member: &Member| {
        let before = member.hooks();
        member.fleet.call_hooks(key_change("probe"));
        member.hooks() > before
    };
    let (a, b) = loop {
        let (a, b) = (Member::new(), Member::new());
        b.receive(&a.sent()).await;
        if is_its_turn(&b) {
            break (a, b);
        }
    };
    a.fleet.publish(changed("x"));
    let message = a.sent().pop().expect("sent");
    let waits = b.fleet.take(&message).expect("a change");
    while is_its_turn(&b) {
        b.receive(&Member::new().sent()).await;
    }
    let before = b.hooks();
    b.fleet.apply(waits).await;
    assert_eq!(b.hooks(), before + 1);
}

#[tokio::test(start_paused = true)]
async fn another_takes_over_while_the_hooks_of_a_lost_one_still_wait() {
    let (a, b) = (Member::new(), Member::new());
    for member in [&a, &b] {
        *member.seen.hook_delay.lock().recover() = Duration::from_secs(30);
    }
    b.receive(&a.sent()).await;
    a.receive(&b.sent()).await;
    let late = KeyChange {
        is_overtaken: true,
        ..key_change("x")
    };
    a.fleet.call_hooks(late.clone());
    b.fleet.call_hooks(late.clone());
    assert_eq!(a.hooks() + b.hooks(), 1);
    let (chosen, survivor) = match a.hooks() {
        1 => (a, b),
        _ => (b, a),
    };
    // It lives for 20 s of the 30 s for which its hook waits.
    for _ in 0..20 {
        advance(HEARTBEAT).await;
        chosen.fleet.tick();
        survivor.fleet.tick();
        for message in chosen.sent() {
            assert_eq!(survivor.fleet.take(&message), None);
        }
        assert_eq!(survivor.hooks(), 0);
    }
    for _ in 0..60 {
        advance(HEARTBEAT).await;
        survivor.fleet.tick();
    }
    assert_eq!(*survivor.seen.hooks.lock().recover(), [late], "once");
}

/// Returns two members that know of each other and put hooks off for `delay`: the one that is chosen, and the other.
async fn chosen_and_other(delay: Duration) -> (Member, Member) {
    let (a, b) = (Member::new(), Member::new());
    for member in [&a, &b] {
        *member.seen.hook_delay.lock().recover() = delay;
    }
    b.receive(&a.sent()).await;
    a.receive(&b.sent()).await;
    let is_chosen = a.fleet.state().peers.chosen(a.fleet.own, "media") == a.fleet.own;
    match is_chosen {
        true => (a, b),
        false => (b, a),
    }
}

/// Lets so many heartbeats of one reach the other.
async fn heartbeats(from: &Member, to: &Member, count: usize) {
    for _ in 0..count {
        advance(HEARTBEAT).await;
        from.fleet.tick();
        to.fleet.tick();
        for message in from.sent() {
            assert_eq!(to.fleet.take(&message), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn twenty_thousand_changes_in_a_minute_are_called_for_by_one_gateway() {
    let (chosen, other) = chosen_and_other(Duration::from_secs(60)).await;
    for second in 0..50 {
        for n in 0..400 {
            let change = key_change(&format!("upload/{second}/{n}"));
            chosen.fleet.call_hooks(change.clone());
            other.fleet.call_hooks(change);
        }
        heartbeats(&chosen, &other, 1).await;
    }
    assert_eq!((chosen.hooks(), other.hooks()), (20_000, 0));
    assert_eq!(*other.seen.folders.lock().recover(), []);
    // It is lost while its hooks still wait.
    advance(PEER_TIMEOUT * 2).await;
    other.fleet.tick();
    let folders = other.seen.folders.lock().recover().clone();
    let [all] = &folders[..] else {
        panic!("{folders:?}")
    };
    assert_eq!(
        (&*all.folder, all.count, other.hooks()),
        ("upload/", 20_000, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn hooks_are_called_for_changes_that_the_queue_has_no_room_for() {
    let (chosen, other) = chosen_and_other(Duration::from_secs(60)).await;
    let count = outgoing::MAX_WAITING + 1000;
    for n in 0..count {
        other.fleet.report(key_change(&n.to_string()));
    }
    chosen.receive(&other.sent()).await;
    let called = [&chosen, &other].map(Member::hooks);
    assert_eq!(
        called,
        [outgoing::MAX_WAITING, 1000],
        "each of {count} once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_ends_in_order_has_called_what_came_before() {
    let (chosen, other) = chosen_and_other(Duration::from_secs(3600)).await;
    for n in 0..100 {
        other.fleet.call_hooks(key_change(&n.to_string()));
    }
    heartbeats(&chosen, &other, 20).await;
    // It may not have heard of the last one.
    other.fleet.call_hooks(key_change("late"));
    chosen.fleet.leave();
    other.receive(&chosen.sent()).await;
    assert_eq!(*other.seen.hooks.lock().recover(), [key_change("late")]);
    other.fleet.disconnected();
    assert_eq!(other.hooks(), 1, "nothing else is left");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_loses_nats_calls_what_the_chosen_one_may_not_have_heard() {
    let (chosen, other) = chosen_and_other(Duration::from_secs(3600)).await;
    other.fleet.call_hooks(key_change("early"));
    heartbeats(&chosen, &other, 20).await;
    other.fleet.call_hooks(key_change("late"));
    other.fleet.disconnected();
    assert_eq!(*other.seen.hooks.lock().recover(), [key_change("late")]);
    // The chosen one is gone when NATS is back: its hooks still waited for the early one.
    other.fleet.connected();
    advance(PEER_TIMEOUT * 2).await;
    other.fleet.tick();
    let called = other.seen.hooks.lock().recover().clone();
    assert_eq!(called, [key_change("late"), key_change("early")]);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_the_bucket_is_not_chosen_for_its_hooks() {
    let change = key_change("x");
    // By chance either of two is chosen.
    for _ in 0..20 {
        let (a, b) = (Member::new(), Member::new());
        b.fleet.set_buckets(vec!["other".to_owned()]);
        b.fleet.connected();
        a.receive(&b.sent()).await;
        a.fleet.call_hooks(change.clone());
        assert_eq!(a.hooks(), 1);
        // Another that has it until a reload is perhaps chosen, and has perhaps called.
        b.fleet.set_buckets(vec!["media".to_owned()]);
        b.fleet.connected();
        a.receive(&b.sent()).await;
        a.fleet.call_hooks(change.clone());
        b.fleet.set_buckets(Vec::new());
        b.fleet.connected();
        a.receive(&b.sent()).await;
        assert_eq!(a.hooks(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_gateway_without_nats_calls_its_own_hooks() {
    let (a, b) = (Member::new(), Member::new());
    b.receive(&a.sent()).await;
    a.receive(&b.sent()).await;
    for member in [&a, &b] {
        for n in 0..3 {
            member.fleet.call_hooks(key_change(&n.to_string()));
        }
        member.fleet.disconnected();
        assert_eq!(member.hooks(), 3);
    }
}
