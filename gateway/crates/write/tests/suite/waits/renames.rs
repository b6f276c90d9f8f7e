//! Renames of files that wait: one that fails, or is cut by a crash, loses neither of the two objects.

use tidegate_origin::fake::Fault;
use tidegate_write::WriteError;

use super::*;
use crate::support::spool::all;

/// A rename whose completion is refused, or not answered, leaves the file under its old name, and no upload behind.
#[tokio::test(start_paused = true)]
async fn a_rename_that_fails_leaves_no_upload() {
    for fault in [down(), Fault::LoseAnswer] {
        let desk = Desk::new(Terms::background());
        desk.bucket().put(OTHER, "old");
        let bytes = sample(1, 3 * PART);
        desk.write(TEMPORARY, &bytes).await;
        let is_lost = matches!(fault, Fault::LoseAnswer);
        desk.bucket().fail_from("complete", [fault], [down()]);
        let (from, to) = (valid(TEMPORARY), valid(OTHER));
        let renamed = desk.writers.rename(source(&desk), &from, &to).await;
        renamed.expect_err("it is down");
        desk.bucket().set_faults([]);
        desk.writers.settled().await;
        settle().await;
        assert_eq!(desk.object(TEMPORARY), Some(bytes.clone()));
        let other = if is_lost { bytes } else { "old".into() };
        assert_eq!(desk.object(OTHER), Some(other));
        // An abort that failed is tried again.
        until(|| desk.bucket().uploads_under_way().is_empty()).await;
    }
}

/// A store may know conditions for copies alone: it puts no file under a name that is to be free. The file goes under its
/// old name then, once, and is copied from there.
#[tokio::test(start_paused = true)]
async fn a_rename_that_must_not_replace_needs_no_condition() {
    for (size, kind) in [(PART, "put"), (3 * PART, "complete")] {
        let desk = Desk::new(Terms::background());
        let bytes = sample(1, size);
        desk.write(TEMPORARY, &bytes).await;
        let refusal = [Fault::RefuseConditions];
        desk.bucket().fail_from(kind, refusal, []);
        let (from, to) = (valid(TEMPORARY), valid(OTHER));
        let rename = async || {
            let writers = &desk.writers;
            writers.rename_over(source(&desk), &from, &to, true).await
        };
        rename().await.expect("renamed");
        desk.writers.settled().await;
        assert_eq!(desk.object(OTHER), Some(bytes));
        assert_eq!(desk.object(TEMPORARY), None);
        assert_eq!(
            (desk.bucket().count(kind), desk.bucket().count("copy")),
            (2, 1)
        );
        until(|| desk.bucket().uploads_under_way().is_empty()).await;
        desk.write(TEMPORARY, &"second".into()).await;
        assert_eq!(rename().await, Err(WriteError::Exists));
    }
}

/// Until the rename is done the file has its old name, and is read under it.
#[tokio::test(start_paused = true)]
async fn a_file_is_found_under_its_old_name_while_it_is_renamed() {
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 3 * PART);
    desk.write(TEMPORARY, &bytes).await;
    let late = [Fault::Latency(secs(5))];
    desk.bucket().fail_from("complete", late, []);
    let (from, to) = (valid(TEMPORARY), valid(OTHER));
    let meanwhile = async {
        until(|| desk.bucket().count("complete") == 1).await;
        let found = desk.writers.find(source(&desk), &from).expect("found");
        assert_eq!(desk.object(OTHER), None);
        assert_eq!(all(&found).await, bytes);
        found
    };
    let renaming = desk.writers.rename(source(&desk), &from, &to);
    let (renamed, found) = tokio::join!(renaming, meanwhile);
    renamed.expect("renamed");
    assert!(desk.writers.find(source(&desk), &from).is_none());
    assert_eq!(all(&found).await, bytes);
    drop(found);
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys(), [OTHER]);
    assert!(desk.writers.find(source(&desk), &to).is_none());
}

/// The machine stops while the bucket completes the upload under the new name. The journal knows nothing of that upload, so
/// the next process leaves the object of that name alone.
#[tokio::test(start_paused = true)]
async fn a_crash_within_a_rename_keeps_both_objects() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(OTHER, "old");
    let bytes = sample(1, 3 * PART);
    desk.write(TEMPORARY, &bytes).await;
    let late = [Fault::Latency(secs(1000))];
    desk.bucket().fail_from("complete", late, []);
    let (from, to) = (valid(TEMPORARY), valid(OTHER));
    let (access, writers) = (source(&desk).clone(), desk.writers.clone());
    let renaming = tokio::spawn(async move { writers.rename(&access, &from, &to).await });
    until(|| desk.bucket().count("complete") == 1).await;
    assert_eq!(desk.bucket().uploads_under_way(), [OTHER]);
    let again = desk.switched_off([], &Terms::background()).await;
    renaming.abort();
    again.bucket().set_faults([]);
    again.writers.settled().await;
    settle().await;
    assert_eq!(again.object(TEMPORARY), Some(bytes));
    assert_eq!(again.object(OTHER), Some("old".into()));
}
