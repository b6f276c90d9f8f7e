//! Writes, closes and changes of attributes while a refused draft is decided on, or tried again.

use tidegate_plan::attributes::UnixTime;
use tidegate_write::Commit;

use super::*;

/// The bytes of the base are read from a slow bucket, which has that version again.
#[tokio::test(start_paused = true)]
async fn attributes_that_are_set_during_the_decision_stay() {
    let (first, second) = (UnixTime::new(1_000, 0), UnixTime::new(2_000, 0));
    for (during, modified) in [(None, first), (Some(second), second)] {
        let (desk, ours, _) = refused(false).await;
        let writer = joined(&desk).expect("it is there");
        let set = |mode, time: Option<UnixTime>| {
            writer.set_attributes(move |it| {
                it.mode = Some(mode);
                it.modified = time.or(it.modified);
            })
        };
        set(0o100_644, Some(first)).await;
        desk.bucket().put(KEY, sample(1, 3 * PART));
        desk.bucket().fail_next([Fault::Latency(secs(5))]);
        let id = id(&desk);
        let decide = desk.writers.resolve(&id, RefusedChoice::KeepOurs);
        let change = async {
            pass(secs(1)).await;
            set(0o100_600, during).await;
        };
        let (done, ()) = tokio::join!(decide, change);
        assert_eq!(done, Ok(()));
        let (version, bytes) = desk.bucket().object(KEY).expect("there");
        same(&bytes, &ours);
        let stored = Attributes::of(&version.headers);
        assert_eq!(stored.mode, Some(0o100_600));
        assert_eq!(stored.modified, Some(modified));
    }
}

/// The bytes of the base come from a slow bucket. Meanwhile a program writes to some of them.
#[tokio::test(start_paused = true)]
async fn what_a_program_writes_during_the_decision_stays() {
    let (desk, ours, _) = refused(false).await;
    let writer = joined(&desk).expect("it is there");
    desk.bucket().put(KEY, sample(1, 3 * PART));
    desk.bucket().fail_next([Fault::Latency(secs(5))]);
    let id = id(&desk);
    let decide = desk.writers.resolve(&id, RefusedChoice::KeepOurs);
    let write = async {
        pass(secs(1)).await;
        put(&writer, 10, &"a program's".into()).await;
    };
    let (done, ()) = tokio::join!(decide, write);
    assert_eq!(done, Ok(()));
    let whole = patched(&ours, 10, b"a program's");
    same(&desk.object(KEY).expect("there"), &whole);
}

/// The operator's browser leaves while the draft is copied.
#[tokio::test(start_paused = true)]
async fn a_decision_is_carried_out_though_its_caller_has_gone() {
    let (desk, ours, _) = refused(false).await;
    desk.bucket().put(KEY, sample(1, 3 * PART));
    desk.bucket().set_faults([Fault::Latency(secs(5))]);
    let id = id(&desk);
    let aside = RefusedChoice::SaveAside(valid(ASIDE));
    let decide = desk.writers.resolve(&id, aside);
    // The new name is looked for, and then the base is read.
    let left = tokio::time::timeout(secs(7), decide).await;
    assert!(left.is_err(), "the bucket is slow");
    until(|| desk.object(ASIDE).is_some()).await;
    same(&desk.object(ASIDE).expect("there"), &ours);
    nothing_is_left(&desk).await;
}

/// A refused draft is tried once more, and its last handle goes while the bucket completes it.
#[tokio::test(start_paused = true)]
async fn a_close_does_not_discard_a_draft_that_is_being_published() {
    let desk = Desk::plain();
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    let ours = sample(2, 5 * PART);
    put(&writer, 0, &ours).await;
    desk.bucket().put(KEY, "theirs");
    let refused = writer.commit(Commit::Close).await;
    assert_eq!(refused, Err(WriteError::Changed));
    desk.bucket().delete(KEY);
    let late = [Fault::Latency(secs(5))];
    desk.bucket().fail_from("complete", late, []);
    let gave_up = tokio::time::timeout(secs(1), writer.publish()).await;
    assert!(gave_up.is_err(), "the bucket is slow");
    drop(writer);
    desk.writers.settled().await;
    until(|| desk.writers.pending().is_empty()).await;
    same(&desk.object(KEY).expect("published"), &ours);
}

/// A program closes a file once more while the queue looks whether a refused draft is to be given up: it is sent again.
#[tokio::test(start_paused = true)]
async fn a_close_while_a_draft_is_refused_is_not_forgotten() {
    let desk = Desk::new(Terms::background());
    let bucket = desk.bucket();
    let late = || [Fault::Latency(secs(5))];
    let begun = |puts| until(move || bucket.count("put") >= puts);
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"ours".into()).await;
    bucket.put(KEY, "theirs");
    let before = bucket.count("put");
    bucket.fail_from("put", late(), late());
    writer.commit(desk.commit).await.expect("queued");
    begun(before + 1).await;
    // It has the draft once the first try has failed. The queue waits for that.
    let publishes = async {
        assert_eq!(writer.publish().await, Err(WriteError::Changed));
        bucket.delete(KEY);
    };
    let closes = async {
        begun(before + 2).await;
        pass(secs(1)).await;
        writer.commit(desk.commit).await.expect("queued");
    };
    tokio::join!(publishes, closes);
    until(|| desk.object(KEY) == Some("ours".into())).await;
}
