//! Renames of files that the bucket does not have yet.

use bytes::Bytes;
use tempfile::TempDir;
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_write::{Commit, OpenMode, WriteError};
use tokio::task::spawn_blocking;

use crate::support::engine::{Setup, sample, secs, settle, valid};
use crate::support::spool::{Desk, PART, Terms, all, copy_of, down, put, source};

mod meanwhile;

const KEY: &str = "folder/name.tmp";
const OTHER: &str = "folder/name";

/// A desk with a new, closed file under [`KEY`], of which nothing was sent.
async fn closed(bytes: &Bytes) -> Desk {
    let desk = Desk::new(Terms::background());
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, bytes).await;
    writer.commit(Commit::Background).await.expect("promised");
    desk
}

#[tokio::test(start_paused = true)]
async fn a_new_file_goes_to_its_new_name_with_one_request() {
    let bytes = sample(1, 1000);
    let desk = closed(&bytes).await;
    desk.bucket().put(OTHER, "replaced");
    let before = desk.bucket().writes().len();
    let (gets, heads) = (desk.bucket().gets(), desk.bucket().heads());
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    assert_eq!(
        renamed.expect("renamed"),
        desk.bucket().object(OTHER).expect("there").0.etag
    );
    assert_eq!(desk.object(OTHER), Some(bytes.clone()));
    desk.writers.settled().await;
    settle().await;
    assert_eq!(desk.bucket().writes()[before..], ["put"]);
    assert_eq!((desk.bucket().gets(), desk.bucket().heads()), (gets, heads));
    assert_eq!(desk.bucket().keys(), [OTHER]);
    assert_eq!(desk.world.read(OTHER).await, Ok(bytes));
    assert!(desk.writers.pending().is_empty());
}

#[tokio::test(start_paused = true)]
async fn its_handles_go_on_under_the_new_name() {
    let desk = Desk::new(Terms::background());
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"bytes".into()).await;
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    assert_eq!(writer.key().as_str(), OTHER);
    put(&writer, 5, &" and more".into()).await;
    assert_eq!(all(&writer).await, "bytes and more");
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.object(OTHER), Some("bytes and more".into()));
    // The old name is free.
    desk.write(KEY, &"another".into()).await;
    desk.writers.settled().await;
    assert_eq!(desk.object(KEY), Some("another".into()));
    assert_eq!(desk.object(OTHER), Some("bytes and more".into()));
}

/// The closed draft of the new name is older than what is renamed over it, also after a restart.
#[tokio::test(start_paused = true)]
async fn what_waited_under_the_new_name_goes_nowhere() {
    let desk = closed(&"new".into()).await;
    desk.write(OTHER, &"waits".into()).await;
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    let again = desk.switched_off([], &Terms::background()).await;
    again.writers.settled().await;
    assert_eq!(again.bucket().keys(), [OTHER]);
    assert_eq!(again.object(OTHER), Some("new".into()));
}

/// Renames [`KEY`], and copies the spool between any two of its changes. Returns the copies, each with the object that
/// the bucket had then. One thread works on files, so a copy and a change take turns.
async fn copied_at_each_step(desk: &Desk) -> Vec<(TempDir, Option<Bytes>)> {
    let (from, to) = (valid(KEY), valid(OTHER));
    let mut renaming = std::pin::pin!(desk.writers.rename(source(desk), &from, &to));
    let mut copies = Vec::new();
    loop {
        let (path, there) = (desk.spool.path().to_owned(), desk.object(OTHER));
        tokio::select! {
            biased;
            copy = spawn_blocking(move || copy_of(&path)) => {
                copies.push((copy.expect("copied"), there));
            }
            renamed = &mut renaming => {
                renamed.expect("renamed");
                return copies;
            }
        }
    }
}

