//! Programs that go through large folders name by name: a page is listed a bounded number of times.

use super::*;

async fn fill(world: &World, keys: usize) {
    for n in 0..keys {
        world.bucket.put(&format!("f/{n:05}"), "x");
    }
}

/// What is missing is old before what is there: names that a listing has passed cause another one, not requests each.
#[tokio::test(start_paused = true)]
async fn missing_names_of_a_folder_that_was_read_cost_another_listing_at_most() {
    let world = World::plain();
    fill(&world, 2500).await;
    assert_eq!(world.names("f/").await.len(), 2500);
    pass(secs(6)).await;
    let before = world.costs();
    for n in 0..30 {
        assert!(!world.is_there(&format!("f/{:05}-150x150", n * 83)).await);
    }
    // A single name costs less than three pages, two do not.
    assert_eq!(world.since(before), (1, 1 + 3, 0));
    // Names on its first page have that listed.
    pass(secs(6)).await;
    let before = world.costs();
    for n in 0..30 {
        assert!(!world.is_there(&format!("f/{n:05}-150x150")).await);
    }
    assert_eq!(world.since(before), (1, 1 + 1, 0));
    pass(secs(6)).await;
    let before = world.costs();
    for n in 0..30 {
        assert!(!world.is_there(&format!("f/{n:05}-300x300")).await);
    }
    assert_eq!(world.since(before), (0, 1, 0));
}

/// A listing is not repeated for a folder that is larger than the profile's bound.
#[tokio::test(start_paused = true)]
async fn missing_names_of_a_folder_beyond_the_bound_are_asked_for_singly() {
    let world = with_pages(2);
    fill(&world, 2500).await;
    world.names("f/").await;
    pass(secs(6)).await;
    let before = world.costs();
    for n in 0..5 {
        assert!(!world.is_there(&format!("f/{n:05}-150x150")).await);
    }
    assert_eq!(world.since(before), (5, 5, 0));
    assert_eq!(world.names("f/").await.len(), 2500);
    assert_eq!(world.since(before), (5, 5, 0));
}

/// `stat` of each file, slowly, by a program that does not read the folder.
#[tokio::test(start_paused = true)]
async fn a_slow_walk_by_names_lists_each_page_once_a_ttl() {
    let world = World::plain();
    fill(&world, 3000).await;
    for n in 0..3000 {
        assert!(world.is_there(&format!("f/{n:05}")).await);
        pass(Duration::from_millis(100)).await;
    }
    // It takes five times the `ttl` of a minute.
    let (heads, lists, gets) = world.costs();
    assert!(heads <= 16 && gets == 0, "{heads} HEAD, {gets} GET");
    assert!(lists - heads <= 3 * 5, "{} pages", lists - heads);
}

/// A folder of half as many names as the table holds is known whole. The knowledge of one that is larger than the table
/// leaves it while it is listed: each reader lists it anew, and no name of it is told to be missing.
#[tokio::test(start_paused = true)]
async fn a_folder_larger_than_the_table_is_listed_by_each_reader() {
    for (keys, again) in [(25_000, 0), (90_000, 90)] {
        let world = World::plain();
        fill(&world, keys).await;
        assert_eq!(world.names("f/").await.len(), keys);
        let before = world.costs();
        assert_eq!(world.names("f/").await.len(), keys);
        assert_eq!(world.since(before), (0, again, 0), "{keys} names");
        for n in (0..keys).step_by(keys / 10) {
            assert!(world.is_there(&format!("f/{n:05}")).await, "{n}");
        }
    }
}
