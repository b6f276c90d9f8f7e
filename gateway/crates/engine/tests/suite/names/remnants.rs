//! Folders that a store lists although no key is in them: MinIO with versions does.

use super::*;
use tidegate_plan::ObjectId;

/// The time after which a folder is listed again.
const LATER: Duration = Duration::from_secs(3600);

impl World {
    /// Returns a world with a folder `f/kept`, and a folder `f/gone` that was there.
    fn with_remnant() -> Self {
        let world = Setup::bucket(FakeOrigin::new().with_remnants()).build();
        world.bucket.put("f/kept/x", "x");
        world.bucket.put("f/gone/deep/x", "x");
        world.bucket.delete("f/gone/deep/x");
        world
    }

    /// Returns the names that a listing of `f` shows after `LATER`, and the number of listings that this took.
    async fn list_later(&self) -> (Vec<String>, u64) {
        pass(LATER).await;
        let lists = self.bucket.lists();
        let page = self.engine.list(&self.source, "f/", None).await;
        let names = page.expect("a page").names.into_iter();
        let names = names.map(|(name, _)| name).collect();
        (names, self.bucket.lists() - lists)
    }

    fn remove_marker(&self, key: &str) {
        let (origin, key) = (self.source.origin.id(), valid(key));
        self.engine.core().record_removed(&ObjectId { origin, key });
    }
}

fn names(names: &[&str], lists: u64) -> (Vec<String>, u64) {
    (names.iter().map(|name| (*name).to_owned()).collect(), lists)
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_was_removed_here_stays_away() {
    let world = World::with_remnant();
    assert_eq!(world.list_later().await, names(&["gone", "kept"], 1));
    world.remove_marker("f/gone/");
    for _ in 0..3 {
        // The look into it costs a listing.
        assert_eq!(world.list_later().await, names(&["kept"], 2));
        let lists = world.bucket.lists();
        assert_eq!(world.entry("f/gone").await, NameKind::Missing);
        assert_eq!(world.bucket.lists(), lists);
    }
    world.bucket.put("f/gone/y", "made elsewhere");
    assert_eq!(world.list_later().await, names(&["gone", "kept"], 2));
    assert_eq!(world.list_later().await, names(&["gone", "kept"], 1));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_was_renamed_here_stays_away() {
    let world = World::with_remnant();
    let core = world.engine.core();
    core.folder_removed(world.source.origin.id(), "f/gone");
    assert_eq!(world.list_later().await, names(&["kept"], 2));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_is_made_here_again_is_believed() {
    let world = World::with_remnant();
    world.remove_marker("f/gone/");
    world.bucket.put("f/gone/", "");
    let (origin, key) = (world.source.origin.id(), valid("f/gone/"));
    world.engine.core().folder_made(&ObjectId { origin, key });
    assert_eq!(world.list_later().await, names(&["gone", "kept"], 1));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_was_read_and_has_nothing_goes() {
    let world = World::with_remnant();
    assert_eq!(world.list_later().await, names(&["gone", "kept"], 1));
    // Its subfolder is one, too.
    for folder in ["f/gone/deep/", "f/gone/"] {
        pass(LATER).await;
        let page = world.engine.list(&world.source, folder, None).await;
        assert_eq!(page.expect("a page").names, [], "{folder}");
    }
    assert_eq!(world.list_later().await, names(&["kept"], 2));
}

#[tokio::test(start_paused = true)]
async fn a_purge_ends_what_a_look_has_found() {
    let world = World::with_remnant();
    world.remove_marker("f/gone/");
    assert_eq!(world.list_later().await, names(&["kept"], 2));
    world.bucket.put("f/gone/y", "made elsewhere");
    world.purge_prefix("f/").await;
    let lists = world.bucket.lists();
    let page = world.engine.list(&world.source, "f/", None).await;
    assert_eq!(page.expect("a page").names.len(), 2);
    assert_eq!(world.bucket.lists(), lists + 2);
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_another_gateway_has_made_is_found_as_any_other_name() {
    let world = World::with_remnant();
    world.remove_marker("f/gone/");
    assert_eq!(world.list_later().await, names(&["kept"], 2));
    world.bucket.put("f/gone/y", "made elsewhere");
    pass(Duration::from_secs(6)).await;
    assert_eq!(world.entry("f/gone").await, NameKind::Folder);
}

#[tokio::test(start_paused = true)]
async fn a_folder_is_believed_if_the_look_into_it_fails() {
    let world = World::with_remnant();
    world.remove_marker("f/gone/");
    pass(LATER).await;
    let down = Fault::Refuse(tidegate_origin::OriginError::Forbidden);
    world.bucket.fail_next([]);
    world.bucket.fail_next([down]);
    let page = world.engine.list(&world.source, "f/", None).await;
    assert_eq!(page.expect("a page").names.len(), 2);
    assert_eq!(world.list_later().await, names(&["kept"], 2));
}
