//! Retries after a lost answer, or a store that forgot: our own objects are recognised as ours, no retry is endless,
//! and nothing is left behind.

use std::time::Duration;

use bytes::Bytes;
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::attributes::UID_HEADER;
use tidegate_plan::profile::DiskUse;
use tidegate_write::WriteError;
use tidegate_write::{Commit, OpenMode};

use crate::support::engine::{MIB, Setup, pass, same, sample, secs, settle, valid};
use crate::support::spool::{Desk, PART, Terms, down, patched, put, set_owner, source, until};

mod staging;

const KEY: &str = "folder/object";
const OTHER: &str = "folder/other";

/// A log that is written on and closed while the bucket is unreachable.
#[tokio::test(start_paused = true)]
async fn each_try_is_remembered_and_not_only_the_last() {
    let desk = Desk::plain();
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"one".into()).await;
    desk.lose_the_answer(&writer).await;
    assert_eq!(desk.object(KEY), Some("one".into()));
    put(&writer, 3, &" two".into()).await;
    desk.fails(&writer).await;
    put(&writer, 7, &" three".into()).await;
    writer.commit(Commit::Close).await.expect("it is ours");
    assert_eq!(desk.object(KEY), Some("one two three".into()));
}

/// The bytes of the version that it was opened on are gone; the version that replaced it has them.
#[tokio::test(start_paused = true)]
async fn what_was_carried_out_is_what_is_changed_next() {
    let desk = Desk::plain();
    let bytes = sample(1, 50 * PART);
    desk.bucket().put(KEY, bytes.clone());
    let writer = desk.change(KEY).await;
    put(&writer, 20 * PART, &sample(2, PART)).await;
    until(|| desk.bucket().count("part") == 1).await;
    // Two copies, and then the completion.
    for _ in 0..2 {
        desk.bucket().fail_next([]);
    }
    desk.lose_the_answer(&writer).await;
    let truth = patched(&bytes, 20 * PART, &sample(2, PART));
    same(&desk.object(KEY).expect("there"), &truth);
    put(&writer, 5, &"patch".into()).await;
    writer.commit(Commit::Close).await.expect("it is ours");
    let truth = patched(&truth, 5, b"patch");
    same(&desk.object(KEY).expect("there"), &truth);
}

/// The object is put, and the machine stops before that is recorded; the bytes of the replaced one are gone.
#[tokio::test(start_paused = true)]
async fn a_changed_object_that_an_earlier_process_put_is_not_refused() {
    let terms = Terms::background();
    let mut setup = Setup::bucket(FakeOrigin::new().with_min_part(1));
    setup.profile.disk = DiskUse::Off;
    let desk = Desk::over(
        setup.build(),
        tempfile::tempdir().expect("a folder"),
        &terms,
    );
    let bytes = sample(1, PART / 2);
    desk.bucket().put(KEY, bytes.clone());
    let writer = desk.change(KEY).await;
    put(&writer, 3, &"patch".into()).await;
    writer.sync().await.expect("durable");
    // The base is read; then the object is put.
    desk.bucket().fail_next([]);
    desk.bucket().fail_next([Fault::LoseAnswer]);
    desk.bucket().set_faults([down()]);
    writer.commit(Commit::Background).await.expect("durable");
    until(|| desk.object(KEY).is_some_and(|now| now != bytes)).await;
    let again = desk.switched_off([writer], &terms).await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    assert!(again.writers.pending().is_empty(), "refused");
    same(
        &again.object(KEY).expect("there"),
        &patched(&bytes, 3, b"patch"),
    );
}

#[tokio::test(start_paused = true)]
async fn headers_that_could_not_be_set_leave_an_object_that_is_ours() {
    let desk = Desk::plain();
    let bytes = sample(1, 5 * PART);
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("part") == 5).await;
    settle().await;
    set_owner(&writer, 7).await;
    // The upload is completed and looked at; then the bucket stops answering.
    for _ in 0..2 {
        desk.bucket().fail_next([]);
    }
    desk.fails(&writer).await;
    same(&desk.object(KEY).expect("there"), &bytes);
    put(&writer, 5, &"patch".into()).await;
    writer.commit(Commit::Close).await.expect("it is ours");
    let (version, found) = desk.bucket().object(KEY).expect("there");
    same(&found, &patched(&bytes, 5, b"patch"));
    assert_eq!(version.header(&UID_HEADER), Some("7"));
}

/// The store reports only that there is no such upload: it is completed, or it is gone.
#[tokio::test(start_paused = true)]
async fn a_completion_whose_outcome_is_unknown_is_neither() {
    for size in [1 << 30, 15 * PART] {
        let desk = Desk::new(Terms {
            size,
            ..Terms::default()
        });
        let bytes = sample(1, 40 * PART);
        let writer = desk.create(KEY).await;
        put(&writer, 0, &bytes).await;
        until(|| desk.bucket().count("part") == 40).await;
        desk.lose_the_answer(&writer).await;
        same(&desk.object(KEY).expect("there"), &bytes);
        // The completion is answered, the look at the object is not.
        settle().await;
        desk.bucket().fail_next([]);
        desk.fails(&writer).await;
        writer.commit(Commit::Close).await.expect("it is there");
        assert_eq!(desk.bucket().count("begin"), 1);
        same(&desk.object(KEY).expect("there"), &bytes);
    }
}

