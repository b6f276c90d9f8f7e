//! A spool disk that has become read-only: it keeps the journal of a promised draft. Nothing newer is acknowledged, for the
//! next process publishes that draft.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::stream;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use tempfile::TempDir;
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::digest::Digests;
use tidegate_write::receive::{ClientDisconnect, IncomingObject, WriteCondition};
use tidegate_write::{Commit, OpenMode, Stage, WriteError, Writer};

use crate::support::engine::{Setup, secs, valid};
use crate::support::spool::{Desk, Terms, copy_of, down, put, set_owner, source, until};

const KEY: &str = "folder/object";
const OTHER: &str = "folder/other";

/// A disk that has one journal, and can be made to keep it.
struct Disk {
    journal: OwnedFd,
    spool: PathBuf,
    elsewhere: TempDir,
}

impl Disk {
    fn new(spool: &TempDir) -> Self {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let journal = memfd_create("journal", flags).expect("memory");
        let name = spool.path().join("0000000000000001.journal");
        let path = format!("/proc/self/fd/{}", journal.as_raw_fd());
        std::os::unix::fs::symlink(path, name).expect("a name");
        Self {
            journal,
            spool: spool.path().to_owned(),
            elsewhere: tempfile::tempdir().expect("a folder"),
        }
    }

    /// From here on the journal can neither be written to nor durably deleted, and no file can be made.
    fn becomes_read_only(&self) {
        let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK;
        fcntl_add_seals(&self.journal, all).expect("sealed");
        std::fs::rename(&self.spool, self.elsewhere.path().join("spool")).expect("moved");
    }

    /// Returns what the next process finds.
    fn found(&self) -> TempDir {
        copy_of(self.elsewhere.path().join("spool"))
    }
}

/// A change that makes the waiting draft older.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newer {
    /// An HTTP PUT.
    Put,
    /// An HTTP DELETE.
    Delete,
    Removed,
    /// Another object gets its name.
    Renamed,
    /// Another new file gets its name before anything was sent.
    RenamedUnsent,
    /// A program replaces it, and closes it.
    Replaced,
    /// A program changes it in place, and closes it.
    Changed,
}

