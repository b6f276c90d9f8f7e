//! A disk that becomes read-only under a promised object, and keeps its journal.

use bytes::Bytes;
use fuser::Errno;
use tidegate_write::{Commit, WriteError};

use super::engine::{secs, valid};
use super::life::{self, KEY, Life, opened, taken_up};
use super::sick_fs::SickFs;
use super::spool::{down, until};

/// The way in which the object is changed once it is in the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeOfObject {
    Replaced,
    Deleted,
}

/// What a program was told of its change: while the disk is read-only, and then.
type Outcome = (Result<(), WriteError>, Result<(), WriteError>);

/// Has an object promised before the disk becomes read-only. It is published, and then changed. If the disk `heals`, the
/// program tries once more.
async fn changed(sick: &SickFs, change: ChangeOfObject, heals: bool) -> (Outcome, Option<Bytes>) {
    let bucket = life::bucket();
    let started = Life::Small.start(&sick.path("spool"), bucket.clone());
    let (world, writers) = started.expect("healthy");
    bucket.set_faults([down()]);
    let writer = opened(&world, &writers).await;
    writer.write_at(0, "old".into()).await.expect("written");
    writer.commit(Commit::Background).await.expect("promised");
    drop(writer);
    until(|| writers.pending().iter().all(|it| it.trouble.is_some())).await;
    sick.fail(Some(Errno::EROFS));
    bucket.set_faults([]);
    writers.settled().await;
    let published = bucket.object(KEY).map(|(_, bytes)| bytes);
    assert_eq!(published, Some("old".into()), "that needs no disk");
    let writer = match change {
        ChangeOfObject::Replaced => Some(opened(&world, &writers).await),
        ChangeOfObject::Deleted => None,
    };
    if let Some(writer) = &writer {
        writer.write_at(0, "new".into()).await.expect("written");
    }
    let key = valid(KEY);
    let tries = async || match &writer {
        Some(writer) => writer.commit(Commit::Close).await,
        None => writers.remove(&world.source, &key).await,
    };
    let first = tries().await;
    if heals {
        sick.fail(None);
    }
    let second = tries().await;
    world.engine.close(secs(5)).await;
    drop(writer);
    let restarted = SickFs::over(sick.disk());
    let found = taken_up(Life::Small, &restarted.path("spool"), bucket).await;
    ((first, second), found)
}

#[tokio::test(start_paused = true)]
async fn what_a_read_only_disk_keeps_replaces_nothing_newer() {
    for change in [ChangeOfObject::Replaced, ChangeOfObject::Deleted] {
        let after = (change == ChangeOfObject::Replaced).then(|| "new".into());
        for heals in [false, true] {
            let sick = SickFs::mount(&["spool"]);
            let ((first, second), found) = changed(&sick, change, heals).await;
            assert!(first.is_err_and(|error| error.is_passing()), "{change:?}");
            assert_eq!(second.is_ok(), heals, "{change:?}: {second:?}");
            let wanted = if heals {
                after.clone()
            } else {
                Some("old".into())
            };
            assert_eq!(found, wanted, "{change:?}, {heals}");
        }
    }
}