/// Nodes that do not share uploads, or a clean-up job that aborts them all.
#[tokio::test(start_paused = true)]
async fn a_store_that_forgets_every_upload_is_not_asked_without_end() {
    let desk = Desk::plain();
    let bytes = sample(1, 20 * PART);
    desk.bucket()
        .set_faults([Fault::Latency(Duration::from_millis(5))]);
    let writer = desk.create(KEY).await;
    let forget = async {
        loop {
            desk.bucket().forget_uploads();
            pass(Duration::from_millis(1)).await;
        }
    };
    let written = async {
        put(&writer, 0, &bytes).await;
        writer.commit(Commit::Close).await
    };
    let failed = tokio::select! {
        failed = written => failed,
        () = forget => unreachable!("without end"),
    };
    assert!(failed.expect_err("no upload stays").is_passing());
    let begun = desk.bucket().count("begin");
    assert!(begun <= 6, "{begun}");
    writer
        .commit(Commit::Close)
        .await
        .expect("it keeps them now");
    same(&desk.object(KEY).expect("there"), &bytes);
}

/// Another writer has made the same object first: nothing is left to complete, and the upload is aborted.
#[tokio::test(start_paused = true)]
async fn an_upload_that_was_refused_is_given_up() {
    let world = Setup::bucket(FakeOrigin::new().with_min_part(1)).build();
    let folder = || tempfile::tempdir().expect("a folder");
    let desks = [
        Desk::over(world.clone(), folder(), &Terms::default()),
        Desk::over(
            Setup::bucket(world.bucket.clone()).build(),
            folder(),
            &Terms::default(),
        ),
    ];
    let bytes = sample(1, 5 * PART);
    let mut writers = Vec::new();
    for desk in &desks {
        let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
        put(&writer, 0, &bytes).await;
        writers.push(writer);
    }
    for writer in &writers {
        writer.commit(Commit::Close).await.expect("the same");
    }
    until(|| world.bucket.uploads_under_way().is_empty()).await;
}

/// The effects of a failed rename are undone, or visible; handles go on under the old name.
#[tokio::test(start_paused = true)]
async fn a_rename_that_fails_leaves_handles_where_they_were() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    let writer = desk.change(KEY).await;
    // The source is looked at, copied and looked at again, but its deletion fails.
    for _ in 0..3 {
        desk.bucket().fail_next([]);
    }
    desk.bucket()
        .fail_next([Fault::Refuse(OriginError::Forbidden)]);
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    assert!(renamed.is_err());
    put(&writer, 0, &"new".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    let now = (desk.object(KEY), desk.object(OTHER));
    assert_eq!(now, (Some("new".into()), Some("old".into())));
}

/// A journal that was begun by a failed write has the old name in it.
#[tokio::test(start_paused = true)]
async fn what_is_written_after_a_rename_comes_back_under_the_new_name() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    let writer = desk.change(KEY).await;
    std::fs::remove_dir_all(desk.spool.path()).expect("taken away");
    let block = Bytes::from(vec![1; 2 * MIB as usize]);
    assert!(writer.write_at(0, block).await.is_err());
    std::fs::create_dir(desk.spool.path()).expect("there again");
    assert!(!writer.is_dirty());
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    put(&writer, 0, &"new".into()).await;
    writer.sync().await.expect("durable");
    let again = desk.switched_off([writer], &Terms::default()).await;
    again.writers.settled().await;
    let now = (again.object(KEY), again.object(OTHER));
    assert_eq!(now, (None, Some("new".into())));
}

/// Lost bytes fail a close that would promise them; bytes that are cut off are not needed any more.
#[tokio::test(start_paused = true)]
async fn what_is_lost_is_never_promised() {
    let desk = Desk::new(Terms {
        size: 15 * PART,
        ..Terms::default()
    });
    let writer = desk.create(KEY).await;
    put(&writer, 0, &sample(1, 40 * PART)).await;
    desk.bucket().forget_uploads();
    // A write may fail as well, as soon as a part could not be sent.
    let mut told = Ok(());
    for n in 40..60 {
        let more = writer.write_at(n * PART, sample(2, PART)).await;
        told = more.and(writer.sync().await);
        if told.is_err() {
            break;
        }
        settle().await;
    }
    assert_eq!(told, Err(WriteError::Lost));
    // A failure of another kind does not clear the loss.
    desk.bucket().set_faults([down()]);
    assert!(writer.commit(Commit::Close).await.is_err());
    desk.bucket().set_faults([]);
    assert_eq!(writer.sync().await, Err(WriteError::Lost));
    let closed = writer.commit(Commit::Background).await;
    assert_eq!(closed, Err(WriteError::Lost));
    writer.truncate(0).await.expect("cut");
    put(&writer, 0, &"anew".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.object(KEY), Some("anew".into()));
}

/// Each waits for its turn as long as that takes, and holds nothing that another of them needs.
#[tokio::test(start_paused = true)]
async fn small_objects_wait_for_memory_and_not_for_each_other() {
    const PART: u64 = 16 << 10;
    let setup = Setup {
        bucket: FakeOrigin::new().with_min_part(1),
        budget: 128 << 10,
        chunk: 16 << 10,
        ..Setup::default()
    };
    let terms = Terms {
        part: PART,
        ..Terms::default()
    };
    let desk = Desk::over(
        setup.build(),
        tempfile::tempdir().expect("a folder"),
        &terms,
    );
    let mut writers = Vec::new();
    for n in 0..12 {
        let key = format!("folder/{n}");
        desk.bucket().put(&key, sample(n, PART));
        let writer = desk.change(&key).await;
        put(&writer, 7, &"patch".into()).await;
        writers.push(writer);
    }
    desk.bucket().put("film", sample(99, 4 * PART));
    desk.bucket().set_faults([Fault::Latency(secs(4))]);
    let commits = writers.iter().map(|writer| writer.commit(Commit::Close));
    let commits = futures_util::future::join_all(commits);
    let (committed, read) = tokio::join!(commits, desk.world.read("film"));
    for committed in committed {
        committed.expect("in its turn");
    }
    same(&read.expect("not shed"), &sample(99, 4 * PART));
}
