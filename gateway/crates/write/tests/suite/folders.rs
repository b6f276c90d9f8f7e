//! Names in a listed folder: the listing answers for each of them, at a known cost.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_engine::names::{Answer, NameKind};
use tidegate_engine::{Error, OpenOptions};
use tidegate_origin::FakeOrigin;
use tidegate_origin::fake::Fault;
use tidegate_plan::{Profile, RangeSpec};

use crate::support::engine::{self, Setup, World, pass, secs, valid};
use crate::support::spool::Desk;

mod attributes;
mod changes;
mod listings;
mod model;
mod overtaken;
mod resumed;
mod stems;
mod targets;
mod trees;
mod walks;

/// HEADs, LISTs and GETs.
type Costs = (u64, u64, u64);

impl World {
    async fn look(&self, path: &str) -> Result<Answer, Error> {
        self.engine.look_up(&self.source, path, false).await
    }

    async fn entry(&self, path: &str) -> NameKind {
        self.look(path).await.expect("an answer").entry
    }

    async fn is_there(&self, path: &str) -> bool {
        self.entry(path).await != NameKind::Missing
    }

    fn costs(&self) -> Costs {
        (self.bucket.heads(), self.bucket.lists(), self.bucket.gets())
    }

    /// Returns the requests since `before`.
    fn since(&self, before: Costs) -> Costs {
        let now = self.costs();
        (now.0 - before.0, now.1 - before.1, now.2 - before.2)
    }

    /// Returns all names of a folder, as a program reads it.
    async fn names(&self, prefix: &str) -> Vec<String> {
        let (mut place, mut names) = (None, Vec::new());
        loop {
            let page = self.engine.list(&self.source, prefix, place).await;
            let page = page.expect("a page");
            names.extend(page.names.into_iter().map(|(name, _)| name));
            place = page.next;
            if place.is_none() {
                return names;
            }
        }
    }
}

fn with_pages(pages: u32) -> World {
    Setup::profile(|profile| profile.list_pages = pages).build()
}

