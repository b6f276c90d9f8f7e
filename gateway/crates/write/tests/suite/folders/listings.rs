//! Listings that fail, that a client may not have, and that show a known version again.

use tidegate_origin::OriginError;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_listing_that_fails_or_is_cut_off_says_nothing() {
    let mut setup = Setup::bucket(FakeOrigin::new());
    setup.origin.retry.retries = 0;
    let world = setup.build();
    for n in 0..1500 {
        world.bucket.put(&format!("f/{n:04}"), "x");
    }
    let down = || Fault::Refuse(OriginError::Unavailable("down"));
    for name in ["f/1", "f/2"] {
        world.look(name).await.expect("an answer");
    }
    world.bucket.fail_next([down()]);
    assert_eq!(world.look("f/3").await.map(drop), Err(Error::Unavailable));
    // The listing is tried again if there is reason to.
    let before = world.costs();
    assert!(!world.is_there("f/3").await && !world.is_there("f/4").await);
    assert_eq!(world.since(before), (2, 2, 0));
    // The second page fails.
    world.bucket.fail_next([]);
    world.bucket.fail_next([down()]);
    let first = world.engine.list(&world.source, "f/", None).await;
    let next = first.expect("a page").next;
    let failed = world.engine.list(&world.source, "f/", next).await;
    assert_eq!(failed.map(drop).expect_err("it fails"), Error::Unavailable);
    let before = world.costs();
    assert!(!world.is_there("f/0500x").await, "the first page tells");
    assert_eq!(world.since(before), (0, 0, 0));
    assert!(
        world.is_there("f/1400").await,
        "and nothing of what is behind"
    );
    assert_ne!(world.since(before), (0, 0, 0));
    assert_eq!(world.names("f/").await.len(), 1500);
}

/// A client with access to objects and not to listings still finds objects by their names.
#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_list_asks_by_name() {
    let world = World::plain();
    world.bucket.put("f/a", "x");
    for name in ["f/1", "f/2"] {
        world.look(name).await.expect("an answer");
    }
    world
        .bucket
        .fail_next([Fault::Refuse(OriginError::Forbidden)]);
    assert!(world.is_there("f/a").await);
}

/// A listing that shows a version again confirms it.
#[tokio::test(start_paused = true)]
async fn a_listing_confirms_the_versions_that_it_shows() {
    let setup = Setup::profile(|profile| {
        profile.stale_while_revalidate = Duration::ZERO;
    });
    let world = setup.build();
    for name in ["f/same", "f/mended", "f/changed"] {
        world.bucket.put(name, "bytes");
        world.read(name).await.expect("read");
    }
    pass(secs(61)).await;
    world
        .bucket
        .mend("f/mended", &[("content-type", "text/plain")]);
    world.bucket.put("f/changed", "others");
    let before = world.costs();
    world.names("f/").await;
    world.read("f/same").await.expect("read");
    assert_eq!(world.since(before), (0, 1, 0));
    let changed = world.read("f/changed").await.expect("read");
    assert_eq!(&changed[..], b"others");
    let mended = world.get("f/mended").await.expect("open");
    let headers = &mended.version().headers;
    assert!(headers.iter().any(|(_, value)| value == "text/plain"));
    // The confirmation counts from the time of the listing's request.
    pass(secs(59)).await;
    let before = world.costs();
    world.read("f/same").await.expect("read");
    assert_eq!(world.since(before), (0, 0, 0));
    pass(secs(2)).await;
    world.read("f/same").await.expect("read");
    assert_eq!(world.since(before), (0, 0, 1));
    // An open that demands confirmation gets it from the bucket.
    world.names("f/").await;
    let before = world.costs();
    let forced = OpenOptions {
        revalidate: true,
        ..OpenOptions::default()
    };
    world.open("f/same", forced).await.expect("open");
    assert_eq!(world.since(before), (1, 0, 0));
}