/// Both files were promised. Whenever the machine stops, the renamed one is under one of its names in the end.
#[test]
fn a_crash_at_any_step_keeps_the_renamed_bytes() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true);
    let runtime = runtime.max_blocking_threads(1).build().expect("a runtime");
    runtime.block_on(async {
        // One that is put in one request, and one of several parts.
        for new in ["new".into(), sample(1, 3 * PART)] {
            let desk = closed(&new).await;
            desk.write(OTHER, &"waits".into()).await;
            let copies = copied_at_each_step(&desk).await;
            let is_new = |there: &Option<Bytes>| there.as_ref() == Some(&new);
            assert!(copies.iter().any(|(_, there)| is_new(there)));
            for (step, (copy, there)) in copies.into_iter().enumerate() {
                let world = Setup::bucket(FakeOrigin::new().with_min_part(1)).build();
                if let Some(there) = there {
                    world.bucket.put(OTHER, there);
                }
                let again = Desk::over(world, copy, &Terms::background());
                again.writers.settled().await;
                let left = [KEY, OTHER].map(|key| again.object(key));
                assert!(left.iter().any(is_new), "step {step}: {left:?}");
            }
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_renames_nothing() {
    let desk = closed(&"new".into()).await;
    desk.bucket().put(OTHER, "old");
    desk.bucket().set_faults([down()]);
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    assert!(renamed.expect_err("it is down").is_passing());
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    assert_eq!(desk.object(KEY), Some("new".into()));
    assert_eq!(desk.object(OTHER), Some("old".into()));
    assert_eq!(desk.world.read(OTHER).await, Ok("old".into()));
}

/// The refusal is of the new name alone.
#[tokio::test(start_paused = true)]
async fn a_new_name_that_the_store_refuses_leaves_the_file_under_its_old_one() {
    let desk = closed(&"new".into()).await;
    let (from, to) = (valid(KEY), valid(OTHER));
    desk.bucket()
        .fail_next([Fault::Refuse(OriginError::KeyRefused)]);
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    assert_eq!(renamed, Err(WriteError::KeyRefused));
    desk.writers.settled().await;
    assert_eq!(desk.object(KEY), Some("new".into()));
    assert!(desk.writers.pending().is_empty());
}

/// A close in the background does not wait for the bucket, but for the one of a name that the store may refuse.
#[tokio::test(start_paused = true)]
async fn a_close_tells_of_a_name_that_the_store_refuses() {
    let desk = Desk::new(Terms::background());
    // Closes a new file while the bucket has a fault.
    let close = async |key: &str, fault: Option<Fault>| {
        let writer = desk.open(key, OpenMode::CreateNew).await.expect("opened");
        put(&writer, 0, &"bytes".into()).await;
        desk.bucket().set_faults(Vec::from_iter(fault));
        writer.commit(Commit::Background).await
    };
    let key = format!("folder/{}", "n".repeat(201));
    let refusal = Fault::Refuse(OriginError::KeyRefused);
    let closed = close(&key, Some(refusal)).await;
    assert_eq!(closed, Err(WriteError::KeyRefused));
    settle().await;
    assert!(desk.writers.pending().is_empty(), "it waits for nothing");
    // One that the store takes is there.
    desk.bucket().set_faults([]);
    assert_eq!(close(&key, None).await, Ok(()));
    assert_eq!(desk.object(&key), Some("bytes".into()));
    // While the bucket is down, the file is promised like any other.
    let key = format!("folder/{}", "m".repeat(201));
    assert_eq!(close(&key, Some(down())).await, Ok(()));
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    assert_eq!(desk.object(&key), Some("bytes".into()));
}

/// While the bucket hangs, the close of a long name ends after a bounded wait, and the file is durable by then. A refusal
/// that comes later is for an operator.
#[tokio::test(start_paused = true)]
async fn a_close_of_a_long_name_waits_only_a_moment_for_a_bucket_that_hangs() {
    for size in [5, 5 * PART] {
        let bytes = sample(1, size);
        let desk = Desk::new(Terms::background());
        let key = format!("folder/{}", "n".repeat(201));
        let writer = desk.open(&key, OpenMode::CreateNew).await.expect("opened");
        desk.bucket().set_faults([Fault::Latency(secs(60))]);
        put(&writer, 0, &bytes).await;
        let begun = tokio::time::Instant::now();
        assert_eq!(writer.commit(Commit::Background).await, Ok(()));
        assert!(begun.elapsed() <= secs(6), "{:?}", begun.elapsed());
        drop(writer);
        let copy = copy_of(&desk.spool);
        let refused = Fault::Refuse(OriginError::KeyRefused);
        desk.bucket().set_faults([refused]);
        desk.writers.settled().await;
        let pending = desk.writers.pending();
        let trouble = pending.iter().map(|it| it.trouble.clone());
        assert_eq!(Vec::from_iter(trouble), [Some(WriteError::KeyRefused)]);
        // The machine was switched off right after the close.
        let again = desk.started_again(copy, [], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        assert_eq!(again.object(&key), Some(bytes));
        assert!(again.writers.pending().is_empty());
    }
}

/// The bucket takes no such new name, ever. The file is not promised, and goes on under its old name.
#[tokio::test(start_paused = true)]
async fn a_new_name_that_is_refused_for_good_refuses_no_draft() {
    let desk = Desk::plain();
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"bytes".into()).await;
    let refused = Fault::Refuse(OriginError::KeyRefused);
    desk.bucket().fail_next([refused]);
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    assert_eq!(renamed, Err(WriteError::KeyRefused));
    assert_eq!(desk.writers.pending()[0].trouble, None);
    drop(writer);
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys(), [KEY]);
    assert_eq!(desk.object(KEY), Some("bytes".into()));
}

/// The request is carried out and its answer lost, and the machine stops: both names have the bytes, and no third ones.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_and_a_crash_leave_both_names() {
    let desk = closed(&"new".into()).await;
    desk.bucket().put(OTHER, "old");
    desk.bucket().set_faults([Fault::LoseAnswer]);
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    assert!(renamed.is_err());
    desk.bucket().set_faults([]);
    assert_eq!(
        desk.world.read(OTHER).await,
        Ok("new".into()),
        "never the old one"
    );
    let again = desk.switched_off([], &Terms::background()).await;
    again.writers.settled().await;
    let now = (again.object(KEY), again.object(OTHER));
    assert_eq!(now, (Some("new".into()), Some("new".into())));
}

/// A file that was cut to nothing replaces an object, which must not come back under its old name.
#[tokio::test(start_paused = true)]
async fn the_object_that_it_would_have_replaced_goes() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, "earlier");
    desk.write(KEY, &"new".into()).await;
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys(), [OTHER]);
    assert_eq!(desk.object(OTHER), Some("new".into()));
}

