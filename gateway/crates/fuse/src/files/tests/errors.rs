//! Requests that the bucket refuses or never answers: each ends, with an error number.

use super::*;

#[tokio::test(start_paused = true)]
async fn every_request_ends() {
    let world = World::new();
    world.bucket.put("p/file", "x");
    world
        .bucket
        .set_faults([Fault::Latency(Duration::from_secs(3600))]);
    let late = world.files.look_up(ROOT_INO, "file".into());
    let late = world.files.bounded(late).await.map(drop);
    assert_eq!(late, Err(Errno::EIO));
    let waiting = {
        let files = world.files.clone();
        tokio::spawn(async move { files.bounded(files.look_up(ROOT_INO, "file".into())).await })
    };
    tokio::task::yield_now().await;
    world.files.stop.cancel();
    assert_eq!(waiting.await.expect("no panic").map(drop), Err(Errno::EIO));
}

#[tokio::test]
async fn what_the_origin_says_has_its_number() {
    let world = World::new();
    for (error, errno) in [
        (OriginError::Forbidden, Errno::EACCES),
        (OriginError::Unavailable("down"), Errno::EIO),
        (OriginError::NoSuchBucket, Errno::EIO),
    ] {
        world.bucket.set_faults([Fault::Refuse(error)]);
        assert_eq!(world.look(ROOT_INO, "file").await, Err(errno));
    }
}

/// A refusal says nothing about the bucket itself, however long it took.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_refused_keeps_no_client_from_others() {
    let world = World::new();
    world.bucket.put("p/file", "x");
    let slow = Fault::Latency(Duration::from_secs(5));
    world
        .bucket
        .set_faults([slow.clone(), Fault::Refuse(OriginError::Forbidden)]);
    assert_eq!(world.look(ROOT_INO, "secret").await, Err(Errno::EACCES));
    world.bucket.set_faults([slow]);
    assert_eq!(world.look(ROOT_INO, "file").await.expect("there").size, 1);
}
