//! Keys that were missing, and that a listing shows.

use super::*;
use tidegate_plan::ObjectId;

const NEW: &str = "f/new";

impl World {
    async fn list_folder(&self) -> Vec<(String, NameKind)> {
        let page = self.engine.list(&self.source, "f/", None).await;
        page.expect("a page").names
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_listing_shows_can_be_opened() {
    let world = World::plain();
    world.bucket.put("f/old", "x");
    assert_eq!(world.read(NEW).await, Err(Error::NotFound));
    world.bucket.put(NEW, "12345");
    assert_eq!(world.read(NEW).await, Err(Error::NotFound), "remembered");
    pass(Duration::from_millis(10)).await;
    assert!(is_file(&world.list_folder().await[0].1, 5));
    assert!(is_file(&world.entry(NEW).await, 5));
    assert_eq!(&world.read(NEW).await.expect("read")[..], b"12345");
}

#[tokio::test(start_paused = true)]
async fn what_the_listing_of_a_tree_shows_can_be_opened() {
    let world = World::plain();
    for folder in ["f", "g", "h"] {
        world.bucket.put(&format!("all/{folder}/x"), "x");
    }
    let missing = world.read("all/h/new").await;
    assert_eq!(missing, Err(Error::NotFound));
    world.bucket.put("all/h/new", "12345");
    pass(Duration::from_millis(10)).await;
    for folder in ["", "f/", "g/", "h/"] {
        let folder = format!("all/{folder}");
        let page = world.engine.list(&world.source, &folder, None).await;
        assert!(!page.expect("a page").names.is_empty());
    }
    let trees = world.bucket.listed().into_iter();
    assert!(trees.filter(|list| !list.delimiter).count() > 0);
    assert!(world.read("all/h/new").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_removal_here_stays_true_whatever_was_listed_before() {
    let world = World::plain();
    world.bucket.put(NEW, "12345");
    world.bucket.fail_next([Fault::Latency(secs(2))]);
    let removal = async {
        pass(secs(1)).await;
        let key = valid(NEW);
        let origin = world.source.origin.id();
        world
            .engine
            .core()
            .record_removed(&ObjectId { origin, key });
    };
    // The bucket's answer still has the key.
    tokio::join!(world.list_folder(), removal);
    let gets = world.bucket.gets();
    assert_eq!(world.read(NEW).await, Err(Error::NotFound));
    assert_eq!(world.bucket.gets(), gets, "the entry answers");
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_the_listing_hides_nothing_that_it_shows() {
    let world = World::plain();
    world.bucket.put("f/old", "x");
    let gone = Fault::Refuse(tidegate_origin::OriginError::NotFound);
    world.bucket.fail_next([Fault::Latency(secs(2)), gone]);
    let listed = async {
        pass(secs(1)).await;
        world.bucket.put(NEW, "12345");
        world.list_folder().await
    };
    let (read, listed) = tokio::join!(world.read(NEW), listed);
    assert_eq!((read, listed.len()), (Err(Error::NotFound), 2));
    assert!(world.read(NEW).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_proves_a_folder_can_be_opened() {
    let world = World::plain();
    assert_eq!(world.read(NEW).await, Err(Error::NotFound));
    world.bucket.put(NEW, "12345");
    pass(Duration::from_millis(10)).await;
    assert_eq!(world.entry("f").await, NameKind::Folder);
    assert!(world.read(NEW).await.is_ok());
}