/// Of a file that is larger than what never leaves the spool some parts were sent already: it is published, and copied.
#[tokio::test(start_paused = true)]
async fn a_large_file_is_published_first() {
    let bytes = sample(1, 5 * PART);
    let desk = closed(&bytes).await;
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    assert!(desk.bucket().count("copy") > 0);
    assert_eq!(desk.object(OTHER), Some(bytes));
    assert_eq!(desk.object(KEY), None);
}

/// A new file that no program renames reaches the bucket a moment after its close; one with a temporary name a little
/// later.
#[tokio::test(start_paused = true)]
async fn a_closed_file_waits_for_a_rename_only_a_moment() {
    let names = [(OTHER, secs(0), secs(1)), (KEY, secs(1), secs(3))];
    let sizes = [PART, 3 * PART].map(|size| sample(1, size));
    for ((key, least, most), bytes) in names
        .iter()
        .flat_map(|name| sizes.each_ref().map(|it| (name, it)))
    {
        let begun = tokio::time::Instant::now();
        let desk = Desk::new(Terms::background());
        desk.write(key, bytes).await;
        settle().await;
        assert_eq!(desk.bucket().writes(), Vec::<&str>::new());
        desk.writers.settled().await;
        assert_eq!(desk.object(key), Some(bytes.clone()));
        let took = begun.elapsed();
        assert!((*least..*most).contains(&took), "{key}: {took:?}");
    }
}

/// A close puts a file with a temporary name into the spool. Its rename puts it into the bucket, also where closes do.
#[tokio::test(start_paused = true)]
async fn a_temporary_name_is_in_the_bucket_once_it_is_renamed() {
    let desk = Desk::new(Terms::default());
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"bytes".into()).await;
    writer.commit(Commit::Close).await.expect("promised");
    drop(writer);
    assert_eq!(desk.bucket().writes(), Vec::<&str>::new());
    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    assert_eq!(desk.bucket().writes(), ["put"]);
    assert_eq!(desk.object(OTHER), Some("bytes".into()));
    // A change of an object goes to the bucket at once.
    desk.bucket().put(KEY, "of others");
    let writer = desk.open(KEY, OpenMode::Change).await.expect("opened");
    put(&writer, 0, &"OF".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    assert_eq!(desk.object(KEY), Some("OF others".into()));
}

#[tokio::test(start_paused = true)]
async fn a_temporary_name_outlives_the_machine() {
    let desk = Desk::new(Terms::default());
    desk.write(KEY, &"bytes".into()).await;
    let again = desk.switched_off([], &Terms::default()).await;
    again.writers.settled().await;
    assert_eq!(again.object(KEY), Some("bytes".into()));
}
