//! Names while the origin fails: what was known holds for a while, and no failure is a missing file.

use tidegate_origin::OriginError;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_origin_that_fails_is_no_missing_file() {
    let mut setup = Setup::bucket(FakeOrigin::new());
    setup.origin.retry.retries = 0;
    let world = setup.build();
    let down = OriginError::Unavailable("down");
    world.bucket.set_faults([Fault::Refuse(down)]);
    assert_eq!(world.look("k").await, Err(Error::Unavailable));
    let forbidden = OriginError::Forbidden;
    world.bucket.set_faults([Fault::Refuse(forbidden)]);
    assert_eq!(world.look("l").await, Err(Error::Forbidden));
    world.bucket.set_faults([]);
    assert_eq!(world.entry("k").await, NameKind::Missing);
}

#[tokio::test(start_paused = true)]
async fn names_hold_for_a_while_when_the_origin_fails() {
    let mut setup = Setup::default();
    setup.origin.retry.retries = 0;
    setup.profile.stale_while_revalidate = Duration::ZERO;
    setup.profile.stale_if_error = secs(3600);
    let world = setup.build();
    world.bucket.put("f/k", "x");
    world.bucket.put("f/l", "x");
    assert_eq!(world.entry("f").await, NameKind::Folder);
    assert!(is_file(&world.entry("f/k").await, 1));
    assert_eq!(world.entry("none").await, NameKind::Missing);
    pass(secs(120)).await;
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    assert_eq!(world.entry("f").await, NameKind::Folder);
    assert!(is_file(&world.entry("f/k").await, 1));
    assert_eq!(world.entry("none").await, NameKind::Missing);
    for unknown in ["f/l", "f/none", "other"] {
        assert_eq!(world.look(unknown).await, Err(Error::Unavailable));
    }
    pass(secs(3600)).await;
    for old in ["f", "f/k", "none"] {
        assert_eq!(world.look(old).await, Err(Error::Unavailable));
    }
}

/// A program that makes a file asks first whether the name is free.
#[tokio::test(start_paused = true)]
async fn a_listed_folder_tells_free_names_while_the_origin_fails() {
    let mut setup = Setup::default();
    setup.origin.retry.retries = 0;
    setup.profile.stale_if_error = secs(3600);
    let world = setup.build();
    world.bucket.put("f/k", "x");
    world.bucket.put("f/l", "x");
    let listed = world.engine.list(&world.source, "f/", None).await;
    assert_eq!(listed.expect("a page").names.len(), 2);
    pass(secs(120)).await;
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    // The first answer comes from a listing that fails: it takes nothing of what is known.
    for free in ["f/m", "f/n", "f/m"] {
        assert_eq!(world.entry(free).await, NameKind::Missing, "{free}");
    }
    assert!(is_file(&world.entry("f/l").await, 1));
    world.bucket.set_faults([]);
    world.bucket.put("f/m", "123");
    assert!(is_file(&world.entry("f/m").await, 3), "the bucket is asked");
    world
        .bucket
        .set_faults([Fault::Refuse(OriginError::Unavailable("down"))]);
    pass(secs(3700)).await;
    assert_eq!(world.look("f/n").await, Err(Error::Unavailable));
}
