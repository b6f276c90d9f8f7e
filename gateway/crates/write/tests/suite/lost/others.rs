//! Objects that another client made or deleted: none of them is taken for ours.

use tidegate_origin::OriginError;
use tidegate_write::WriteError;

use super::*;

/// The tag alone would prove nothing: another writer wrote the same bytes.
#[tokio::test(start_paused = true)]
async fn what_another_client_made_first_is_refused() {
    let desk = Desk::plain();
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"lock".into()).await;
    desk.bucket().put(KEY, "lock");
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
}

/// Neither a throttle nor a refusal without an answer makes another writer's equal object ours.
#[tokio::test(start_paused = true)]
async fn of_two_that_make_the_same_object_one_is_first() {
    let throttled = OriginError::Throttled { retry_after: None };
    for fault in [Fault::Refuse(throttled), Fault::LoseRefusal] {
        let desk = Desk::plain();
        let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
        put(&writer, 0, &"lock".into()).await;
        desk.bucket().put(KEY, "lock");
        desk.bucket().fail_next([fault.clone()]);
        writer.commit(Commit::Close).await.expect_err("another's");
        let refused = writer.commit(Commit::Close).await;
        assert_eq!(refused, Err(WriteError::Changed), "{fault:?}");
    }
}

/// A try without an answer, about which the bucket cannot be asked, makes it no more ours.
#[tokio::test(start_paused = true)]
async fn of_two_that_make_the_same_object_one_is_first_also_after_a_try_that_nothing_is_known_of() {
    let desk = Desk::plain();
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    set_owner(&writer, 7).await;
    put(&writer, 0, &"lock".into()).await;
    desk.fails(&writer).await;
    let uid = UID_HEADER;
    desk.bucket().put_with(KEY, "lock", &[(uid.as_str(), "8")]);
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
}

/// Another writer has replaced the object, and gave it the same headers.
#[tokio::test(start_paused = true)]
async fn what_another_client_made_in_place_of_a_copy_is_not_taken_for_it() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old!");
    let writer = desk.change(KEY).await;
    set_owner(&writer, 7).await;
    let uid = UID_HEADER;
    desk.bucket().put_with(KEY, "new!", &[(uid.as_str(), "7")]);
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
    assert_eq!(desk.object(KEY), Some("new!".into()));
}

/// A draft that is held open, and is completely in the bucket, does not preserve its object there.
#[tokio::test(start_paused = true)]
async fn what_another_client_deleted_can_be_made_anew() {
    let desk = Desk::plain();
    desk.write(KEY, &"before".into()).await;
    let held = desk.change(KEY).await;
    let there = desk.open(KEY, OpenMode::CreateNew).await.map(drop);
    assert_eq!(there, Err(WriteError::Exists));
    desk.bucket().delete(KEY);
    desk.world.purge(KEY).await;
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    let again = desk.open(KEY, OpenMode::CreateNew).await.map(drop);
    assert_eq!(again, Err(WriteError::Exists), "it is being written");
    put(&writer, 0, &"after".into()).await;
    writer.commit(Commit::Close).await.expect("it is new");
    drop(held);
    same(&desk.object(KEY).expect("there"), &"after".into());
}
