//! Bytes that were not synced are gone after a restart, and nothing comes in their place.

use super::*;
use crate::support::engine::valid;

/// Unsynced bytes of one process are lost with it: a sync by the next process does not bring them back, as zeros, in
/// place of the object's bytes.
#[tokio::test(start_paused = true)]
async fn what_was_not_synced_stays_gone_over_two_restarts() {
    let base = sample(1, 10 * PART);
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, base.clone());
    let writer = desk.change(KEY).await;
    put(&writer, 5000, &sample(2, 1000)).await;
    writer.sync().await.expect("durable");
    put(&writer, 1000, &sample(3, 1000)).await;
    writer.truncate(9000).await.expect("cut");
    desk.bucket().set_faults([down()]);
    let second = desk.switched_off([writer], &Terms::background()).await;
    let writer = second.writers.find(source(&second), &valid(KEY));
    let writer = writer.expect("it was promised");
    put(&writer, 0, &"second".into()).await;
    writer.sync().await.expect("durable");
    let third = second.switched_off([writer], &Terms::background()).await;
    third.bucket().set_faults([]);
    third.writers.settled().await;
    let mut truth = base.slice(..9000).to_vec();
    truth[5000..6000].copy_from_slice(&sample(2, 1000));
    truth[..6].copy_from_slice(b"second");
    same(&third.object(KEY).expect("there"), &truth.into());
}

/// A file has a length that no sync has made durable, and bytes before it that are not durable either.
#[tokio::test(start_paused = true)]
async fn no_zeros_come_in_place_of_bytes_that_were_not_synced() {
    for (synced, appended, length) in [
        (500, 300, 700),
        (500, 300, 2000),
        (500, 0, 2000),
        (3 * PART, 5 * PART, 7 * PART),
        (2 << 20, 3 << 20, 6 << 20),
    ] {
        let terms = Terms::background();
        let desk = Desk::new(terms);
        desk.bucket().set_faults([down()]);
        let bytes = sample(1, synced);
        let writer = desk.create(KEY).await;
        put(&writer, 0, &bytes).await;
        writer.sync().await.expect("durable");
        put(&writer, synced, &sample(2, appended)).await;
        writer.truncate(length).await.expect("another length");
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        same(&again.object(KEY).expect("there"), &bytes);
    }
}

/// Zeros at the end that a program has made there are no bytes that were lost.
#[tokio::test(start_paused = true)]
async fn an_end_that_was_made_zero_keeps_the_length() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    let bytes = sample(1, 500);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    writer.sync().await.expect("durable");
    let zeroed = writer.zero(ByteRange::new(400, 500)).await;
    zeroed.expect("zero");
    let again = desk.switched_off([writer], &Terms::background()).await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    same(
        &again.object(KEY).expect("there"),
        &patched(&bytes, 400, &[0; 100]),
    );
}

/// Bytes that were not synced, of a small object that is in its journal alone.
#[tokio::test(start_paused = true)]
async fn a_small_object_outlives_two_restarts() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    let writer = desk.create(KEY).await;
    writer.sync().await.expect("durable");
    put(&writer, 0, &sample(1, 500)).await;
    let second = desk.switched_off([writer], &Terms::background()).await;
    let writer = second.writers.find(source(&second), &valid(KEY));
    let writer = writer.expect("it was promised");
    put(&writer, 0, &sample(2, 100)).await;
    writer.sync().await.expect("durable");
    let third = second.switched_off([writer], &Terms::background()).await;
    third.bucket().set_faults([]);
    third.writers.settled().await;
    same(&third.object(KEY).expect("there"), &sample(2, 100));
}
