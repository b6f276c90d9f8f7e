//! Names that continue the stem of a file that was newly made here: its folder's listing answers for them to its end.

use tidegate_plan::{ChangeKind, KeyChange};

use super::*;
use crate::support::spool::Terms;

const TTL: Duration = secs(10);
const NEGATIVE: Duration = secs(1);
/// Less than any of these times.
const MOMENT: Duration = Duration::from_millis(1);

/// Returns a mount with these times, on a bucket with a folder that was read just now.
async fn desk() -> Desk {
    let setup = Setup::profile(|profile| {
        profile.ttl = TTL;
        profile.negative_ttl = NEGATIVE;
        profile.stale_while_revalidate = Duration::ZERO;
    });
    let folder = tempfile::tempdir().expect("a folder");
    let desk = Desk::over(setup.build(), folder, &Terms::default());
    desk.world.bucket.put("f/old.jpg", "x");
    assert_eq!(desk.world.names("f/").await, ["old.jpg"]);
    desk
}

/// WordPress uploads a photo: it looks for each file before it makes it, and works on it for a while.
#[tokio::test(start_paused = true)]
async fn a_photo_with_eight_sizes_costs_one_listing() {
    let desk = desk().await;
    let world = &desk.world;
    pass(NEGATIVE).await;
    let before = world.costs();
    assert!(!world.is_there("f/photo.jpg").await);
    desk.write("f/photo.jpg", &"photo".into()).await;
    for size in 0..8 {
        pass(Duration::from_millis(750)).await;
        let name = format!("f/photo-{size}00x75.jpg");
        assert!(!world.is_there(&name).await);
        desk.write(&name, &"size".into()).await;
        assert!(world.is_there(&name).await);
    }
    assert!(!world.is_there("f/photo.webp").await);
    assert_eq!(world.since(before), (0, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_another_server_adds_to_a_stem_is_seen_after_the_ttl() {
    let desk = desk().await;
    let world = &desk.world;
    desk.write("f/photo.jpg", &"photo".into()).await;
    world.bucket.put("f/photo-1x1.jpg", "x");
    pass(TTL - MOMENT).await;
    let before = world.costs();
    assert!(!world.is_there("f/photo-1x1.jpg").await);
    assert_eq!(world.since(before), (0, 0, 0));
    pass(MOMENT).await;
    assert!(world.is_there("f/photo-1x1.jpg").await);
}

/// Only new files count, and only for a `ttl`, whenever the folder was listed.
#[tokio::test(start_paused = true)]
async fn every_other_name_is_seen_after_the_negative_ttl() {
    for (made, listed_again, name) in [
        ("f/photo.jpg", false, "f/photo1.jpg"),
        // The name of another server's photo.jpg.
        ("f/photo.jpg", false, "f/photo-1.jpg"),
        // The name of photo.jpg once it was edited, here or on another server.
        ("f/photo.jpg", false, "f/photo-e1700000000000.jpg"),
        ("f/photo.jpg", false, "f/other-1x1.jpg"),
        ("f/photo.jpg", false, "f/sub/photo-1x1.jpg"),
        // It was there.
        ("f/old.jpg", false, "f/old-1x1.jpg"),
        ("f/photo.jpg", true, "f/photo-1x1.jpg"),
    ] {
        let desk = desk().await;
        let world = &desk.world;
        desk.write(made, &"made".into()).await;
        if listed_again {
            pass(TTL).await;
            world.names("f/").await;
        }
        assert!(!world.is_there(name).await, "{name}");
        world.bucket.put(name, "x");
        pass(NEGATIVE - MOMENT).await;
        assert!(!world.is_there(name).await, "{name}");
        pass(MOMENT).await;
        assert!(world.is_there(name).await, "{name}");
    }
}

/// Another server makes names of the stem: the bucket has reported one of them.
#[tokio::test(start_paused = true)]
async fn a_reported_name_ends_what_its_stem_says() {
    let desk = desk().await;
    let world = &desk.world;
    desk.write("f/photo.jpg", &"photo".into()).await;
    world.bucket.put("f/photo-1x1.jpg", "x");
    let change = KeyChange::of("bucket", &valid("f/photo-1x1.jpg"), ChangeKind::Created);
    let origin = world.source.origin.id();
    world.engine.apply_change(origin, &change).await;
    assert!(world.is_there("f/photo-1x1.jpg").await);
    assert!(!world.is_there("f/photo-2x2.jpg").await);
    world.bucket.put("f/photo-2x2.jpg", "x");
    pass(NEGATIVE).await;
    assert!(world.is_there("f/photo-2x2.jpg").await);
}
