//! New files of several parts that are closed in the background: their upload begins at the close.

use bytes::Bytes;
use tidegate_plan::attributes::{Attributes, UnixTime};
use tidegate_write::{Commit, OpenMode, Writer};

use crate::support::engine::{MIB, pass, sample, secs, settle, valid};
use crate::support::spool::{Desk, FILES, PART, Terms, down, put, set_owner, source, until};

mod renames;

const KEY: &str = "folder/book";
const OTHER: &str = "folder/other";
const TEMPORARY: &str = "folder/.book.AbC123";

/// The time that a program sets.
const EARLIER: UnixTime = UnixTime::new(1_000_000, 0);

/// An object of three parts of the usual size, and a desk that has such parts.
fn large() -> (Desk, Bytes) {
    let desk = Desk::new(Terms {
        part: 16 * MIB,
        ..Terms::background()
    });
    (desk, sample(1, 40 * MIB))
}

/// Writes as the kernel does.
async fn put_large(writer: &Writer, bytes: &Bytes) {
    let step = usize::try_from(MIB).expect("small");
    for (piece, at) in bytes.chunks(step).zip((0..).step_by(step)) {
        let piece = bytes.slice_ref(piece);
        writer.write_at(at, piece).await.expect("written");
    }
}

/// Sets an attribute through a handle of its own, as a mount does once the file is closed.
async fn set_later(desk: &Desk, key: &str, change: impl FnOnce(&mut Attributes)) {
    let writer = desk.open(key, OpenMode::Change).await.expect("opened");
    writer.set_attributes(change).await;
    writer.commit(Commit::Background).await.expect("promised");
}

fn set_mode(it: &mut Attributes) {
    it.mode = Some(0o100_640);
}

fn set_time(it: &mut Attributes) {
    it.modified = Some(EARLIER);
}

/// `cp -a` and `tar x` set the time before the close, the second one more after it; `rsync -a` sets all after it, under
/// another name. The one HEAD is the look at the length that each upload in parts ends with.
#[tokio::test(start_paused = true)]
async fn a_large_file_costs_its_upload_whatever_is_set() {
    for (how, key) in [("cp", KEY), ("tar", KEY), ("rsync", TEMPORARY)] {
        let (desk, bytes) = large();
        desk.bucket().put(OTHER, "replaced");
        let before = (desk.bucket().gets(), desk.bucket().lists());
        let writer = desk.open(key, OpenMode::CreateNew).await.expect("opened");
        let heads = desk.bucket().heads();
        put_large(&writer, &bytes).await;
        if how != "rsync" {
            writer.set_attributes(set_mode).await;
            writer.set_attributes(set_time).await;
        }
        writer.commit(Commit::Background).await.expect("promised");
        drop(writer);
        let mut named = key;
        if how != "cp" {
            set_later(&desk, key, |it| it.uid = Some(7)).await;
        }
        if how == "rsync" {
            set_later(&desk, key, set_mode).await;
            set_later(&desk, key, set_time).await;
            assert_eq!(desk.bucket().writes(), Vec::<&str>::new());
            let (from, to) = (valid(key), valid(OTHER));
            let renamed = desk.writers.rename(source(&desk), &from, &to).await;
            renamed.expect("renamed");
            named = OTHER;
        }
        desk.writers.settled().await;
        settle().await;
        let mut writes = desk.bucket().writes();
        writes.sort_unstable();
        assert_eq!(
            writes,
            ["begin", "complete", "part", "part", "part"],
            "{how}"
        );
        let after = (desk.bucket().gets(), desk.bucket().lists());
        assert_eq!(after, before, "{how}");
        assert_eq!(desk.bucket().heads(), heads + 1, "{how}");
        let (version, stored) = desk.bucket().object(named).expect("there");
        assert!(stored == bytes, "{how}");
        let stored = Attributes::of(&version.headers);
        let expected = (Some(0o100_640), Some(EARLIER));
        assert_eq!((stored.mode, stored.modified), expected, "{how}");
        assert_eq!(desk.object(TEMPORARY), None, "{how}");
    }
}

