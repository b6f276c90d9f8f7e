//! Times of day that were set, or are wrong at the start.

use super::*;

/// Seventy years.
const AHEAD: Duration = Duration::from_secs(70 * 365 * 24 * 3600);

/// Returns a world with a certificate, whose clock is ahead for one order, which fails, and right again.
async fn ahead_for_a_failure() -> (World, (Acme, JoinHandle<()>)) {
    let world = World::new(&[]);
    let running = world.start();
    sleep(MINUTE).await;
    let refused = [Answer::Refused];
    world.directory.answers.lock().recover().extend(refused);
    world.set_clock(AHEAD);
    while world.orders().len() < 2 {
        sleep(MINUTE).await;
    }
    world.set_clock(Duration::ZERO);
    (world, running)
}

#[tokio::test(start_paused = true)]
async fn a_failure_under_a_clock_that_was_ahead_does_not_stop_the_orders() {
    let (world, _running) = ahead_for_a_failure().await;
    sleep(8 * DAY).await;
    let orders = world.orders();
    assert_eq!(orders.len(), 3, "{orders:?}");
    assert_paused(orders[2] - orders[1], Duration::ZERO, 10 * MINUTE);
    sleep(61 * DAY).await;
    assert_eq!(world.orders().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_failure_under_a_clock_that_was_ahead_is_over_after_a_restart() {
    let (world, (_, task)) = ahead_for_a_failure().await;
    task.abort();
    let _running = world.start();
    // The certificate that is there is not due.
    sleep(8 * DAY).await;
    assert_eq!(world.orders().len(), 2);
    sleep(53 * DAY).await;
    let orders = world.orders();
    assert_eq!(orders.len(), 3, "{orders:?}");
    assert!(orders[2].abs_diff(60 * DAY) < 2 * MINUTE, "{orders:?}");
}

#[tokio::test(start_paused = true)]
async fn a_note_of_a_clock_that_was_ahead_delays_the_first_certificate_by_minutes() {
    let world = World::new(&[Answer::Refused]);
    world.set_clock(AHEAD);
    let (_acme, task) = world.start();
    sleep(MINUTE).await;
    task.abort();
    world.set_clock(Duration::ZERO);
    let _running = world.start();
    sleep(DAY).await;
    let orders = world.orders();
    assert_eq!(orders.len(), 2, "{orders:?}");
    assert_paused(orders[1] - orders[0], MINUTE, 10 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_success_under_a_clock_that_was_ahead_is_renewed_in_time() {
    let world = World::new(&[]);
    world.set_clock(AHEAD);
    let _running = world.start();
    sleep(MINUTE).await;
    world.set_clock(Duration::ZERO);
    sleep(61 * DAY).await;
    let orders = world.orders();
    assert_eq!(orders.len(), 2, "{orders:?}");
    assert!(orders[1].abs_diff(60 * DAY) < MINUTE, "{orders:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_behind_at_the_start_orders_nothing_as_it_is_set() {
    let world = World::new(&[]);
    world.set_clock(AHEAD);
    let (_acme, task) = world.start();
    sleep(MINUTE).await;
    task.abort();
    // For the clock of the start it begins in seventy years.
    let path = Files::new(&settings(&world.folder, "a")).certificate(NAME);
    std::fs::write(path, pem(NAME, AHEAD)).expect("written");
    world.set_clock(Duration::ZERO);
    let _running = world.start();
    sleep(DAY).await;
    world.set_clock(AHEAD);
    sleep(50 * DAY).await;
    assert_eq!(world.orders().len(), 1);
}
