//! Changes of attributes that wait for the bucket, while files are renamed, replaced and written, and over a restart.

use super::*;

#[tokio::test]
async fn a_rename_takes_a_change_along_and_a_deletion_drops_it() {
    let world = World::keeping();
    let ino = world.filled("before", "12345").await;
    world.set(ino, mode(0o600)).await;
    let renamed = world.files.rename(
        (ROOT_INO, "before".into()),
        (ROOT_INO, "file".into()),
        false,
    );
    assert_eq!(renamed.await, Ok(()));
    assert_eq!(world.attributes("p/file").mode, Some(0o100_600));
    assert_eq!(world.walk("file").await.perm, 0o600);
    let gone = world.filled("gone", "1").await;
    world.set(gone, mode(0o600)).await;
    let removed = world.files.unlink(ROOT_INO, "gone".into()).await;
    assert_eq!(removed, Ok(()));
    world.all_sent().await;
    let writes = world.bucket.writes();
    assert_eq!(writes, ["put", "copy", "delete", "put", "delete"]);
    assert_eq!(world.attributes("p/file").mode, Some(0o100_600));
}

/// A file that is renamed over another one before it was sent has its own attributes, whatever waits for the other.
#[tokio::test]
async fn a_renamed_file_does_not_take_the_change_of_the_one_that_it_replaces() {
    let world = World::keeping();
    let ino = world.filled("file", "old").await;
    world.set(ino, mode(0o600)).await;
    world.set(ino, dated(1_000, 0)).await;
    let created = world.files.create(ROOT_INO, "new".into(), 0, CLERK).await;
    let (_, handle, _) = created.expect("created");
    let written = world.files.write((handle, 0), 0, "new".into(), false);
    written.await.expect("written");
    let names = ((ROOT_INO, "new".into()), (ROOT_INO, "file".into()));
    let renamed = world.files.rename(names.0, names.1, false).await;
    assert_eq!(renamed, Ok(()));
    world.files.close(handle).await;
    world.all_sent().await;
    assert_eq!(world.stored("p/file").as_deref(), Some(&b"new"[..]));
    let stored = world.attributes("p/file");
    assert_eq!(stored.mode, Some(0o100_750));
    assert!(stored.modified.expect("dated").secs() > 1_000_000_000);
    assert_eq!(world.walk("file").await.perm, 0o750);
}

/// A folder that another program's tree has without a marker takes a change along that waits for it.
#[tokio::test]
async fn a_folder_without_a_marker_takes_its_change_along() {
    let world = World::keeping();
    world.bucket.put("p/old/file", "bytes");
    let ino = world.walk("old").await.ino.0;
    world.set(ino, mode(0o700)).await;
    let names = ((ROOT_INO, "old".into()), (ROOT_INO, "new".into()));
    let renamed = world.files.rename(names.0, names.1, false).await;
    assert_eq!(renamed, Ok(()));
    world.all_sent().await;
    assert_eq!(world.bucket.keys(), ["p/new/", "p/new/file"]);
    assert_eq!(world.attributes("p/new/").mode, Some(0o40_700));
    assert_eq!(world.walk("new").await.perm, 0o700);
}

#[tokio::test]
async fn a_write_takes_a_change_along() {
    let world = World::keeping();
    let ino = world.filled("file", "12345").await;
    world.set(ino, mode(0o600)).await;
    let opened = world.files.open(ino, OpenFlags(1), BY).await;
    let (handle, _) = opened.expect("it opens");
    let written = world.files.write((handle, 0), 5, "6".into(), false).await;
    written.expect("written");
    assert_eq!(world.files.flush(handle, 0).await, Ok(()));
    world.files.close(handle).await;
    world.all_sent().await;
    assert_eq!(world.bucket.writes(), ["put", "put"]);
    assert_eq!(world.attributes("p/file").mode, Some(0o100_600));
    assert_eq!(world.walk("file").await.perm, 0o600);
}

#[tokio::test]
async fn another_writers_version_wins_over_a_change_that_waits() {
    let world = World::keeping();
    let ino = world.filled("file", "12345").await;
    world.set(ino, mode(0o600)).await;
    world
        .bucket
        .put_with("p/file", "other", &[("x-amz-meta-mode", "33261")]);
    world.all_sent().await;
    assert_eq!(world.attributes("p/file").mode, Some(0o100_755));
    world.purge("p/file").await;
    assert_eq!(world.walk("file").await.perm, 0o755);
}

#[tokio::test]
async fn what_was_set_is_there_after_a_restart_and_sent_then() {
    let world = World::keeping();
    let ino = world.filled("file", "12345").await;
    world.set(ino, mode(0o600)).await;
    let folder = world.files.mkdir(ROOT_INO, "d".into(), CLERK).await;
    let folder = folder.expect("made").0.ino.0;
    world.set(folder, dated(1_500_000_000, 5)).await;
    let world = world.restarted(true).await;
    let lists = world.bucket.lists();
    assert_eq!(world.walk("file").await.perm, 0o600);
    let shown = world.walk("d").await;
    assert_eq!(
        attr::shown_time(shown.mtime),
        UnixTime::new(1_500_000_000, 5)
    );
    assert_eq!(shown.perm, 0o750);
    assert!(world.bucket.lists() > lists, "the names were asked for");
    world.all_sent().await;
    assert_eq!(world.attributes("p/file").mode, Some(0o100_600));
    let marker = world.attributes("p/d/");
    assert_eq!(marker.modified, Some(UnixTime::new(1_500_000_000, 5)));
    let copies = world.bucket.count("copy");
    let world = world.restarted(true).await;
    world.all_sent().await;
    assert_eq!(
        world.bucket.count("copy"),
        copies,
        "nothing is left to send"
    );
    let world = world.restarted(false).await;
    assert_eq!(world.walk("file").await.perm, 0o600);
}

#[tokio::test(start_paused = true)]
async fn an_outage_keeps_a_change_waiting() {
    let world = World::keeping();
    let ino = world.filled("file", "12345").await;
    let down = Fault::Refuse(OriginError::Unavailable("down"));
    world.bucket.set_faults([down]);
    world.set(ino, mode(0o600)).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.attributes("p/file").mode, Some(0o100_750));
    assert_eq!(world.files.getattr(ino).await.expect("known").0.perm, 0o600);
    world.bucket.set_faults([]);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(world.attributes("p/file").mode, Some(0o100_600));
}
