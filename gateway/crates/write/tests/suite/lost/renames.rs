//! Renames whose answer is lost, and writes during them: no copy is made twice, and nothing is deleted with an old name.

use std::time::Duration;

use tidegate_write::WriteError;

use super::*;

/// A handle goes on under the new key, for which the old key's version has no meaning.
#[tokio::test(start_paused = true)]
async fn a_renamed_object_of_a_bucket_that_keeps_versions_can_be_changed() {
    let desk = Desk::plain();
    let _ = desk.bucket().clone().with_versions();
    let bytes = sample(1, PART / 2);
    desk.bucket().put(KEY, bytes.clone());
    let writer = desk.change(KEY).await;
    let (from, to) = (valid(KEY), valid("folder/other"));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    same(&all(&writer).await, &bytes);
    put(&writer, 3, &"patch".into()).await;
    writer.commit(Commit::Close).await.expect("committed");
    let truth = patched(&bytes, 3, b"patch");
    same(&desk.object("folder/other").expect("there"), &truth);
}

/// A rename that must not replace is not sent twice. The copy whose answer was lost is found under the new key, which was free.
#[tokio::test(start_paused = true)]
async fn a_rename_that_replaces_nothing_finds_its_copy() {
    let uid = UID_HEADER;
    for (is_theirs, fault) in [(false, Fault::LoseAnswer), (true, down()), (false, down())] {
        let desk = Desk::plain();
        desk.bucket().put_with(KEY, "old", &[(uid.as_str(), "7")]);
        let (from, to) = (valid(KEY), valid("folder/other"));
        // Both keys are looked at; then the object is copied.
        for faults in [
            vec![],
            vec![],
            vec![Fault::Latency(engine::secs(1)), fault.clone()],
        ] {
            desk.bucket().fail_next(faults);
        }
        let rename = desk.writers.rename_over(source(&desk), &from, &to, true);
        let meanwhile = async {
            until(|| desk.bucket().count("copy") == 1).await;
            if is_theirs {
                let theirs = [(uid.as_str(), "8")];
                desk.bucket().put_with("folder/other", "old", &theirs);
            }
        };
        let (renamed, ()) = tokio::join!(rename, meanwhile);
        let is_made = fault == Fault::LoseAnswer;
        assert_eq!(renamed.is_ok(), is_made, "{fault:?} {is_theirs}");
        assert_eq!(desk.object(KEY).is_some(), !is_made);
        let is_there = desk.object("folder/other").is_some();
        assert_eq!(is_there, is_made || is_theirs);
    }
}

/// An object written under the old key during the rename is not deleted with it.
#[tokio::test(start_paused = true)]
async fn what_is_written_while_it_is_renamed_stays() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    let (from, to) = (valid(KEY), valid("folder/other"));
    // The source is looked at and copied; then the answer to the copy comes late.
    for faults in [vec![], vec![], vec![Fault::Latency(engine::secs(1))]] {
        desk.bucket().fail_next(faults);
    }
    let renamed = desk.writers.rename(source(&desk), &from, &to);
    let meanwhile = async {
        until(|| desk.object("folder/other").is_some()).await;
        desk.bucket().put(KEY, "new");
    };
    let (renamed, ()) = tokio::join!(renamed, meanwhile);
    assert_eq!(renamed, Err(WriteError::Changed));
    assert_eq!(desk.object(KEY), Some("new".into()));
    assert_eq!(desk.object("folder/other"), Some("old".into()));
}

/// A program that goes on writing to a file does not block its rename.
#[tokio::test(start_paused = true)]
async fn what_is_written_without_end_can_be_renamed() {
    let desk = Desk::plain();
    let writer = desk.create(KEY).await;
    put(&writer, 0, &"begun".into()).await;
    // Of a file that is in the bucket already.
    writer.commit(Commit::Close).await.expect("committed");
    put(&writer, 0, &"on and on".into()).await;
    let latency = Duration::from_millis(100);
    desk.bucket().set_faults([Fault::Latency(latency)]);
    let writes = async {
        loop {
            put(&writer, 0, &"on and on".into()).await;
            tokio::time::sleep(latency / 10).await;
        }
    };
    let (from, to) = (valid(KEY), valid("folder/other"));
    let renamed = tokio::select! {
        renamed = desk.writers.rename(source(&desk), &from, &to) => renamed,
        () = writes => unreachable!("it has no end"),
        () = tokio::time::sleep(engine::secs(60)) => panic!("it takes too long"),
    };
    renamed.expect("renamed");
    assert_eq!(desk.object(KEY), None);
    assert_eq!(desk.object("folder/other"), Some("on and on".into()));
}
