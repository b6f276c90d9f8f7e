//! Folder prefetch of small objects that are read in order: each once, at no other reader's
//! expense.

use std::time::Duration;

use bytes::Bytes;
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;
use tidegate_plan::{Profile, RangeSpec};
use tokio::time::Instant;

use crate::support::*;

const SIZE: u64 = 8000;
const SMALL: u64 = MIB;
const LATENCY: Duration = Duration::from_millis(20);

fn path(n: u64) -> String {
    format!("folder/{n:04}")
}

/// Builds a folder of `count` small objects in a bucket 20 ms away, none of them listed.
fn folder(count: u64, setup: Setup) -> World {
    let world = setup.build();
    for n in 0..count {
        world.bucket.put(&path(n), sample(n, SIZE));
    }
    world.bucket.put("folder/0001.d/inner", "x");
    world.bucket.put("folder/large", sample(9, 2 * MIB));
    world.bucket.set_faults([Fault::Latency(LATENCY)]);
    world
}

impl World {
    async fn list(&self) {
        let mut from = None;
        loop {
            let page = self.engine.list(&self.source, "folder/", from).await;
            from = page.expect("a page").next;
            if from.is_none() {
                break;
            }
        }
    }

    /// Opens a file whose size is known, and reads it whole, as a mount does.
    async fn pass_by(&self, n: u64) -> Result<Bytes, Error> {
        let wanted = RangeSpec::Bounded {
            first: 0,
            last: SIZE - 1,
        };
        let object = self.open(&path(n), first(wanted)).await?;
        self.engine.record_whole_read(&self.source, &object, SMALL);
        whole(&object).await
    }