/// `ls -l`, then `stat` of every file and of many missing names.
#[tokio::test(start_paused = true)]
async fn a_folder_that_was_read_answers_for_every_name() {
    let world = World::plain();
    for name in ["a", "b/x", "c.jpg"] {
        world.bucket.put(&format!("f/{name}"), "123");
    }
    assert_eq!(world.names("f/").await, ["a", "b", "c.jpg"]);
    let before = world.costs();
    assert_eq!(before, (0, 1, 0));
    for name in ["a", "b", "c.jpg"] {
        assert!(world.is_there(&format!("f/{name}")).await);
    }
    for name in ["", "-", "0", "a-1", "c", "c.jpg.webp", "zz"] {
        assert!(!world.is_there(&format!("f/{name}")).await, "{name}");
    }
    assert!(world.is_there("f").await, "it has something in it");
    assert_eq!(world.names("f/").await, ["a", "b", "c.jpg"]);
    assert_eq!(world.since(before), (0, 0, 0));
    // An open for reading costs one GET, which brings the whole file.
    let first = RangeSpec::Bounded { first: 0, last: 2 };
    let object = world.open("f/a", engine::first(first)).await.expect("open");
    engine::whole(&object).await.expect("read");
    assert_eq!(world.since(before), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_counts_for_less_time_than_what_is_there() {
    let world = World::plain();
    world.bucket.put("f/a", "123");
    world.names("f/").await;
    world.bucket.delete("f/a");
    world.bucket.put("f/b", "1");
    pass(secs(4)).await;
    assert!(world.is_there("f/a").await && !world.is_there("f/b").await);
    assert_eq!(world.costs(), (0, 1, 0));
    // One listing of the folder costs no more than both questions, and answers for the other name,
    // too.
    pass(secs(1)).await;
    assert!(world.is_there("f/b").await && !world.is_there("f/a").await);
    assert_eq!(world.costs(), (0, 2, 0));
    pass(secs(55)).await;
    assert_eq!(world.names("f/").await, ["b"]);
    assert_eq!(world.costs(), (0, 2, 0));
    pass(secs(5)).await;
    assert_eq!(world.names("f/").await, ["b"]);
    assert_eq!(world.costs(), (0, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_third_unknown_name_has_the_folder_listed() {
    let world = World::plain();
    for n in 0..50 {
        world.bucket.put(&format!("f/{n:02}"), "x");
    }
    assert!(world.is_there("f").await);
    let before = world.costs();
    assert!(!world.is_there("f/none").await);
    assert_eq!(world.since(before), (1, 1, 0));
    assert!(world.is_there("f/07").await);
    assert_eq!(world.since(before), (2, 2, 0));
    for n in 0..200 {
        assert_eq!(world.is_there(&format!("f/{n:02}")).await, n < 50, "{n}");
    }
    assert_eq!(world.since(before), (2, 3, 0));
    // Unknown names count within the `ttl` of the first one.
    let world = World::plain();
    world.bucket.put("f/a", "x");
    for name in ["f/1", "f/2", "f/3", "f/4"] {
        assert!(!world.is_there(name).await);
        pass(secs(31)).await;
    }
    assert_eq!(world.costs(), (4, 4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_too_large_stays_cheap() {
    const KEYS: usize = 20_000;
    let world = with_pages(3);
    for n in 0..KEYS {
        world.bucket.put(&format!("f/{n:06}"), "x");
    }
    // One or two unknown names: nothing of the folder is listed.
    for (n, name) in ["f/none", "f/009999"].into_iter().enumerate() {
        world.look(name).await.expect("an answer");
        let n = n as u64 + 1;
        assert_eq!(world.costs(), (n, n, 0));
    }
    let listed = world.bucket.listed();
    assert!(listed.iter().all(|it| it.limit == 1 && it.prefix != "f/"));
    // The third lists as many pages as the profile allows, and is not among them.
    assert!(world.is_there("f/019999").await);
    assert_eq!(world.costs(), (3, 2 + 3 + 1, 0));
    let before = world.costs();
    for name in ["f/000000", "f/001234", "f/002998"] {
        assert!(world.is_there(name).await);
        assert!(!world.is_there(&format!("{name}-150x150")).await);
    }
    assert_eq!(world.since(before), (0, 0, 0));
    // Names behind those pages are asked for one by one, and cause no listing.
    for n in 1..20 {
        assert!(world.is_there(&format!("f/0150{n:02}")).await);
        assert_eq!(world.since(before), (n, n, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn no_folder_is_listed_for_names_where_the_profile_says_so() {
    let world = with_pages(0);
    world.bucket.put("f/a", "x");
    for n in 0..9 {
        assert!(!world.is_there(&format!("f/{n}")).await);
    }
    assert_eq!(world.costs(), (9, 9, 0));
}

/// A page is listed once within the `ttl`, in whatever order programs walk.
#[tokio::test(start_paused = true)]
async fn a_page_is_listed_once_however_programs_walk() {
    let world = World::plain();
    for n in 0..2500 {
        world.bucket.put(&format!("f/photo-{n:04}.jpg"), "x");
    }
    world.bucket.put("f/photo", "x");
    // Two readers side by side, one that comes a page later, and one that asks for names.
    let late = async {
        let first = world.engine.list(&world.source, "f/", None).await;
        let next = first.expect("a page").next;
        world
            .engine
            .list(&world.source, "f/", next)
            .await
            .expect("a page");
        world.names("f/").await
    };
    let (one, two, late) = tokio::join!(world.names("f/"), world.names("f/"), late);
    for names in [one, two, late] {
        assert_eq!(names.len(), 2501);
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), 2501, "each once");
    }
    for n in 0..2500 {
        assert!(world.is_there(&format!("f/photo-{n:04}.jpg")).await);
    }
    assert_eq!(world.names("f/").await.len(), 2501);
    assert_eq!(world.costs(), (0, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn readers_at_the_same_time_share_the_listing() {
    let world = World::plain();
    world.bucket.put("f/a", "x");
    for name in ["f/1", "f/2"] {
        world.look(name).await.expect("an answer");
    }
    let before = world.costs();
    world.bucket.set_faults([Fault::Latency(secs(1))]);
    let names: Vec<_> = (3..30).map(|n| format!("f/{n}")).collect();
    let looked = join_all(names.iter().map(|name| world.is_there(name)));
    let (read, there) = tokio::join!(world.names("f/"), looked);
    assert_eq!(read, ["a"]);
    assert!(there.into_iter().all(|there| !there));
    assert_eq!(world.since(before), (0, 1, 0));
}

/// The contents of a folder prove the folders above it: a path in use costs nothing.
#[tokio::test(start_paused = true)]
async fn a_folder_that_is_no_longer_fresh_costs_one_listing_of_a_key() {
    let world = World::plain();
    world.bucket.put("1/2/3/file", "x");
    assert!(world.is_there("1/2/3").await);
    pass(secs(61)).await;
    let before = world.costs();
    for path in ["1", "1/2", "1/2/3"] {
        assert!(world.is_there(path).await);
    }
    assert_eq!(world.since(before), (0, 1, 0));
}

/// A library that is in the bucket already: programs read its folders, and look at and open its
/// files.
#[tokio::test(start_paused = true)]
async fn a_scan_costs_a_listing_a_folder_at_most_and_a_request_a_file() {
    let world = Setup {
        profile: Profile::stream(),
        ..Setup::default()
    }
    .build();
    let books = ["A/One", "A/Two", "B/Three"];
    for book in books {
        for n in 0..8 {
            world
                .bucket
                .put(&format!("lib/{book}/{n}.m4b"), vec![7; 2 << 20]);
        }
    }
    for folder in [
        "lib/",
        "lib/A/",
        "lib/B/",
        "lib/A/One/",
        "lib/A/Two/",
        "lib/B/Three/",
    ] {
        for name in world.names(folder).await {
            assert!(world.is_there(&format!("{folder}{name}")).await);
        }
        for name in ["metadata.json", "cover.jpg", ".ignore"] {
            assert!(!world.is_there(&format!("{folder}{name}")).await);
        }
    }
    // The last book came with the folders after `A`.
    assert_eq!(world.costs(), (0, 5, 0));
    for book in books {
        for n in 0..8 {
            let first = engine::first(RangeSpec::Bounded { first: 0, last: 0 });
            let key = format!("lib/{book}/{n}.m4b");
            let object = world.open(&key, first).await.expect("open");
            let _ = object.version();
            assert!(world.is_there(&key).await);
        }
    }
    assert_eq!(world.costs(), (0, 5, 24));
    // Another scan within the `ttl`.
    for book in books {
        assert_eq!(world.names(&format!("lib/{book}/")).await.len(), 8);
    }
    assert_eq!(world.costs(), (0, 5, 24));
}
