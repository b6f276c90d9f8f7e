//! Changes of attributes of published files that wait, while the file is written anew.

use bytes::Bytes;
use futures_util::StreamExt as _;
use tidegate_engine::names::NameKind;
use tidegate_engine::{Error, Object, OpenOptions};
use tidegate_origin::fake::Fault;
use tidegate_plan::attributes::{Attributes, UnixTime};
use tidegate_plan::{ByteRange, Timestamp};
use tidegate_write::{Commit, OpenMode, Writer};

use crate::support::engine::{MIB, pass, sample, secs, valid, whole};
use crate::support::spool::{Desk, PART, Terms, down, put, source, until};

mod empty;

const KEY: &str = "folder/object";
const OTHER: &str = "folder/renamed";

/// The time that programs set, long before any write.
const EARLIER: UnixTime = UnixTime::new(1_000_000, 0);

/// Gives the published file a mode and an early time.
async fn change(desk: &Desk, mode: u32) {
    let since = desk.world.engine.name_epoch();
    let found = desk.world.engine.look_up(source(desk), KEY, true).await;
    let NameKind::File(facts) = found.expect("an answer").entry else {
        panic!("no file");
    };
    let attributes = Attributes {
        mode: Some(mode),
        modified: Some(EARLIER),
        ..facts.attributes.unwrap_or_default()
    };
    let (writers, key) = (&desk.writers, valid(KEY));
    let changed = writers.change_attributes(source(desk), &key, (&facts, since), attributes);
    changed.await.expect("changed");
}

/// Writes through a handle and closes it; returns the time of that.
async fn rewrite(writer: &Writer, commit: Commit) -> Timestamp {
    put(writer, 0, &"new".into()).await;
    let modified = writer.snapshot().modified;
    writer.commit(commit).await.expect("closed");
    modified
}

/// Returns the stored mode and time, once nothing waits.
async fn stored(desk: &Desk) -> (Option<u32>, Option<UnixTime>) {
    desk.writers.settled().await;
    let (version, _) = desk.bucket().object(KEY).expect("there");
    let stored = Attributes::of(&version.headers);
    (stored.mode, stored.modified)
}

/// Publishes the file, and opens it with none of its bytes here.
async fn opened(desk: &Desk, bytes: &Bytes) -> Object {
    desk.write(KEY, bytes).await;
    desk.world.purge(KEY).await;
    let bare = OpenOptions {
        bare: true,
        ..OpenOptions::default()
    };
    desk.world.open(KEY, bare).await.expect("opened")
}

/// A mode is set, the file is written anew and gets another mode, and the process ends before the bucket is back.
#[tokio::test(start_paused = true)]
async fn a_draft_that_has_taken_a_change_along_has_it_after_a_restart() {
    for how in [OpenMode::Change, OpenMode::Create] {
        let desk = Desk::new(Terms::background());
        desk.bucket().put(KEY, "old");
        change(&desk, 0o100_600).await;
        desk.bucket().set_faults([down()]);
        let known = desk.open(KEY, how).await;
        let writer = known.expect("it is known");
        put(&writer, 0, &"new".into()).await;
        let owner = |it: &mut Attributes| it.mode = Some(0o100_640);
        writer.set_attributes(owner).await;
        let modified = rewrite(&writer, Commit::Background).await;
        let again = desk.switched_off([writer], &Terms::background()).await;
        again.bucket().set_faults([]);
        let expected = (Some(0o100_640), Some(modified.into()));
        assert_eq!(stored(&again).await, expected, "{how:?}");
        assert_eq!(again.bucket().count("copy"), 0, "nothing is sent again");
    }
}

/// Another mount of the process has the file open, and writes after the change.
#[tokio::test(start_paused = true)]
async fn a_change_that_no_draft_has_taken_dates_no_newer_content() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    let writer = desk.change(KEY).await;
    change(&desk, 0o100_600).await;
    let modified = rewrite(&writer, Commit::Close).await;
    let expected = (Some(0o100_600), Some(modified.into()));
    assert_eq!(stored(&desk).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_version_that_another_program_replaced_is_dropped() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old");
    change(&desk, 0o100_600).await;
    desk.bucket().put(KEY, "of another program");
    let writer = desk.change(KEY).await;
    rewrite(&writer, Commit::Close).await;
    assert_eq!(stored(&desk).await.0, None);
}

/// The change is due while the file is renamed, and a program writes to it as soon as that is done.
#[tokio::test(start_paused = true)]
async fn a_change_publishes_nothing_of_a_writer_that_comes_first() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "old bytes");
    let writer = desk.change(KEY).await;
    change(&desk, 0o100_600).await;
    let late = [Fault::Latency(secs(6))];
    desk.bucket().fail_from("copy", late, []);
    let (from, to) = (valid(KEY), valid(OTHER));
    let renaming = desk.writers.rename(source(&desk), &from, &to);
    let writing = async {
        pass(secs(3)).await;
        writer.write_at(0, "new".into()).await
    };
    let (renamed, written) = tokio::join!(renaming, writing);
    renamed.expect("renamed");
    written.expect("written");
    pass(secs(9)).await;
    assert_eq!(desk.object(OTHER), Some("old bytes".into()));
    writer.commit(Commit::Close).await.expect("closed");
    assert_eq!(desk.object(OTHER), Some("new bytes".into()));
    assert_eq!(desk.bucket().writes(), ["copy", "delete", "put"]);
}