/// The upload is begun after the last write, so it has the time of the content, as a PUT has.
#[tokio::test(start_paused = true)]
async fn an_upload_that_waited_has_the_time_of_the_content() {
    let desk = Desk::new(Terms::background());
    let writer = desk.create(KEY).await;
    writer.set_attributes(set_mode).await;
    put(&writer, 0, &sample(1, 3 * PART)).await;
    let modified = writer.snapshot().modified;
    writer.commit(Commit::Background).await.expect("promised");
    desk.writers.settled().await;
    let (version, _) = desk.bucket().object(KEY).expect("there");
    let stored = Attributes::of(&version.headers);
    assert_eq!(stored.modified, Some(modified.into()));
    assert_eq!(desk.bucket().count("copy"), 0);
}

/// Four parts are what never leaves the spool of an open file here: a larger one makes room by being sent.
#[tokio::test(start_paused = true)]
async fn a_larger_file_is_sent_while_it_is_written() {
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 5 * PART);
    let writer = desk.create(KEY).await;
    let (within, beyond) = (4 * PART as usize, 4 * PART);
    put(&writer, 0, &bytes.slice(..within)).await;
    pass(secs(5)).await;
    assert_eq!(desk.bucket().writes(), Vec::<&str>::new());
    put(&writer, beyond, &bytes.slice(within..)).await;
    until(|| desk.bucket().count("part") == 5).await;
    set_owner(&writer, 7).await;
    writer.commit(Commit::Background).await.expect("promised");
    desk.writers.settled().await;
    assert_eq!(desk.bucket().count("copy"), 1);
    assert_eq!(desk.object(KEY), Some(bytes));
}

/// Closes that return once the object is in the bucket are short because parts are there already.
#[tokio::test(start_paused = true)]
async fn a_handle_that_closes_in_the_foreground_has_the_parts_sent() {
    let desk = Desk::new(Terms::background());
    let writer = desk.create(KEY).await;
    let bytes = sample(1, 3 * PART);
    put(&writer, 0, &bytes.slice(..2 * PART as usize)).await;
    let other = desk.change(KEY).await;
    other.announce_commit(Commit::Close);
    desk.change(KEY).await;
    put(&writer, 2 * PART, &bytes.slice(2 * PART as usize..)).await;
    until(|| desk.bucket().count("part") == 3).await;
}

/// The close of a name that the store may refuse waits for the bucket, so it is short if parts are there already. A
/// temporary name is closed like a short one.
#[tokio::test(start_paused = true)]
async fn a_long_name_has_its_parts_sent_ahead_unless_it_is_temporary() {
    let bytes = sample(1, 3 * PART);
    let long = "n".repeat(230);
    for (key, parts) in [(long.clone(), 3), (format!(".{long}.AbC123"), 0)] {
        let desk = Desk::new(Terms::background());
        let writer = desk.create(&key).await;
        put(&writer, 0, &bytes).await;
        pass(secs(5)).await;
        assert_eq!(desk.bucket().count("part"), parts, "{key}");
        writer.commit(Commit::Background).await.expect("closed");
        assert_eq!(desk.object(&key).is_some(), parts > 0, "{key}");
        desk.writers.settled().await;
        assert_eq!(desk.object(&key), Some(bytes.clone()));
    }
}

/// A change of an object that is there sends its parts ahead.
#[tokio::test(start_paused = true)]
async fn an_overwrite_in_place_does_not_wait() {
    let desk = Desk::new(Terms::background());
    desk.bucket().put(KEY, sample(1, 3 * PART));
    let writer = desk.change(KEY).await;
    put(&writer, 0, &sample(2, 2 * PART)).await;
    until(|| desk.bucket().count("part") == 2).await;
}

