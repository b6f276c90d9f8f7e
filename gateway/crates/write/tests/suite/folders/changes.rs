//! Changes by this process in a listed folder: every name stays true.

use tidegate_origin::fake::Fault;

use crate::support::engine::{pass, secs, valid};
use crate::support::spool::{Desk, Terms};

/// A file created during a listing does not vanish, and a deleted one does not come back.
#[tokio::test(start_paused = true)]
async fn what_changes_here_during_a_listing_stays() {
    let desk = Desk::plain();
    let world = &desk.world;
    for name in ["f/gone", "f/here", "f/put"] {
        world.bucket.put(name, "x");
    }
    world.bucket.fail_next([Fault::Latency(secs(2))]);
    let listed = world.names("f/");
    let changed = async {
        pass(secs(1)).await;
        desk.write("f/new", &"1234".into()).await;
        let gone = valid("f/gone");
        desk.writers
            .remove(&world.source, &gone)
            .await
            .expect("removed");
        // The fake lists its state at the time of the answer; the test needs the earlier state.
        world.bucket.delete("f/new");
        world.bucket.put("f/gone", "x");
    };
    tokio::join!(listed, changed);
    assert!(
        world.is_there("f/new").await,
        "it was written after the listing began"
    );
    assert!(!world.is_there("f/gone").await);
    let mut names = world.names("f/").await;
    names.sort();
    assert_eq!(names, ["here", "new", "put"]);
    assert_eq!(world.costs().1, 1);
}

/// A reader that comes after a change does not join a listing from before it.
#[tokio::test(start_paused = true)]
async fn a_reader_of_a_folder_sees_an_earlier_change() {
    let desk = Desk::plain();
    let world = &desk.world;
    world.bucket.put("f/a", "x");
    world.bucket.fail_next([Fault::Latency(secs(2))]);
    let early = world.names("f/");
    let late = async {
        pass(secs(1)).await;
        desk.write("f/new", &"1234".into()).await;
        world.names("f/").await
    };
    let (_, late) = tokio::join!(early, late);
    assert_eq!(late, ["a", "new"]);
}

/// Own changes keep the knowledge about a folder true, and cost nothing.
#[tokio::test(start_paused = true)]
async fn own_changes_keep_a_folder_true() {
    let desk = Desk::plain();
    let world = &desk.world;
    for name in ["f/a", "f/b", "f/c"] {
        world.bucket.put(name, "x");
    }
    world.names("f/").await;
    let before = world.costs();
    desk.write("f/new", &"1234".into()).await;
    desk.write("f/sub/deep/file", &"1".into()).await;
    desk.writers
        .remove(&world.source, &valid("f/a"))
        .await
        .expect("removed");
    for (name, there) in [
        ("f/a", false),
        ("f/b", true),
        ("f/new", true),
        ("f/other", false),
        ("f/sub", true),
        ("f/sub/deep", true),
        ("f/sub/deep/file", true),
    ] {
        assert_eq!(world.is_there(name).await, there, "{name}");
    }
    assert_eq!(world.names("f/").await, ["b", "c", "new", "sub"]);
    assert_eq!(world.since(before), (0, 0, 0));
    let (b, d) = (valid("f/b"), valid("f/d"));
    desk.writers
        .rename(&world.source, &b, &d)
        .await
        .expect("renamed");
    let before = world.costs();
    assert_eq!(world.names("f/").await, ["c", "d", "new", "sub"]);
    assert!(!world.is_there("f/b").await && world.is_there("f/d").await);
    assert_eq!(world.since(before), (0, 0, 0));
    // Over HTTP too.
    let wanted = tidegate_write::receive::WriteCondition::Anything;
    desk.writers
        .write_path()
        .delete(&world.source, &valid("f/c"), &wanted)
        .await
        .expect("deleted");
    assert!(!world.is_there("f/c").await && world.is_there("f/d").await);
    assert!(!world.is_there("f/e").await);
    assert_eq!(world.names("f/").await, ["d", "new", "sub"]);
    assert_eq!(world.since(before), (0, 0, 0));
}

/// A DELETE over HTTP knows no folders: one without a marker is gone with its last object.
#[tokio::test(start_paused = true)]
async fn a_folder_goes_with_its_last_object_that_is_deleted_over_http() {
    let desk = Desk::plain();
    let world = &desk.world;
    for name in [
        "f/a",
        "f/sub/er/x",
        "f/two/x",
        "f/two/y",
        "f/marked/",
        "f/marked/x",
    ] {
        world
            .bucket
            .put(name, if name.ends_with('/') { "" } else { "x" });
    }
    for folder in ["f/", "f/sub/", "f/sub/er/", "f/two/", "f/marked/"] {
        assert!(!world.names(folder).await.is_empty(), "{folder}");
    }
    for key in ["f/sub/er/x", "f/two/x", "f/marked/x"] {
        let wanted = tidegate_write::receive::WriteCondition::Anything;
        let path = desk.writers.write_path();
        let deleted = path.delete(&world.source, &valid(key), &wanted).await;
        deleted.expect("deleted");
    }
    assert_eq!(world.names("f/").await, ["a", "marked", "two"]);
    assert!(!world.is_there("f/sub").await && !world.is_there("f/sub/er").await);
    assert!(world.is_there("f/two").await && world.is_there("f/marked").await);
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_was_made_here_costs_one_listing_a_ttl_later_on() {
    let desk = Desk::new(Terms::default());
    let world = &desk.world;
    desk.writers
        .make_folder(&world.source, &valid("y/m/"), None)
        .await
        .expect("made");
    for photo in 0..3 {
        let before = world.costs();
        for size in ["", "-150x150", "-300x200", "-1024x768", "-scaled"] {
            let name = format!("y/m/{photo}{size}.jpg");
            assert!(!world.is_there(&name).await);
            desk.write(&name, &"bytes".into()).await;
            assert!(world.is_there(&name).await);
        }
        assert_eq!(world.names("y/m/").await.len(), 5 * (photo + 1));
        let most = u64::from(photo > 0);
        let (heads, lists, gets) = world.since(before);
        assert!(
            heads == 0 && lists <= most && gets == 0,
            "{:?}",
            (heads, lists)
        );
        pass(secs(61)).await;
    }
}
