//! Renames of folders that a crash, or the end of the process, has cut: the next process goes on with them.

use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tidegate_engine::names::NameKind;
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_write::{FolderRename, WriteError, left_in_spool};

use crate::support::engine::{Setup, pass, sample, secs};
use crate::support::spool::{Desk, PART, Terms, copy_of, down, source, until};

mod copies;
mod kept;
mod others;

const FILES: [&str; 5] = ["", "a", "deep/c", "deep/er/d", "parts"];
const NAMES: (&str, &str) = ("old/", "new/");

/// The time from the effect of a request, which comes after whole seconds, to a moment when nothing is done.
const BETWEEN: Duration = Duration::from_millis(500);

/// The seconds within which any of these renames ends.
const LONG: u64 = 120;

fn bytes(file: &str) -> Bytes {
    match file {
        "" => Bytes::new(),
        // Its tag is that of an upload in parts, and its copy has another one.
        "parts" => sample(1, 3 * PART),
        file => Bytes::from(file.to_owned()),
    }
}

/// Returns a desk with a folder `old/`.
async fn with_a_folder() -> Desk {
    let desk = Desk::plain();
    for file in FILES {
        let headers = [("x-amz-meta-mode", "0100600")];
        let key = format!("old/{file}");
        match file {
            "parts" => desk.write(&key, &bytes(file)).await,
            file => drop(desk.bucket().put_with(&key, bytes(file), &headers)),
        }
    }
    desk
}

async fn rename(desk: &Desk) -> Result<FolderRename, WriteError> {
    let writers = &desk.writers;
    let lock = writers.lock_folders(source(desk), [NAMES.0, NAMES.1]).await;
    writers.rename_folder(source(desk), NAMES, 9, &lock).await
}

/// Returns the keys of a folder, if each of them has its bytes.
fn there(bucket: &FakeOrigin, folder: &str) -> Vec<&'static str> {
    let is_there = |file: &&str| {
        let found = bucket.object(&format!("{folder}{file}"));
        found.is_some_and(|(_, found)| {
            assert_eq!(found, bytes(file), "{folder}{file}");
            true
        })
    };
    FILES.into_iter().filter(is_there).collect()
}

/// Gives each of the next requests another delay, so that their effects come one after the other.
fn spread(bucket: &FakeOrigin) {
    for n in 0..100 {
        bucket.fail_next([Fault::Latency(secs(1 + n % 6))]);
    }
}

/// A machine that was switched off during a rename: what is left of its disk and its bucket.
struct Cut {
    spool: TempDir,
    bucket: FakeOrigin,
}

impl Cut {
    /// Renames the folder, and switches the machine off between two requests, after some seconds. `None`: the rename
    /// has ended by then.
    async fn after(seconds: u64) -> Option<Self> {
        let time = secs(seconds) + BETWEEN;
        let desk = with_a_folder().await;
        spread(desk.bucket());
        tokio::select! {
            biased;
            renamed = rename(&desk) => {
                assert!(matches!(renamed, Ok(FolderRename::Copied(_))));
                None
            }
            cut = async { pass(time).await; Self::of(&desk) } => Some(cut),
        }
    }

    fn of(desk: &Desk) -> Self {
        Self {
            spool: copy_of(&desk.spool),
            bucket: desk.bucket().copied(),
        }
    }

    /// Returns the first cut at which the bucket is as a test wants it.
    async fn where_bucket(is: impl Fn(&FakeOrigin) -> bool) -> Self {
        for n in 0..LONG {
            let cut = Self::after(n).await.expect("no such cut");
            if is(&cut.bucket) {
                return cut;
            }
        }
        unreachable!("it ends before")
    }

    /// Returns a cut after some copies, and one after some deletions.
    async fn of_both_kinds() -> [Self; 2] {
        let has = |bucket: &FakeOrigin, folder| (1..5).contains(&there(bucket, folder).len());
        [
            Self::where_bucket(|bucket| has(bucket, "new/")).await,
            Self::where_bucket(|bucket| has(bucket, "old/")).await,
        ]
    }

    /// Starts the next process.
    fn start(self) -> Desk {
        let world = Setup::bucket(self.bucket.with_min_part(1)).build();
        Desk::over(world, self.spool, &Terms::default())
    }
}

impl Desk {
    async fn has_ended(&self) {
        let settled = tokio::time::timeout(secs(600), self.writers.settled());
        settled.await.expect("it ends");
    }

    fn halves(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        (there(self.bucket(), "old/"), there(self.bucket(), "new/"))
    }

    /// Returns the number of records of renames beside the spool.
    fn records(&self) -> usize {
        let entries = std::fs::read_dir(self.spool.path()).expect("readable");
        let names = entries.map(|entry| entry.expect("readable").file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("rename-"))
            .count()
    }

    async fn is_found(&self, path: &str) -> bool {
        let answer = self.world.engine.look_up(source(self), path, false).await;
        answer.expect("an answer").entry != NameKind::Missing
    }

    /// Returns which of both folders a listing shows.
    async fn shown(&self) -> (bool, bool) {
        let page = self.world.engine.list(source(self), "", None).await;
        let page = page.expect("a page");
        let has = |folder| page.names.iter().any(|(name, _)| name == folder);
        (has("old"), has("new"))
    }
}

