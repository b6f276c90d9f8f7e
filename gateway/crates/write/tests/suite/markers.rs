//! Folders whose markers follow behind.

use tidegate_engine::names::NameKind;
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::attributes::Attributes;
use tidegate_write::WriteError;

use crate::support::engine::{pass, secs, settle, valid};
use crate::support::spool::{Desk, Terms, down, source};

mod quiet;

#[tokio::test(start_paused = true)]
async fn a_folder_is_there_before_the_bucket_has_answered() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([Fault::Latency(secs(5))]);
    let begun = tokio::time::Instant::now();
    for n in 0..20 {
        let key = valid(&format!("folder/{n}/"));
        let made = desk.writers.make_folder_behind(source(&desk), &key, None);
        made.await.expect("made");
    }
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    settle().await;
    assert!(desk.bucket().keys().is_empty());
    // Listings do not have them yet.
    let below = desk.writers.markers_below(source(&desk), "folder/1");
    assert_eq!(below.len(), 11);
    let other = valid("other/");
    let made = desk.writers.make_folder_behind(source(&desk), &other, None);
    made.await.expect("made");
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys().len(), 21);
    assert!(desk.writers.markers_below(source(&desk), "").is_empty());
}

/// A file that is in the bucket before the marker of its folder stays known, and costs no request.
#[tokio::test(start_paused = true)]
async fn what_was_written_into_a_new_folder_stays_known() {
    let desk = Desk::new(Terms::background());
    let folder = valid("folder/");
    let made = desk
        .writers
        .make_folder_behind(source(&desk), &folder, None);
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
    let make = || desk.writers.make_folder_behind(source(&desk), &key, None);
    make().await.expect("made");
    assert_eq!(make().await, Err(WriteError::Exists));
    let removed = desk.writers.remove(source(&desk), &key).await;
    removed.expect("removed");
    desk.writers.settled().await;
    assert!(desk.bucket().keys().is_empty());
}

/// The marker of a folder waits for its turn. Meanwhile the folder is removed, and made again: it is new, and not looked
/// for.
#[tokio::test(start_paused = true)]
async fn a_marker_that_is_overtaken_ends_no_later_one() {
    let desk = Desk::new(Terms::background());
    let make = async |name: &str| {
        let key = valid(name);
        let made = desk.writers.make_folder_behind(source(&desk), &key, None);
        made.await.expect("made");
    };
    desk.bucket().set_faults([Fault::Latency(secs(30))]);
    for number in 0..8 {
        make(&format!("other/{number}/")).await;
    }
    make("folder/").await;
    // Each turn is taken.
    pass(secs(5)).await;
    desk.bucket().set_faults([]);
    let removed = desk.writers.remove(source(&desk), &valid("folder/")).await;
    removed.expect("removed");
    make("folder/").await;
    let heads = desk.bucket().heads();
    desk.writers.settled().await;
    assert_eq!(desk.object("folder/"), Some("".into()));
    assert_eq!(desk.bucket().heads(), heads);
}

/// The first one that fails is put later; while they fail, the caller is told.
#[tokio::test(start_paused = true)]
async fn while_markers_fail_the_caller_waits_and_is_told() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([down()]);
    let make = |key: &str| {
        let (writers, key) = (desk.writers.clone(), valid(key));
        let source = source(&desk).clone();
        async move { writers.make_folder_behind(&source, &key, None).await }
    };
    make("one/").await.expect("the bucket was well");
    // Its marker waits until the folder is quiet.
    pass(secs(3)).await;
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
        let made = writers.make_folder_behind(source, &key, None);
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
    let is_refused = || Fault::Refuse(OriginError::KeyRefused);
    let desk = Desk::new(Terms::background());
    desk.bucket().fail_next([is_refused()]);
    let (writers, source) = (&desk.writers, source(&desk));
    desk.makes("in/one/", None).await;
    let synced = writers.sync_folder(source, "").await;
    assert_eq!(synced, Ok(()), "it is not in this folder");
    let synced = writers.sync_folder(source, "in/").await;
    assert_eq!(synced, Err(WriteError::KeyRefused));
    assert_eq!(writers.sync_folder(source, "in/").await, Ok(()));
}

/// A sync waits for one try. If a later one is refused, the next sync tells of it.
#[tokio::test(start_paused = true)]
async fn a_sync_tells_of_a_folder_that_the_bucket_refused_at_a_later_try() {
    let desk = Desk::new(Terms::background());
    let (writers, source) = (&desk.writers, source(&desk));
    desk.bucket().set_faults([down()]);
    desk.makes("in/one/", None).await;
    assert_eq!(writers.sync_folder(source, "in/").await, Ok(()));
    let is_refused = Fault::Refuse(OriginError::KeyRefused);
    desk.bucket().set_faults([is_refused]);
    writers.settled().await;
    let known = desk.world.engine.known(source, "in/one");
    assert!(known.is_none_or(|it| it.entry == NameKind::Missing));
    let synced = writers.sync_folder(source, "in/").await;
    assert_eq!(synced, Err(WriteError::KeyRefused));
    assert_eq!(writers.sync_folder(source, "in/").await, Ok(()));
}