/// Files wait as long as half of the spool is free. Beyond that they are sent, so that a file that is larger than the room
/// that is left finds some.
#[tokio::test(start_paused = true)]
async fn no_file_waits_where_the_spool_is_short_of_room() {
    let part = 10 * FILES;
    let terms = || Terms {
        size: 33 * part,
        part,
        ..Terms::background()
    };
    let desk = Desk::new(terms());
    let bytes = sample(1, 4 * part);
    let (mut open, mut sent) = (Vec::new(), Vec::new());
    for n in 0..6 {
        let writer = desk.create(&format!("file-{n}")).await;
        put_large(&writer, &bytes).await;
        pass(secs(1)).await;
        open.push(writer);
        sent.push(desk.bucket().count("part") > 0);
    }
    assert_eq!(sent, [false, false, false, false, true, true]);
    let last = desk.create(OTHER).await;
    put(&last, 0, &sample(2, 40 * part)).await;
    for writer in open.iter().chain([&last]) {
        writer.commit(Commit::Background).await.expect("promised");
    }
    desk.writers.settled().await;
    assert_eq!(desk.bucket().keys().len(), 7);

    // What was closed under a temporary name waits for its rename no longer.
    let desk = Desk::new(terms());
    let begun = tokio::time::Instant::now();
    desk.write(TEMPORARY, &bytes).await;
    let mut open = Vec::new();
    for n in 0..4 {
        let writer = desk.create(&format!("file-{n}")).await;
        put_large(&writer, &bytes).await;
        open.push(writer);
    }
    until(|| desk.object(TEMPORARY).is_some()).await;
    assert!(begun.elapsed() < secs(1));
}

/// A file that is open for days takes no more memory from others than a small one, also if its length is there first.
#[tokio::test]
async fn a_file_that_waits_holds_the_memory_of_one_part() {
    for first in ["nothing", "its length", "its last byte"] {
        let (desk, bytes) = large();
        let writer = desk.create(KEY).await;
        let (size, most) = (bytes.len() as u64, 16 * MIB + MIB);
        match first {
            "its length" => writer.truncate(size).await.expect("longer"),
            "its last byte" => put(&writer, size - 1, &"x".into()).await,
            _ => {}
        }
        for (n, piece) in bytes.chunks(1 << 20).enumerate() {
            let at = n as u64 * MIB;
            let piece = desk.writers.copy(piece);
            writer.write_at(at, piece).await.expect("written");
        }
        until(|| desk.world.used() <= most).await;
        assert_eq!(desk.bucket().writes(), Vec::<&str>::new(), "{first}");
        writer.commit(Commit::Background).await.expect("promised");
        desk.writers.settled().await;
        assert!(desk.object(KEY) == Some(bytes), "{first}");
    }
}

/// Its `fsync` promises what it has promised before.
#[tokio::test(start_paused = true)]
async fn what_was_synced_in_the_middle_outlives_the_machine() {
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 4 * PART);
    let synced = bytes.slice(..3 * PART as usize);
    let writer = desk.create(KEY).await;
    put(&writer, 0, &synced).await;
    writer.sync().await.expect("synced");
    assert_eq!(desk.bucket().writes(), Vec::<&str>::new());
    let again = desk.switched_off([writer], &Terms::background()).await;
    again.writers.settled().await;
    assert_eq!(again.object(KEY), Some(synced));
}

/// The bucket is down at the close: the file is tried again, and begins one upload.
#[tokio::test(start_paused = true)]
async fn a_file_that_waited_is_tried_again() {
    let desk = Desk::new(Terms::background());
    let bytes = sample(1, 3 * PART);
    desk.bucket().set_faults([down()]);
    desk.write(KEY, &bytes).await;
    pass(secs(30)).await;
    desk.bucket().set_faults([]);
    desk.writers.settled().await;
    assert_eq!(desk.object(KEY), Some(bytes));
    assert!(desk.bucket().uploads_under_way().is_empty());
}
