//! The cost of a name's look-up, and the lifetime of its answer.

use std::time::Duration;

use tidegate_engine::names::{Answer, NameKind};
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::RangeSpec;

use crate::support::{self, *};

mod failing_origin;
mod remnants;
mod shown;

const DEEP: &str = "1/2/3/4/5/6/7/8/9/10";

impl World {
    async fn look(&self, path: &str) -> Result<Answer, Error> {
        self.engine.look_up(&self.source, path, false).await
    }

    async fn entry(&self, path: &str) -> NameKind {
        self.look(path).await.expect("an answer").entry
    }

    /// Returns the number of requests of any kind since the last call, and updates `before`.
    fn requests(&self, before: &mut u64) -> u64 {
        let all = self.bucket.gets() + self.bucket.heads() + self.bucket.lists();
        all - std::mem::replace(before, all)
    }

    /// Returns the cost of a path's look-up from its first folder on, name by name.
    async fn walk(&self, path: &str) -> Vec<u64> {
        let (mut costs, mut before) = (Vec::new(), 0);
        self.requests(&mut before);
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            self.look(&path[..end]).await.expect("an answer");
            costs.push(self.requests(&mut before));
        }
        costs
    }
}

fn is_file(entry: &NameKind, size: u64) -> bool {
    matches!(entry, NameKind::File(facts) if facts.size == size)
}