/// Wherever the machine stops, the next process leaves one whole folder, under one of its names.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_time_leaves_one_whole_folder_in_the_end() {
    let (mut copying, mut removing) = (0, 0);
    for n in 0..LONG {
        let Some(cut) = Cut::after(n).await else {
            break;
        };
        let halves = (there(&cut.bucket, "old/"), there(&cut.bucket, "new/"));
        copying += usize::from(halves.0 == FILES && (1..5).contains(&halves.1.len()));
        removing += usize::from(halves.1 == FILES && (1..5).contains(&halves.0.len()));
        let desk = cut.start();
        let was_recorded = desk.records() > 0;
        desk.has_ended().await;
        let ended = desk.halves();
        match was_recorded {
            true => assert_eq!(ended, (vec![], FILES.to_vec()), "{n}: {halves:?}"),
            false => assert_eq!(ended, (FILES.to_vec(), vec![]), "{n}: {halves:?}"),
        }
        assert_eq!(desk.records(), 0, "{n}");
        let (version, _) = match was_recorded {
            true => desk.bucket().object("new/a").expect("there"),
            false => desk.bucket().object("old/a").expect("there"),
        };
        assert_eq!(version.headers.len(), 1, "{n}: its metadata came along");
    }
    assert!(copying > 2 && removing > 2, "{copying}, {removing}");
}

/// Returns which folders were shown one after the other while `work` was under way.
async fn turns_during(desk: &Desk, work: impl Future<Output = ()>) -> Vec<(bool, bool)> {
    let mut turns = Vec::new();
    let looks = async {
        loop {
            turns.push(desk.shown().await);
            pass(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = looks => {}
    }
    turns.push(desk.shown().await);
    turns.dedup();
    turns
}

/// Readers of names find the old folder until all copies are there, and the new one from then on.
#[tokio::test(start_paused = true)]
async fn a_rename_shows_one_folder_at_a_time() {
    let turns = [(true, false), (false, true)];
    let desk = with_a_folder().await;
    spread(desk.bucket());
    let renames = async { drop(rename(&desk).await.expect("renamed")) };
    assert_eq!(turns_during(&desk, renames).await, turns);

    let [copying, removing] = Cut::of_both_kinds().await;
    for (cut, turns) in [(copying, &turns[..]), (removing, &turns[1..])] {
        let desk = cut.start();
        assert_eq!(desk.shown().await, turns[0], "at once");
        for (folder, is_shown) in [("old", turns[0].0), ("new", turns[0].1)] {
            assert_eq!(desk.is_found(folder).await, is_shown, "{folder}");
            assert_eq!(desk.is_found(&format!("{folder}/a")).await, is_shown);
        }
        spread(desk.bucket());
        let used = desk.writers.use_paths(source(&desk), &["old/late"]);
        let used = tokio::time::timeout(secs(1), used);
        assert!(used.await.is_err(), "names in it wait");
        assert_eq!(turns_during(&desk, desk.has_ended()).await, turns);
    }
}

/// A bucket that is down holds up neither the start nor, once it is back, the rename.
#[tokio::test(start_paused = true)]
async fn it_waits_for_a_bucket_that_is_down() {
    for cut in Cut::of_both_kinds().await {
        let left = left_in_spool(cut.spool.path()).expect("readable");
        assert_eq!(
            left, 1,
            "it counts as left as long as no process has the spool"
        );
        cut.bucket.set_faults([down()]);
        let desk = cut.start();
        pass(secs(300)).await;
        assert_eq!(desk.records(), 1);
        desk.bucket().set_faults([]);
        desk.has_ended().await;
        assert_eq!(desk.halves(), (vec![], FILES.to_vec()));
        assert_eq!(desk.records(), 0);
    }
}

/// An orderly end waits for a rename; one that is cut short leaves it to the next process.
#[tokio::test(start_paused = true)]
async fn an_orderly_end_waits_for_a_rename_or_leaves_it() {
    let desk = with_a_folder().await;
    spread(desk.bucket());
    let settles = async {
        pass(secs(4)).await;
        desk.writers.settled().await;
        assert_eq!(desk.halves(), (vec![], FILES.to_vec()));
    };
    let (renamed, ()) = tokio::join!(rename(&desk), settles);
    assert!(matches!(renamed, Ok(FolderRename::Copied(_))));

    for n in 0..30 {
        let desk = with_a_folder().await;
        spread(desk.bucket());
        let closes = async {
            pass(secs(n) + BETWEEN).await;
            desk.world.engine.close(BETWEEN / 4).await;
        };
        // What is under way by then goes with the runtime.
        tokio::select! {
            renamed = rename(&desk) => drop(renamed.expect("renamed")),
            () = closes => {}
        }
        let next = Cut::of(&desk).start();
        next.has_ended().await;
        let halves = next.halves();
        assert!(
            [(0, 5), (5, 0)].contains(&(halves.0.len(), halves.1.len())),
            "{n}: {halves:?}"
        );
        assert_eq!(next.records(), 0);
    }
}