    async fn pass_through(&self, files: impl IntoIterator<Item = u64>) -> Duration {
        let since = Instant::now();
        for n in files {
            let got = self.pass_by(n).await.expect("it is there");
            same(&got, &sample(n, SIZE));
        }
        since.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_walk_through_a_folder_waits_for_few() {
    let world = folder(400, Setup::default());
    world.list().await;
    let took = world.pass_through(0..400).await;
    settle().await;
    // Four at once, except for the first ones.
    assert!(took <= LATENCY * 120, "{took:?}");
    // One request each, and none for the large object.
    assert_eq!((world.asked(), world.bucket.lists()), ((400, 0), 1));
    assert_eq!(world.used(), 0);
    assert_eq!(world.pass_through(0..400).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn as_many_as_the_profile_allows_are_on_their_way() {
    let setup = Setup {
        profile: Profile::stream(),
        ..Setup::default()
    };
    let world = folder(400, setup);
    world.list().await;
    let took = world.pass_through(0..400).await;
    assert!(took <= LATENCY * 45, "{took:?}");
    assert_eq!(world.bucket.gets(), 400);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_fetched_that_no_reader_comes_near() {
    // The folder is not listed, or is not read in its order, or the profile has no read-ahead.
    let unlisted = folder(50, Setup::default());
    unlisted.pass_through(0..50).await;
    let scattered = folder(50, Setup::default());
    scattered.list().await;
    let order = (0..10).flat_map(|n| (0..5).map(move |step| n + 10 * step));
    scattered.pass_through(order).await;
    let setup = Setup {
        profile: Profile::documents(),
        ..Setup::default()
    };
    let documents = folder(50, setup);
    documents.list().await;
    documents.pass_through(0..50).await;
    for world in [&unlisted, &scattered, &documents] {
        settle().await;
        pass(LATENCY * 2).await;
        assert_eq!(world.asked(), (50, 0));
    }
    // A reader that leaves after ten has cost twenty requests at most.
    let left = folder(50, Setup::default());
    left.list().await;
    left.pass_through(0..10).await;
    pass(LATENCY * 20).await;
    assert!(left.bucket.gets() <= 20, "{}", left.bucket.gets());
}

#[tokio::test(start_paused = true)]
async fn what_changed_since_it_was_listed_is_read_as_it_is() {
    let world = folder(20, Setup::default());
    world.list().await;
    let larger = sample(99, 50_000);
    world.bucket.put(&path(10), larger.clone());
    world.bucket.delete(&path(12));
    world.pass_through(0..10).await;
    pass(LATENCY * 4).await;
    let object = world.get(&path(10)).await.expect("it is there");
    same(&whole(&object).await.expect("whole"), &larger);
    world.pass_through([11]).await;
    assert_eq!(world.pass_by(12).await, Err(Error::NotFound));
    world.pass_through(13..20).await;
}

#[tokio::test(start_paused = true)]
async fn no_reader_waits_for_what_is_fetched_ahead() {
    let mut setup = Setup::default();
    setup.origin.max_requests = 4;
    let world = folder(100, setup);
    world.list().await;
    // Three readers of another object; the fourth place is kept for waiting readers.
    let slow = [Fault::Latency(LATENCY), Fault::Rate(1000)];
    world.bucket.set_faults(slow);
    let mut held = Vec::new();
    for n in 0..3 {
        let key = format!("other/{n}");
        world.bucket.put(&key, sample(7, MIB));
        held.push(world.get(&key).await.expect("open"));
    }
    world.bucket.set_faults([Fault::Latency(LATENCY)]);
    let took = world.pass_through(0..20).await;
    assert_eq!(took, LATENCY * 20, "each is fetched at once");
    assert_eq!(world.bucket.gets(), 3 + 20, "and no other is");
    drop(held);
    settle().await;
    // Prefetches that found no place are not tried again; later ones are.
    let took = world.pass_through(20..100).await;
    assert!(took <= LATENCY * 50, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_what_was_given_up_asks_for_itself() {
    let world = folder(1, Setup::default());
    let refused = Fault::Refuse(OriginError::Unavailable("refused once"));
    world.bucket.fail_next([Fault::Latency(LATENCY), refused]);
    let quiet = OpenOptions {
        first: Some(RangeSpec::From(0)),
        quiet: true,
        ..OpenOptions::default()
    };
    let key = path(0);
    let (quiet, reader) = tokio::join!(world.open(&key, quiet), async {
        settle().await;
        world.read(&key).await
    });
    assert_eq!(quiet.map(drop), Err(Error::Unavailable));
    same(&reader.expect("it is there"), &sample(0, SIZE));
    assert_eq!(world.bucket.gets(), 2);
}

#[tokio::test(start_paused = true)]
async fn memory_that_readers_need_is_left_to_them() {
    let setup = Setup {
        budget: 2 * MIB,
        ..Setup::default()
    };
    let world = folder(40, setup);
    world.list().await;
    let held = world.engine.budget().try_demand(MIB + MIB / 2);
    assert!(held.is_some());
    world.pass_through(0..40).await;
    settle().await;
    assert_eq!(world.bucket.gets(), 40);
    drop(held);
    assert_eq!(world.used(), 0);
}

/// A tree of folders with four small files each, 20 ms away.
fn tree(folders: u64) -> World {
    let world = Setup::default().build();
    for n in 0..folders * 4 {
        world.bucket.put(&in_tree(n), sample(n, SIZE));
    }
    world.bucket.set_faults([Fault::Latency(LATENCY)]);
    world
}

fn in_tree(n: u64) -> String {
    format!("tree/{:03}/{n:04}", n / 4)
}

impl World {
    /// Reads a folder of the tree, and then its files, as `tar` does.
    async fn pass_through_folder(&self, folder: u64) {
        let prefix = format!("tree/{folder:03}/");
        let page = self.engine.list(&self.source, &prefix, None).await;
        assert_eq!(page.expect("a page").names.len(), 4);
        for n in folder * 4..folder * 4 + 4 {
            let wanted = RangeSpec::Bounded {
                first: 0,
                last: SIZE - 1,
            };
            let object = self.open(&in_tree(n), first(wanted)).await.expect("open");
            self.engine.record_whole_read(&self.source, &object, SMALL);
            same(&whole(&object).await.expect("whole"), &sample(n, SIZE));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_tree_waits_for_few_in_the_next_folders() {
    let world = tree(100);
    let since = Instant::now();
    for folder in 0..100 {
        world.pass_through_folder(folder).await;
    }
    settle().await;
    // One folder by itself and one page for the others. Four files at once, except for the first ones.
    assert_eq!((world.asked(), world.bucket.lists()), ((400, 0), 2));
    assert!(since.elapsed() <= LATENCY * 130, "{:?}", since.elapsed());
    assert_eq!(world.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_one_folder_of_a_tree_has_none_of_the_next_fetched() {
    let world = tree(100);
    let page = world.engine.list(&world.source, "tree/000/", None).await;
    page.expect("a page");
    world.pass_through_folder(2).await;
    settle().await;
    pass(LATENCY * 4).await;
    assert_eq!(world.bucket.gets(), 4);
}