#[tokio::test(start_paused = true)]
async fn ten_folders_deep() {
    let world = World::plain();
    let key = format!("{DEEP}/file");
    world.bucket.put(&key, "12345");
    world.bucket.put("1/other", "x");
    let cold = world.walk(&key).await;
    assert!(cold.iter().all(|cost| *cost <= 2), "{cold:?}");
    // The first key of the first folder proves the other folders; the file costs its own request.
    assert_eq!(cold[1..10], [0; 9]);
    assert_eq!(world.walk(&key).await, [0; 11], "warm");
    assert_eq!(world.bucket.gets(), 0);

    world.bucket.put(&format!("{DEEP}/more"), "123456");
    let known = world.walk(&format!("{DEEP}/more")).await;
    assert_eq!((known[..10].iter().sum::<u64>(), known[10]), (0, 2));
    // After the look-up its version is known, so the open costs nothing.
    let mut before = 0;
    world.requests(&mut before);
    let first = RangeSpec::Bounded { first: 0, last: 9 };
    let object = world.open(&key, support::first(first)).await.expect("open");
    assert_eq!((object.version().size, world.requests(&mut before)), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_costs_two_and_is_remembered() {
    let world = World::plain();
    let mut before = 0;
    assert_eq!(world.entry("none").await, NameKind::Missing);
    assert_eq!(world.requests(&mut before), 2);
    assert_eq!(world.entry("none").await, NameKind::Missing);
    assert_eq!(world.requests(&mut before), 0);
    // A bare 404 creates no negative entry for a client that requests the object itself.
    world.bucket.put("none", "there");
    assert!(world.read("none").await.is_ok());
    // Once the object was found, the name no longer counts as missing.
    world.requests(&mut before);
    assert!(is_file(&world.entry("none").await, 5));
    assert_eq!(world.requests(&mut before), 0);
    pass(Duration::from_secs(6)).await;
    assert!(is_file(&world.entry("none").await, 5));
}

#[tokio::test(start_paused = true)]
async fn a_folder_wins_over_a_file_of_its_name() {
    let world = World::plain();
    world.bucket.put("both", "file");
    world.bucket.put("both/inner", "x");
    assert_eq!(world.entry("both").await, NameKind::Folder);
    let page = world.engine.list(&world.source, "", None).await;
    let names = page.expect("a page").names;
    assert_eq!(names, [("both".to_owned(), NameKind::Folder)]);
}

#[tokio::test(start_paused = true)]
async fn a_folder_may_be_an_object_that_ends_in_a_slash() {
    let world = World::plain();
    world.bucket.put("made/", "");
    assert_eq!(world.entry("made").await, NameKind::Folder);
    let page = world.engine.list(&world.source, "made/", None).await;
    assert!(page.expect("a page").names.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_listing_answers_for_every_name_on_it() {
    let world = World::plain();
    for n in 0..2500 {
        world.bucket.put(&format!("f/{n:04}"), "123");
    }
    world.bucket.put("f/sub/x", "x");
    let (mut place, mut names, mut pages) = (None, Vec::new(), 0);
    loop {
        let page = world.engine.list(&world.source, "f/", place).await;
        let page = page.expect("a page");
        names.extend(page.names);
        pages += 1;
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    assert_eq!((names.len(), pages, world.bucket.lists()), (2501, 3, 3));
    let mut before = 0;
    world.requests(&mut before);
    for (name, _) in &names {
        let entry = world.entry(&format!("f/{name}")).await;
        assert_eq!(entry == NameKind::Folder, name == "sub");
    }
    assert_eq!(world.requests(&mut before), 0);
    // The listing has no headers: a caller that needs them pays exactly one request.
    let whole = world.engine.look_up(&world.source, "f/0000", true).await;
    let NameKind::File(facts) = whole.expect("an answer").entry else {
        panic!("a file");
    };
    assert!(facts.version.is_some());
    assert_eq!(world.requests(&mut before), 1);
    // HTTP takes nothing from a listing as a version.
    let cached = OpenOptions {
        only_if_cached: true,
        ..OpenOptions::default()
    };
    let opened = world.open("f/0001", cached).await.map(drop);
    assert_eq!(opened, Err(Error::NotCached));
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_contradicts_a_version_has_it_confirmed() {
    let world = World::plain();
    world.bucket.put("f/k", "old");
    assert!(world.read("f/k").await.is_ok());
    pass(Duration::from_secs(1)).await;
    world.bucket.put("f/k", "newer");
    let page = world.engine.list(&world.source, "f/", None).await;
    assert!(is_file(&page.expect("a page").names[0].1, 5));
    assert!(is_file(&world.entry("f/k").await, 5));
    let read = world.read("f/k").await.expect("read");
    assert_eq!(&read[..], b"newer");
}

#[tokio::test(start_paused = true)]
async fn purges_are_seen_at_once() {
    let world = World::plain();
    world.bucket.put("a/b/old", "x");
    assert_eq!(world.entry("a/b").await, NameKind::Folder);
    assert_eq!(world.entry("a/new").await, NameKind::Missing);
    world.bucket.put("a/new/file", "1234");
    world.purge("a/new/file").await;
    assert_eq!(world.entry("a/new").await, NameKind::Folder);
    assert!(is_file(&world.entry("a/new/file").await, 4));
    world.bucket.delete("a/b/old");
    world.purge_prefix("a/b").await;
    assert_eq!(world.entry("a/b").await, NameKind::Missing);
    world.bucket.delete("a/new/file");
    world.purge("a/new/file").await;
    assert_eq!(world.entry("a/new/file").await, NameKind::Missing);
}

#[tokio::test(start_paused = true)]
async fn answers_live_for_the_profiles_time() {
    let world = Setup::profile(|profile| profile.stale_while_revalidate = Duration::ZERO).build();
    world.bucket.put("f/k", "x");
    assert_eq!(world.entry("f").await, NameKind::Folder);
    assert!(is_file(&world.entry("f/k").await, 1));
    world.bucket.delete("f/k");
    pass(secs(59)).await;
    assert_eq!(world.entry("f").await, NameKind::Folder);
    pass(secs(2)).await;
    assert_eq!(world.entry("f").await, NameKind::Missing);
    assert_eq!(world.entry("f/k").await, NameKind::Missing);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_key_is_missing() {
    let world = World::plain();
    let long = "k".repeat(1025);
    for path in ["", ".", "a/..", &long] {
        assert_eq!(world.entry(path).await, NameKind::Missing);
    }
    assert_eq!(world.bucket.lists(), 0);
}

/// Of the recipe for WordPress: only this gateway writes, and a month has thousands of pictures.
#[tokio::test(start_paused = true)]
async fn a_large_folder_tells_free_names_for_as_long_as_the_profile_says() {
    let mut setup = Setup::default();
    setup.profile.ttl = secs(600);
    setup.profile.negative_ttl = secs(600);
    let world = setup.build();
    for n in 0..2500 {
        world.bucket.put(&format!("f/{n:04}"), "x");
    }
    assert_eq!(world.entry("f").await, NameKind::Folder);
    // Two names by themselves, then three pages.
    for (after, cost) in [(0, 7), (60, 0), (420, 0), (180, 7)] {
        pass(secs(after)).await;
        let mut before = 0;
        world.requests(&mut before);
        for size in 0..10 {
            let name = format!("f/photo-{after}-{size}");
            assert_eq!(world.entry(&name).await, NameKind::Missing, "{name}");
        }
        assert_eq!(world.requests(&mut before), cost, "after {after} s");
    }
}

/// A subscriber that keeps names hears of a purge once, and may not know this name yet.
#[tokio::test(start_paused = true)]
async fn an_answer_that_a_purge_overtakes_holds_for_no_reader() {
    let world = World::plain();
    for (purges, holds) in [("other", true), ("file", false), ("fi", false)] {
        world.bucket.put("file", "12345");
        world.purge("file").await;
        world.bucket.fail_next([Fault::Latency(secs(1))]);
        world.bucket.fail_next([Fault::Latency(secs(1))]);
        let looked = async {
            let answer = world.look("file").await.expect("an answer");
            assert!(is_file(&answer.entry, 5));
            answer.fresh
        };
        let purged = async {
            pass(Duration::from_millis(500)).await;
            world.purge_prefix(purges).await;
        };
        let (fresh, ()) = tokio::join!(looked, purged);
        assert_eq!(fresh > Duration::ZERO, holds, "{purges}");
    }
    assert_ne!(
        world.look("file").await.expect("an answer").fresh,
        Duration::ZERO
    );
}

/// The kernel keeps an answer for as long as it is told: a late answer must not make a name older than its time.
#[tokio::test(start_paused = true)]
async fn an_answer_holds_from_its_request_on() {
    let world = World::plain();
    let profile = world.source.profile.load();
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    for (kind, time) in [
        ("file", profile.ttl),
        ("folder", profile.ttl),
        ("none", profile.negative_ttl),
    ] {
        world.bucket.put("f/file", "12345");
        world.bucket.put("f/folder/inner", "x");
        // The second name of a folder is found by a listing.
        for path in [kind.to_owned(), format!("f/{kind}"), format!("f/{kind}")] {
            let begun = tokio::time::Instant::now();
            let answer = world.look(&path).await.expect("an answer");
            let age = begun.elapsed();
            assert!(answer.fresh + age <= time, "{path}: {answer:?}");
        }
        world.purge_prefix("").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_of_empty_pages_without_end_is_an_error_of_the_store() {
    let world = Setup::bucket(FakeOrigin::new().with_empty_pages(20)).build();
    world.bucket.put("f/a", "x");
    assert_eq!(world.entry("f").await, NameKind::Folder);
    let empty = world.engine.is_empty(&world.source, "g/").await;
    assert_eq!(empty, Ok(true), "pages that end are followed");

    let world = Setup::bucket(FakeOrigin::new().with_empty_pages(u64::MAX)).build();
    let broken = Error::BadOrigin("a listing of empty pages without an end");
    assert_eq!(world.look("f").await.err(), Some(broken.clone()));
    let empty = world.engine.is_empty(&world.source, "f/").await;
    assert_eq!(empty, Err(broken));
    let lists = world.bucket.lists();
    assert!(lists <= 2 * 101, "{lists}");
}