async fn carry_out(desk: &Desk, disk: &Disk, newer: Newer) -> Result<(), WriteError> {
    let (path, key, other) = (desk.writers.write_path(), valid(KEY), valid(OTHER));
    let source = source(desk);
    let writer = match newer {
        Newer::Replaced => Some(desk.create(KEY).await),
        Newer::Changed => Some(desk.open(KEY, OpenMode::Change).await.expect("opened")),
        Newer::RenamedUnsent => Some(desk.create(OTHER).await),
        _ => None,
    };
    if newer == Newer::Replaced || newer == Newer::RenamedUnsent {
        put(writer.as_ref().expect("opened"), 0, &"newer".into()).await;
    }
    disk.becomes_read_only();
    desk.bucket().set_faults([]);
    match (newer, writer) {
        (Newer::Put, _) => {
            let incoming = IncomingObject {
                headers: vec![],
                wanted: WriteCondition::Anything,
                length: None,
                digests: Digests::default(),
            };
            let body = stream::iter([Ok::<_, ClientDisconnect>(Bytes::from("newer"))]);
            let received = path.receive(source, &key, incoming, body);
            received.await.map(drop)
        }
        (Newer::Delete, _) => path.delete(source, &key, &WriteCondition::Anything).await,
        (Newer::Removed, _) => desk.writers.remove(source, &key).await,
        (Newer::Renamed | Newer::RenamedUnsent, _) => {
            let renamed = desk.writers.rename(source, &other, &key).await;
            renamed.map(drop)
        }
        (Newer::Replaced, Some(writer)) => writer.commit(Commit::Close).await,
        (Newer::Changed, Some(writer)) => {
            set_owner(&writer, 7).await;
            writer.commit(Commit::Close).await
        }
        (newer, None) => unreachable!("{newer:?} opens it"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_disk_keeps_is_not_made_older() {
    for newer in [
        Newer::Put,
        Newer::Delete,
        Newer::Removed,
        Newer::Renamed,
        Newer::RenamedUnsent,
        Newer::Replaced,
        Newer::Changed,
    ] {
        let spool = tempfile::tempdir().expect("a folder");
        let disk = Disk::new(&spool);
        let world = Setup::bucket(FakeOrigin::new().with_min_part(1)).build();
        let desk = Desk::over(world, spool, &Terms::background());
        desk.bucket().put(KEY, "before");
        if newer == Newer::Renamed {
            desk.bucket().put(OTHER, "newer");
        }
        desk.bucket().set_faults([down()]);
        desk.write(KEY, &"old".into()).await;
        until(|| desk.writers.pending()[0].stage == Stage::Waiting).await;
        let done = carry_out(&desk, &disk, newer).await;
        let refused = done.expect_err("it would come to nothing");
        assert!(
            matches!(refused, WriteError::Spool(_)),
            "{newer:?}: {refused}"
        );
        let now = desk.bucket().object(KEY).expect("not deleted");
        assert!(
            ["before", "old"].map(Bytes::from).contains(&now.1),
            "{newer:?}"
        );
        assert!(
            now.0
                .headers
                .iter()
                .all(|(name, _)| !name.as_str().ends_with("uid"))
        );
        let is_there = newer == Newer::Renamed;
        assert_eq!(desk.object(OTHER).is_some(), is_there, "{newer:?}");

        let terms = Terms::background();
        let again = desk.started_again(disk.found(), [], &terms).await;
        again.writers.settled().await;
        assert_eq!(again.object(KEY), Some("old".into()), "{newer:?}");
    }
}

/// Returns a desk whose spool is on such a disk.
fn on_disk() -> (Disk, Desk) {
    let spool = tempfile::tempdir().expect("a folder");
    let disk = Disk::new(&spool);
    let world = Setup::bucket(FakeOrigin::new().with_min_part(1)).build();
    (disk, Desk::over(world, spool, &Terms::background()))
}

/// The disk becomes read-only while the next object is on its way into the bucket.
async fn becomes_read_only_in_a_put(disk: &Disk, desk: &Desk) {
    until(|| desk.bucket().count("put") == 1).await;
    disk.becomes_read_only();
}

/// Opens an object, and writes and syncs it. The program goes on, so nothing of it is sent.
async fn synced(desk: &Desk, key: &str, bytes: &'static str) -> Writer {
    let writer = desk.create(key).await;
    put(&writer, 0, &bytes.into()).await;
    writer.sync().await.expect("promised");
    writer
}

/// The disk keeps the journal of a draft that a rename has replaced, once the object has its new name. The next process
/// undoes the rename, so it needs what was promised under the old name, and nothing newer gets that name.
#[tokio::test(start_paused = true)]
async fn what_was_renamed_over_a_kept_journal_is_there_under_its_old_name() {
    let (disk, desk) = on_disk();
    let waits = synced(&desk, OTHER, "waits").await;
    let writer = synced(&desk, KEY, "new").await;
    let (old, new) = (valid(KEY), valid(OTHER));
    desk.bucket()
        .fail_from("put", [Fault::Latency(secs(2))], []);
    let breaks = becomes_read_only_in_a_put(&disk, &desk);
    let renames = desk.writers.rename(source(&desk), &old, &new);
    let (renamed, ()) = tokio::join!(renames, breaks);
    let refused = renamed.expect_err("the next process undoes it");
    assert!(matches!(refused, WriteError::Spool(_)), "{refused}");
    let later = desk.create(KEY).await;
    put(&later, 0, &"later".into()).await;
    let refused = later.commit(Commit::Close).await;
    let refused = refused.expect_err("the next process undoes it");
    assert!(matches!(refused, WriteError::Spool(_)), "{refused}");
    assert_eq!(desk.object(KEY), None);
    let found = disk.found();
    let again = desk
        .started_again(found, [waits, writer, later], &Terms::background())
        .await;
    again.writers.settled().await;
    assert_eq!(again.object(KEY), Some("new".into()));
    assert_eq!(again.object(OTHER), Some("waits".into()));
}

/// The disk keeps the journal of a draft that was published: nothing is renamed over its object.
#[tokio::test(start_paused = true)]
async fn nothing_gets_the_name_of_a_kept_journal() {
    let (disk, desk) = on_disk();
    let kept = synced(&desk, KEY, "kept").await;
    desk.bucket().put(OTHER, "another");
    desk.bucket()
        .fail_from("put", [Fault::Latency(secs(2))], []);
    let breaks = becomes_read_only_in_a_put(&disk, &desk);
    let (closed, ()) = tokio::join!(kept.commit(Commit::Close), breaks);
    closed.expect("it is in the bucket");
    let (old, new) = (valid(OTHER), valid(KEY));
    let renamed = desk.writers.rename(source(&desk), &old, &new).await;
    let refused = renamed.expect_err("the next process undoes it");
    assert!(matches!(refused, WriteError::Spool(_)), "{refused}");
    assert_eq!(desk.object(KEY), Some("kept".into()));
    assert_eq!(desk.object(OTHER), Some("another".into()));
}

/// The bytes of a draft are at hand, so its close publishes them, though nothing else can be promised.
#[tokio::test(start_paused = true)]
async fn a_close_publishes_a_draft_whose_files_were_removed() {
    let desk = Desk::plain();
    desk.bucket().put(KEY, "before");
    let writer = desk.change(KEY).await;
    put(&writer, 6, &" and after".into()).await;
    writer.sync().await.expect("durable");
    for entry in std::fs::read_dir(desk.spool.path()).expect("readable") {
        std::fs::remove_file(entry.expect("a file").path()).expect("removed");
    }
    assert!(matches!(writer.sync().await, Err(WriteError::Spool(_))));
    writer.commit(desk.commit).await.expect("published");
    assert_eq!(desk.object(KEY), Some("before and after".into()));
}

/// The files of the spool are removed under the running process. What is written from then on has files with names; what
/// had files is promised no more.
#[tokio::test(start_paused = true)]
async fn what_is_removed_from_the_spool_is_not_promised() {
    let terms = Terms::background();
    let desk = Desk::new(terms);
    desk.write(OTHER, &"published".into()).await;
    desk.writers.settled().await;
    let remove_files = || {
        for entry in std::fs::read_dir(desk.spool.path()).expect("readable") {
            std::fs::remove_file(entry.expect("a file").path()).expect("removed");
        }
    };
    remove_files();
    desk.bucket().set_faults([down()]);
    let early = desk.create(OTHER).await;
    put(&early, 0, &"before".into()).await;
    early.sync().await.expect("durable");
    remove_files();
    assert!(matches!(early.sync().await, Err(WriteError::Spool(_))));
    let closed = early.commit(desk.commit).await;
    assert!(matches!(closed, Err(WriteError::Spool(_))), "{closed:?}");
    let later = desk.create(KEY).await;
    put(&later, 0, &"after".into()).await;
    later.commit(desk.commit).await.expect("promised");
    let copy = copy_of(&desk.spool);
    desk.bucket().set_faults([]);
    let desk = desk
        .started_again(copy, [early, later], &Terms::background())
        .await;
    desk.writers.settled().await;
    assert_eq!(desk.object(KEY), Some("after".into()));
}