impl Desk {
    async fn makes(&self, key: &str, attributes: Option<Attributes>) {
        let key = valid(key);
        let made = self
            .writers
            .make_folder_behind(source(self), &key, attributes);
        made.await.expect("made");
    }
}

fn with_mode(mode: u32) -> Attributes {
    Attributes {
        mode: Some(mode),
        ..Attributes::default()
    }
}

/// A folder that an outage has held up is found once it is in the bucket, whatever was listed before.
#[tokio::test(start_paused = true)]
async fn a_folder_that_comes_late_is_found() {
    let desk = Desk::new(Terms::background());
    desk.makes("folder/", None).await;
    let listed = desk.world.engine.list(source(&desk), "", None).await;
    assert!(listed.expect("a page").names.is_empty());
    desk.bucket().set_faults([down()]);
    pass(secs(5)).await;
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    let found = desk.world.engine.look_up(source(&desk), "folder", false);
    assert_eq!(found.await.expect("an answer").entry, NameKind::Folder);
}

/// A store may refuse a long name, and says so to the program that makes the folder.
#[tokio::test(start_paused = true)]
async fn a_long_name_is_put_at_once() {
    let desk = Desk::new(Terms::background());
    let refused = Fault::Refuse(OriginError::KeyRefused);
    desk.bucket().fail_next([refused]);
    let (key, source) = (valid(&format!("in/{}/", "n".repeat(250))), source(&desk));
    let made = desk.writers.make_folder_behind(source, &key, None).await;
    assert_eq!(made, Err(WriteError::KeyRefused));
    let made = desk.writers.make_folder_behind(source, &key, None).await;
    made.expect("made");
    assert!(desk.object(key.as_str()).is_some());
}

/// While the bucket hangs, `mkdir` of a long name ends after a bounded wait. The folder waits like any other.
#[tokio::test(start_paused = true)]
async fn a_long_name_waits_only_a_moment_for_a_bucket_that_hangs() {
    let desk = Desk::new(Terms::background());
    desk.bucket().set_faults([Fault::Latency(secs(60))]);
    let (key, source) = (valid(&format!("in/{}/", "n".repeat(250))), source(&desk));
    let begun = tokio::time::Instant::now();
    let made = desk.writers.make_folder_behind(source, &key, None).await;
    assert_eq!(made, Ok(()));
    assert!(begun.elapsed() <= secs(6), "{:?}", begun.elapsed());
    let made = desk.writers.make_folder_behind(source, &key, None).await;
    assert_eq!(made, Err(WriteError::Exists));
    let again = desk.switched_off([], &Terms::background()).await;
    again.bucket().set_faults([]);
    again.writers.settled().await;
    assert_eq!(again.bucket().keys(), [key.as_str()]);
}

/// Another program has put bytes under the key of a folder's marker, or does while the marker is on its way.
#[tokio::test(start_paused = true)]
async fn a_marker_replaces_no_bytes_of_another_program() {
    let theirs = Some("of another program".into());
    let desk = Desk::new(Terms::background());
    desk.makes("folder/", Some(with_mode(0o40_700))).await;
    desk.bucket().put("folder/", "of another program");
    desk.writers.settled().await;
    assert_eq!(desk.object("folder/"), theirs, "a new folder");

    let two = valid("two/");
    let made = desk.writers.make_folder(source(&desk), &two, None);
    desk.bucket().put("two/", "of another program");
    assert_eq!(made.await, Err(WriteError::Exists));
    assert_eq!(desk.object("two/"), theirs, "one that is made at once");

    let desk = Desk::plain();
    desk.bucket().put("folder/", "");
    let key = valid("folder/");
    let changed = desk
        .writers
        .change_folder(source(&desk), &key, with_mode(0o40_700));
    changed.await.expect("changed");
    let late = Fault::Latency(secs(6));
    desk.bucket().fail_from("put", [late], []);
    pass(secs(3)).await;
    assert_eq!(desk.bucket().count("put"), 1, "it is on its way");
    desk.bucket().put("folder/", "of another program");
    desk.writers.settled().await;
    assert_eq!(desk.object("folder/"), theirs, "a changed folder");
}

/// Two gateways make one folder: both have made it, and the later one's attributes stand. So it is in a store that knows no
/// conditions.
#[tokio::test(start_paused = true)]
async fn a_folder_that_another_gateway_has_made_is_made() {
    for faults in [vec![], vec![Fault::RefuseConditions]] {
        let desk = Desk::new(Terms::background());
        desk.bucket().set_faults(faults);
        desk.makes("folder/", Some(with_mode(0o40_700))).await;
        desk.bucket().put("folder/", "");
        desk.writers.settled().await;
        let (marker, _) = desk.bucket().object("folder/").expect("there");
        assert_eq!(Attributes::of(&marker.headers).mode, Some(0o40_700));
    }
}
