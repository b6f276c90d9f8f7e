//! Drafts that are sent to a staging key: none is needed for an empty object, and none is left behind.

use tidegate_plan::ByteRange;
use tidegate_write::Writer;

use super::*;

/// A draft goes to a staging key, and is then cut to nothing.
#[tokio::test]
async fn what_is_empty_in_the_end_needs_no_hidden_key() {
    let desk = Desk::new(Terms {
        size: 20 * PART,
        ..Terms::default()
    });
    let writer = desk.create(KEY).await;
    back_and_forth(&desk, &writer).await;
    writer.truncate(0).await.expect("cut");
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.object(KEY), Some(Bytes::new()));
    drop(writer);
    until(|| desk.bucket().keys() == [KEY]).await;
    until(|| desk.bucket().uploads_under_way().is_empty()).await;
}

/// Writes in an order that makes the draft use a staging key and read back from it.
async fn back_and_forth(desk: &Desk, writer: &Writer) {
    put(writer, 0, &sample(1, 14 * PART)).await;
    until(|| desk.bucket().count("part") == 14).await;
    for round in 0..30 {
        let at = (round * 37 % 100) * PART + 13;
        put(writer, at, &sample(round, PART + 100)).await;
    }
}

/// The process ends after it has completed the staging key, without a promise to its writer.
#[tokio::test(start_paused = true)]
async fn a_hidden_object_is_not_left_behind_by_a_process_that_ends() {
    let terms = || Terms {
        size: 20 * PART,
        ..Terms::default()
    };
    let desk = Desk::new(terms());
    let writer = desk.create(KEY).await;
    put(&writer, 0, &sample(1, 14 * PART)).await;
    until(|| desk.bucket().count("part") == 14).await;
    put(&writer, 7 * PART, &"patch".into()).await;
    put(&writer, 14 * PART, &sample(2, 20 * PART)).await;
    settle().await;
    desk.bucket()
        .fail_from("complete", [Fault::LoseAnswer], [down()]);
    let back = ByteRange::new(5 * PART, 6 * PART);
    assert!(writer.read_at(back).await.is_err());
    let is_hidden = |key: &String| key.contains(".tidegate-");
    assert!(desk.bucket().keys().iter().any(is_hidden), "completed");
    let again = desk.switched_off([writer], &terms()).await;
    again.bucket().set_faults([]);
    until(|| again.bucket().keys().is_empty()).await;
}
