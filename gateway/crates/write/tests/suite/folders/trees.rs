//! Trees whose folders are read one after another: they are listed together, at a known cost.

use tidegate_origin::OriginError;
use tidegate_origin::fake::Fault;

use super::*;

/// Reads all folders of a tree, depth first, as `find` does. Returns the files.
async fn find(world: &World, prefix: &str) -> Vec<String> {
    let (mut found, mut left) = (Vec::new(), vec![prefix.to_owned()]);
    while let Some(prefix) = left.pop() {
        let (mut place, mut folders) = (None, Vec::new());
        loop {
            let page = world.engine.list(&world.source, &prefix, place).await;
            let page = page.expect("a page");
            for (name, kind) in page.names {
                match kind {
                    NameKind::Folder => folders.push(format!("{prefix}{name}/")),
                    _ => found.push(format!("{prefix}{name}")),
                }
            }
            place = page.next;
            if place.is_none() {
                break;
            }
        }
        left.extend(folders.into_iter().rev());
    }
    found
}

fn put_tree(world: &World, folders: usize, files: usize) -> Vec<String> {
    let keys = (0..folders * files).map(|n| format!("t/{:03}/{n:05}", n / files));
    let keys: Vec<_> = keys.collect();
    for key in &keys {
        world.bucket.put(key, "x");
    }
    keys
}

#[tokio::test(start_paused = true)]
async fn a_tree_costs_a_listing_for_a_thousand_keys() {
    let world = World::plain();
    let keys = put_tree(&world, 500, 8);
    assert_eq!(find(&world, "t/").await, keys);
    // The parent and one of its folders by themselves, then pages of a thousand keys. Each begins with the last folder
    // of the one before, which may have been cut.
    assert_eq!(world.costs(), (0, 2 + 5, 0));
    assert_eq!(find(&world, "t/").await, keys);
    for key in &keys {
        assert!(world.is_there(key).await);
        assert!(!world.is_there(&format!("{key}-none")).await);
    }
    assert_eq!(world.costs(), (0, 7, 0), "all of it is known");
}

#[tokio::test(start_paused = true)]
async fn folders_below_folders_come_with_them() {
    let world = World::plain();
    let mut keys = Vec::new();
    for n in 0..200 {
        for name in ["a", "b/c", "b/d/e"] {
            keys.push(format!("t/{n:03}/{name}"));
        }
    }
    for key in &keys {
        world.bucket.put(key, "x");
    }
    let mut found = find(&world, "t/").await;
    found.sort();
    assert_eq!(found, keys);
    // One of the folders with the two below it, each by itself.
    assert_eq!(world.costs(), (0, 1 + 3 + 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_fits_on_no_page_is_listed_by_itself_and_its_siblings_too() {
    let world = World::plain();
    let keys = put_tree(&world, 6, 1500);
    assert_eq!(find(&world, "t/").await, keys);
    // Two pages for each; one more that was in vain.
    assert_eq!(world.costs(), (0, 1 + 6 * 2 + 1, 0));
}

#[tokio::test(start_paused = true)]
async fn one_folder_starts_nothing() {
    let world = World::plain();
    put_tree(&world, 500, 8);
    for prefix in ["t/", "t/007/"] {
        world.names(prefix).await;
    }
    let listed = world.bucket.listed();
    assert!(listed.iter().all(|list| list.delimiter));
    // Folders that are read a `ttl` apart are no walk.
    let world = World::plain();
    put_tree(&world, 20, 2);
    for n in 10..20 {
        pass(secs(60)).await;
        world.names(&format!("t/{n:03}/")).await;
    }
    assert!(world.bucket.listed().iter().all(|list| list.delimiter));
    let world = with_pages(0);
    put_tree(&world, 20, 2);
    find(&world, "t/").await;
    assert!(world.bucket.listed().iter().all(|list| list.delimiter));
}

#[tokio::test(start_paused = true)]
async fn a_tree_that_cannot_be_listed_is_read_folder_by_folder() {
    let world = World::plain();
    let keys = put_tree(&world, 20, 2);
    for prefix in ["t/", "t/000/"] {
        world.names(prefix).await;
    }
    world
        .bucket
        .fail_next([Fault::Refuse(OriginError::Forbidden)]);
    assert_eq!(find(&world, "t/").await, keys);
    let before = world.costs();
    assert_eq!(before.1, 2 + 1 + 19);
}

/// A file that is created or deleted here while the tree is listed stays so.
#[tokio::test(start_paused = true)]
async fn what_changes_here_while_a_tree_is_listed_stays() {
    let desk = Desk::plain();
    let world = &desk.world;
    put_tree(world, 6, 2);
    for prefix in ["t/", "t/000/"] {
        world.names(prefix).await;
    }
    world.bucket.fail_next([Fault::Latency(secs(2))]);
    let listed = world.names("t/002/");
    let changed = async {
        pass(secs(1)).await;
        desk.write("t/004/new", &"1234".into()).await;
        let gone = valid("t/004/00008");
        let removed = desk.writers.remove(&world.source, &gone).await;
        removed.expect("removed");
        // The fake lists its state at the time of the answer; the test needs the earlier state.
        world.bucket.delete("t/004/new");
        world.bucket.put("t/004/00008", "x");
    };
    tokio::join!(listed, changed);
    let before = world.costs();
    assert_eq!(world.names("t/004/").await, ["00009", "new"]);
    assert!(!world.is_there("t/004/00008").await);
    assert_eq!(world.names("t/005/").await.len(), 2);
    assert_eq!(world.since(before), (0, 0, 0));
}

/// A purge while the tree is listed keeps its old names out.
#[tokio::test(start_paused = true)]
async fn a_purge_while_a_tree_is_listed_wins() {
    let world = World::plain();
    put_tree(&world, 6, 2);
    for prefix in ["t/", "t/000/"] {
        world.names(prefix).await;
    }
    world.bucket.fail_next([Fault::Latency(secs(2))]);
    let listed = world.names("t/002/");
    let purged = async {
        pass(secs(1)).await;
        let prefix = world.engine.purge_prefix(&world.source, "t/004/");
        prefix.await.expect("purged");
    };
    tokio::join!(listed, purged);
    let before = world.costs();
    world.names("t/004/").await;
    assert_eq!(world.since(before).1, 1, "it is asked for again");
}
