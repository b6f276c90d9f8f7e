//! Folders whose markers follow behind.

use tidegate_engine::names::NameKind;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_write::WriteError;

use crate::support::engine::{pass, secs, settle, valid};
use crate::support::spool::{Desk, Terms, down, source};

#[tokio::test(start_paused = true)]
async fn a_folder_is_there_before_the_bucket_has_answered() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([Fault::Latency(secs(5))]);
    let begun = tokio::time::Instant::now();
    for n in 0..20 {
        let key = valid(&format!("folder/{n}/"));
        let made = desk
            .writers
            .make_folder_behind(source(&desk), &key, None, ());
        made.await.expect("made");
    }
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    settle().await;
    assert!(desk.bucket().keys().is_empty());
    // Listings do not have them yet.
    let below = desk.writers.markers_below(source(&desk), "folder/1");
    assert_eq!(below.len(), 11);
    let other = valid("other/");
    let made = desk
        .writers
        .make_folder_behind(source(&desk), &other, None, ());
    made.await.expect("made");
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys().len(), 21);
    assert!(desk.writers.markers_below(source(&desk), "").is_empty());
}

/// A file that is in the bucket before the marker of its folder stays known, and costs no request.
#[tokio::test(start_paused = true)]
async fn what_was_written_into_a_new_folder_stays_known() {
    let desk = Desk::new(Terms::background());
    desk.bucket().fail_next([Fault::Latency(secs(5))]);
    let folder = valid("folder/");
    let made = desk
        .writers
        .make_folder_behind(source(&desk), &folder, None, ());
    made.await.expect("made");
    settle().await;
    desk.write("folder/file", &"bytes".into()).await;
    pass(secs(1)).await;
    assert_eq!(desk.object("folder/file"), Some("bytes".into()));
    assert_eq!(desk.object("folder/"), None, "it is on its way");
    desk.writers.settled().await;
    assert_eq!(desk.object("folder/"), Some("".into()));
    let known = |path| desk.world.engine.known(source(&desk), path);
    let file = known("folder/file").expect("known").entry;
    assert!(matches!(file, NameKind::File(_)), "{file:?}");
    let other = known("folder/other").expect("known").entry;
    assert_eq!(other, NameKind::Missing);
}

#[tokio::test(start_paused = true)]
async fn of_two_that_make_it_one_finds_it_made_and_a_removal_waits_for_it() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([Fault::Latency(secs(1))]);
    let key = valid("folder/");
    let make = || {
        desk.writers
            .make_folder_behind(source(&desk), &key, None, ())
    };
    make().await.expect("made");
    assert_eq!(make().await, Err(WriteError::Exists));
    let removed = desk.writers.remove(source(&desk), &key).await;
    removed.expect("removed");
    desk.writers.settled().await;
    assert!(desk.bucket().keys().is_empty());
}

/// The first one that fails is put later; while they fail, the caller is told.
#[tokio::test(start_paused = true)]
async fn while_markers_fail_the_caller_waits_and_is_told() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    let make = |key: &str| {
        let (writers, key) = (desk.writers.clone(), valid(key));
        let source = source(&desk).clone();
        async move { writers.make_folder_behind(&source, &key, None, ()).await }
    };
    make("one/").await.expect("the bucket was well");
    pass(secs(1)).await;
    let below = || desk.writers.markers_below(source(&desk), "");
    assert_eq!(below(), [valid("one/")].into());
    assert!(make("two/").await.expect_err("it is down").is_passing());
    assert_eq!(make("one/").await, Err(WriteError::Exists));
    desk.bucket().set_faults([]);
    // The origin is left alone for a while.
    pass(secs(60)).await;
    make("two/").await.expect("made");
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys(), ["one/", "two/"]);
    assert!(below().is_empty());
}

/// A sync of the parent returns once the folder is in the bucket, or waits on the disk for it.
#[tokio::test(start_paused = true)]
async fn a_synced_parent_loses_no_folder() {
    for (is_down, make) in [(false, "in/one/"), (true, "in/one/"), (true, "one/")] {
        let desk = Desk::new(Terms::background());
        let late = Fault::Latency(secs(5));
        desk.bucket().set_faults(match is_down {
            true => vec![late, Fault::Refuse(OriginError::Unavailable("down"))],
            false => vec![late],
        });
        let (parent, _) = make.split_at(make.len() - "one/".len());
        let (writers, source) = (&desk.writers, source(&desk));
        let key = valid(make);
        let made = writers.make_folder_behind(source, &key, None, ());
        made.await.expect("made");
        let begun = tokio::time::Instant::now();
        let others = writers.sync_folder(source, "other/").await;
        others.expect("nothing waits in it");
        assert!(begun.elapsed() < secs(1));
        writers.sync_folder(source, parent).await.expect("synced");
        assert_eq!(desk.object(make).is_none(), is_down);
        let again = desk.switched_off([], &Terms::background()).await;
        again.bucket().set_faults([]);
        again.writers.settled().await;
        assert_eq!(again.bucket().keys(), [make]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_tells_once_of_a_folder_that_the_bucket_refused() {
    let desk = Desk::new(Terms::background());
    desk.bucket()
        .fail_next([Fault::Refuse(OriginError::KeyRefused)]);
    let (writers, source) = (&desk.writers, source(&desk));
    let key = valid("in/one/");
    let made = writers.make_folder_behind(source, &key, None, ());
    made.await.expect("the bucket was not asked yet");
    let synced = writers.sync_folder(source, "").await;
    assert_eq!(synced, Ok(()), "it is not in this folder");
    let synced = writers.sync_folder(source, "in/").await;
    assert_eq!(synced, Err(WriteError::KeyRefused));
    assert_eq!(writers.sync_folder(source, "in/").await, Ok(()));
}
