//! Closes: the requests that they cost, the errors that they report, and the time that they take.

use std::time::Duration;

use tidegate_origin::OriginError;
use tidegate_write::Stage;

use super::*;

/// A file as ImageMagick writes it: created, closed, and opened again to be filled.
#[tokio::test(start_paused = true)]
async fn a_file_that_is_created_before_it_is_filled_is_one_request() {
    let desk = Desk::plain();
    drop(desk.create(KEY).await);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"picture".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    drop(writer);
    until(|| desk.writers.pending().is_empty()).await;
    assert_eq!(desk.bucket().writes(), ["put"]);
    assert_eq!(desk.object(KEY), Some("picture".into()));
    // A file that is not filled is in the bucket in the end.
    drop(desk.create("empty").await);
    until(|| desk.object("empty").is_some()).await;
    assert_eq!(desk.bucket().writes(), ["put", "put"]);
    until(|| desk.writers.pending().is_empty()).await;
}

/// If a program creates a file and opens it again to fill it, no half of it is published.
#[tokio::test(start_paused = true)]
async fn a_handle_that_leaves_has_nothing_published_twice() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    desk.bucket().fail_next([Fault::Latency(engine::secs(1))]);
    writer.publish_behind();
    // The publication would wait that long for the file to be filled.
    tokio::time::sleep(Duration::from_millis(700)).await;
    settle().await;
    drop(writer);
    let writer = desk.open(KEY, OpenMode::Change).await.expect("opened");
    put(&writer, 0, &"half".into()).await;
    settle().await;
    assert_eq!(desk.bucket().writes(), ["put"]);
    put(&writer, 4, &" and half".into()).await;
    writer.commit(Commit::Close).await.expect("complete");
    assert_eq!(desk.bucket().writes(), ["put", "put"]);
    assert_eq!(desk.object(KEY), Some("half and half".into()));
}

#[tokio::test(start_paused = true)]
async fn a_close_says_what_is_wrong_and_the_next_goes_on_from_there() {
    let desk = Desk::plain();
    let bytes = sample(1, 10 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes.slice(..5000)).await;
    until(|| desk.bucket().count("part") == 5).await;
    desk.bucket()
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    put(&writer, 5000, &bytes.slice(5000..)).await;
    let failed = writer.commit(Commit::Close).await;
    assert_eq!(failed, Err(WriteError::Origin(Error::Unavailable)));
    desk.bucket().set_faults([]);
    engine::pass(engine::secs(40)).await;
    let sent = desk.bucket().arrived();
    writer.commit(Commit::Close).await.expect("committed");
    same(&desk.object(KEY).expect("there"), &bytes);
    assert!(
        desk.bucket().arrived() - sent <= 5000,
        "what was sent stays sent"
    );
}

#[tokio::test(start_paused = true)]
async fn in_the_background_a_close_waits_for_no_origin() {
    let desk = Desk::new(Terms::background());
    desk.bucket()
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    let (large, small) = (sample(1, 5 * PART), sample(2, 10));
    desk.write("large", &large).await;
    desk.write("small", &small).await;
    until(|| {
        desk.writers
            .pending()
            .iter()
            .all(|it| it.stage == Stage::Waiting)
    })
    .await;
    assert_eq!(desk.writers.pending().len(), 2);
    let held = desk
        .writers
        .find(source(&desk), &valid("small"))
        .expect("pending");
    same(&all(&held).await, &small);
    drop(held);
    assert!(desk.bucket().keys().is_empty());
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    same(&desk.object("large").expect("there"), &large);
    same(&desk.object("small").expect("there"), &small);
    until(|| desk.writers.spooled().0 == 0 && desk.writers.pending().is_empty()).await;
}