/// A store gives an object that went up in parts another tag when it is copied. A reader of the version before goes on, over
/// more changes as well, until another program writes the object.
#[tokio::test(start_paused = true)]
async fn a_reader_goes_on_over_changes_of_attributes() {
    let desk = Desk::plain();
    let bytes = sample(1, 3 * MIB);
    let object = opened(&desk, &bytes).await;
    let read = |at: u64| {
        let mut reader = object.read_at(ByteRange::new(at, at + 10));
        async move { reader.next().await.expect("bytes") }
    };
    let mut tags = vec![object.version().etag.clone()];
    for (at, mode) in [(0, 0o100_600), (MIB, 0o100_640)] {
        change(&desk, mode).await;
        stored(&desk).await;
        let (version, _) = desk.bucket().object(KEY).expect("there");
        tags.push(version.etag.clone());
        let part = usize::try_from(at).expect("small");
        assert_eq!(read(at).await, Ok(bytes.slice(part..part + 10)));
    }
    assert_ne!(tags[0], tags[1], "the test means something");
    desk.bucket().put(KEY, sample(2, 3 * MIB));
    assert_eq!(read(2 * MIB).await, Err(Error::Changed));
    // The version that was opened may come back.
    desk.write(KEY, &bytes).await;
    let (version, _) = desk.bucket().object(KEY).expect("there");
    assert_eq!(version.etag, tags[0]);
    assert!(read(2 * MIB).await.is_ok());
}

/// The store has made the copy, and its answer is on the way: a reader that is refused waits for that.
#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_the_answer_to_a_copy() {
    for is_answered in [true, false] {
        let desk = Desk::plain();
        let bytes = sample(1, 3 * PART);
        let object = opened(&desk, &bytes).await;
        let (id, before) = (source(&desk).object(&valid(KEY)), &object.version().etag);
        let copy = desk.world.engine.core().begin_self_copy(&id, before);
        desk.bucket().put(KEY, bytes.clone());
        let (after, _) = desk.bucket().object(KEY).expect("there");
        assert_ne!(*before, after.etag);
        let end = async {
            pass(secs(3)).await;
            match is_answered {
                true => copy.made(&after.etag),
                false => drop(copy),
            }
        };
        let (read, ()) = tokio::join!(whole(&object), end);
        let expected = match is_answered {
            true => Ok(bytes),
            false => Err(Error::Changed),
        };
        assert_eq!(read, expected);
    }
}

/// Objects that are too large for one copy, by a limit that a test can exceed: a mode that is set once the upload has
/// begun, one that is set after the close, and a rename.
#[tokio::test(start_paused = true)]
async fn an_object_too_large_for_one_copy_keeps_its_attributes() {
    let desk = Desk::new(Terms {
        max_copy: 2 * PART,
        ..Terms::default()
    });
    let bytes = sample(1, 5 * PART);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &bytes).await;
    until(|| desk.bucket().count("begin") > 0).await;
    let set = |it: &mut Attributes| it.mode = Some(0o100_640);
    writer.set_attributes(set).await;
    writer.commit(Commit::Close).await.expect("committed");
    drop(writer);
    assert_eq!(stored(&desk).await.0, Some(0o100_640));

    change(&desk, 0o100_600).await;
    assert_eq!(stored(&desk).await, (Some(0o100_600), Some(EARLIER)));

    let (from, to) = (valid(KEY), valid(OTHER));
    let renamed = desk.writers.rename(source(&desk), &from, &to).await;
    renamed.expect("renamed");
    let (version, moved) = desk.bucket().object(OTHER).expect("there");
    assert_eq!(Attributes::of(&version.headers).mode, Some(0o100_600));
    assert_eq!(moved, bytes);
    assert_eq!(desk.bucket().keys(), [OTHER]);
    assert_eq!(desk.bucket().count("copy"), 0);
    assert!(desk.bucket().uploads_under_way().is_empty());
}

/// Another program replaces the object while its metadata are set by a copy in parts: its version stays.
#[tokio::test(start_paused = true)]
async fn a_copy_in_parts_onto_itself_replaces_no_other_version() {
    let desk = Desk::new(Terms {
        max_copy: 2 * PART,
        ..Terms::default()
    });
    let writer = desk.create(KEY).await;
    put(&writer, 0, &sample(1, 5 * PART)).await;
    until(|| desk.bucket().count("begin") > 0).await;
    let set = |it: &mut Attributes| it.mode = Some(0o100_640);
    writer.set_attributes(set).await;
    let late = || [Fault::Latency(secs(1))];
    let replaced = async {
        until(|| desk.bucket().count("copy_part") > 0).await;
        desk.bucket().fail_from("complete", late(), []);
        // The parts are those of the version before.
        until(|| desk.bucket().count("complete") == 2).await;
        desk.bucket().put(KEY, "of another program");
    };
    desk.bucket().fail_from("copy_part", late(), []);
    let (closed, ()) = tokio::join!(writer.commit(Commit::Close), replaced);
    assert!(closed.is_err());
    assert_eq!(desk.object(KEY), Some("of another program".into()));
}
