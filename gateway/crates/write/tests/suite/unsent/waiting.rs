//! Renames of closed files that wait for the bucket, in the spool alone.

use super::*;
use crate::support::engine::pass;
use tidegate_engine::names::NameKind;

impl Desk {
    /// Renames [`KEY`] to a key in the spool alone; returns whether it did.
    async fn moves(&self, to: &str) -> Result<bool, WriteError> {
        let (from, to) = (valid(KEY), valid(to));
        self.writers.rename_waiting(source(self), &from, &to).await
    }

    /// Ends the machine's life now, and publishes what its spool has. Returns the objects of [`KEY`] and [`OTHER`].
    async fn left(self) -> [Option<Bytes>; 2] {
        let again = self.switched_off([], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        assert!(again.writers.pending().is_empty());
        [KEY, OTHER].map(|key| again.object(key))
    }
}

/// It replaces an object of the new key, and a file that waits there and was begun later. Its handles go on.
#[tokio::test(start_paused = true)]
async fn a_file_that_waits_has_its_new_name_without_a_request() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(OTHER, "replaced");
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"new".into()).await;
    writer.commit(Commit::Background).await.expect("promised");
    desk.write(OTHER, &"waits".into()).await;
    desk.bucket().set_faults([Fault::Latency(secs(60))]);
    let begun = tokio::time::Instant::now();
    assert_eq!(desk.moves(OTHER).await, Ok(true));
    assert_eq!(desk.bucket().writes(), Vec::<&str>::new());
    assert_eq!(desk.moves(OTHER).await, Ok(false), "it has no draft");
    assert_eq!(writer.key().as_str(), OTHER);
    put(&writer, 3, &"er".into()).await;
    writer.commit(Commit::Background).await.expect("promised");
    drop(writer);
    // The old name is free.
    desk.write(KEY, &"another".into()).await;
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    let there = [KEY, OTHER].map(|key| desk.object(key));
    assert_eq!(there, [Some("another".into()), Some("newer".into())]);
    assert_eq!(desk.bucket().count("delete"), 0);
    assert_eq!(desk.world.read(OTHER).await, Ok("newer".into()));
}

/// Whenever the machine stops, the file is under one of its names, whole, and the file that it replaces is there if it is
/// not: that one was begun later.
#[test]
fn a_crash_at_any_step_leaves_the_file_under_one_name() {
    of_one_blocking_thread().block_on(async {
        for new in ["new".into(), sample(1, 3 * PART)] {
            let desk = closed(&new).await;
            desk.write(OTHER, &"waits".into()).await;
            let copies = copied_at_each_step(&desk, desk.moves(OTHER)).await;
            let mut seen = Vec::new();
            for (step, (copy, _)) in copies.into_iter().enumerate() {
                let world = Setup::bucket(FakeOrigin::new().with_min_part(1)).build();
                let left = Desk::over(world, copy, &Terms::background()).left().await;
                let before = [Some(new.clone()), Some("waits".into())];
                let after = [None, Some(new.clone())];
                assert!(left == before || left == after, "step {step}: {left:?}");
                seen.push(left == after);
            }
            assert!(seen.contains(&false), "none before the rename");
            assert_eq!(desk.left().await, [None, Some(new)]);
        }
    });
}

/// The journal is written anew again and again, and keeps the new name and its place among the drafts.
#[tokio::test(start_paused = true)]
async fn a_renamed_file_that_is_synced_often_keeps_its_name() {
    let desk = closed(&"new".into()).await;
    desk.write(OTHER, &"waits".into()).await;
    desk.bucket().set_faults([Fault::Latency(secs(60))]);
    assert_eq!(desk.moves(OTHER).await, Ok(true));
    let writer = desk.change(OTHER).await;
    for at in 0..20 {
        put(&writer, 3 + 2 * at, &"x".into()).await;
        writer.sync().await.expect("synced");
    }
    let bytes = all(&writer).await;
    let desk = desk.switched_off([writer], &Terms::background()).await;
    assert_eq!(desk.left().await, [None, Some(bytes)]);
}

/// A bucket that may know the file, or may refuse the new name, is asked.
#[tokio::test(start_paused = true)]
async fn a_file_that_the_bucket_may_know_is_not_renamed_in_the_spool() {
    let desk = closed(&"new".into()).await;
    assert_eq!(desk.moves(&"n".repeat(201)).await, Ok(false));
    // An answer is lost: the object may be there under the old name.
    desk.bucket().set_faults([Fault::LoseAnswer]);
    pass(secs(3)).await;
    assert_eq!(desk.moves(OTHER).await, Ok(false));
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    assert_eq!(desk.object(KEY), Some("new".into()));
    // It would replace an object that has to go.
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, "earlier");
    desk.write(KEY, &"new".into()).await;
    assert_eq!(desk.moves(OTHER).await, Ok(false));
    // It is not closed.
    let desk = Desk::new(Terms::background());
    let writer = desk.open(KEY, OpenMode::CreateNew).await.expect("opened");
    put(&writer, 0, &"new".into()).await;
    assert_eq!(desk.moves(OTHER).await, Ok(false));
}

/// A shell makes a new file so that it would replace any other. It replaces none if the name was looked for before, however
/// long the bucket has been down since. What another writer has put under that name meanwhile is another file.
#[tokio::test(start_paused = true)]
async fn a_name_that_was_missing_has_nothing_that_goes() {
    let desk = Desk::new(Terms::background());
    let engine = &desk.world.engine;
    let found = engine.look_up(source(&desk), KEY, false).await;
    assert_eq!(found.expect("an answer").entry, NameKind::Missing);
    desk.write(KEY, &"new".into()).await;
    desk.bucket().put(KEY, "theirs");
    assert_eq!(desk.moves(OTHER).await, Ok(true));
    desk.writers.settled().await;
    let there = [KEY, OTHER].map(|key| desk.object(key));
    assert_eq!(there, [Some("theirs".into()), Some("new".into())]);
}

/// An earlier process may have sent it.
#[tokio::test(start_paused = true)]
async fn a_file_of_an_earlier_process_is_not_renamed_in_the_spool() {
    let desk = closed(&"new".into()).await;
    let again = desk.switched_off([], &Terms::background()).await;
    assert_eq!(again.moves(OTHER).await, Ok(false));
    again.writers.settled().await;
    assert_eq!(again.object(KEY), Some("new".into()));
}
