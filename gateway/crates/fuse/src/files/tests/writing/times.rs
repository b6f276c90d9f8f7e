//! `stat` shows one time of a version, whatever happens to the cached knowledge of it.

use super::*;

impl World {
    /// Returns the attributes that a listing shows of a name.
    pub(in super::super) async fn listed(&self, wanted: &str) -> FileAttr {
        let handle = self.files.open_folder(ROOT_INO).expect("the root");
        let names = self.files.folder(handle).expect("open").at(0).await;
        let names = names.expect("names");
        let all = names.from(0).iter();
        let (name, entry) = all.clone().find(|(name, _)| name == wanted).expect(wanted);
        let told = self
            .files
            .tell_listed(ROOT_INO, &format!("p/{name}"), entry);
        told.expect("it is there").0
    }

    async fn read_through(&self, name: &str) {
        let (handle, _) = self.open(self.walk(name).await.ino.0).await;
        self.read(handle).await.expect("read");
        self.files.close(handle).await;
    }

    /// Returns the times of a file, and checks that they are the same from every request that
    /// returns them.
    async fn times(&self, name: &str, after: &str) -> (SystemTime, SystemTime) {
        let listed = self.listed(name).await;
        let walked = self.walk(name).await;
        let got = self.files.getattr(walked.ino.0).await.expect("there").0;
        let (handle, _) = self.open(walked.ino.0).await;
        let open = self.files.getattr(walked.ino.0).await.expect("there").0;
        self.files.close(handle).await;
        let times = |attr: &FileAttr| (attr.mtime, attr.ctime);
        for (way, attr) in [("look-up", walked), ("stat", got), ("open", open)] {
            assert_eq!(times(&attr), times(&listed), "{way}, {after}");
        }
        times(&listed)
    }
}

#[tokio::test]
async fn a_file_that_was_written_keeps_the_time_that_was_told_at_its_close() {
    let world = World::writable();
    let (ino, handle) = world.create("file").await;
    world.write(handle, 0, "12345").await;
    let told = world.files.getattr(ino).await.expect("there").0;
    assert_eq!(told.mtime, told.ctime);
    world.done(handle).await;
    let told = (told.mtime, told.ctime);
    assert_eq!(world.times("file", "the close").await, told);
    world.purge("p/file").await;
    assert_eq!(world.times("file", "a purge").await, told);
    world.read_through("file").await;
    assert_eq!(world.times("file", "a read").await, told);
}

#[tokio::test]
async fn an_open_to_write_without_a_write_moves_no_time() {
    let world = World::writable();
    world.bucket.put("p/file", "before");
    let before = world.times("file", "the beginning").await;
    let ino = world.walk("file").await.ino.0;
    let (writer, _) = world.files.open(ino, WRITE, BY).await.expect("it opens");
    let attr = world.files.getattr(ino).await.expect("there").0;
    assert_eq!((attr.mtime, attr.ctime), before);
    world.done(writer).await;
    assert_eq!(world.times("file", "the close").await, before);
}

#[tokio::test]
async fn a_rename_keeps_the_time_and_takes_no_ctime_back() {
    let world = World::writable();
    world.bucket.put("p/old", "one");
    let (_, handle) = world.create("new").await;
    world.write(handle, 0, "two").await;
    world.done(handle).await;
    let (_, over) = world.times("new", "the close").await;
    let (modified, _) = world.times("old", "the beginning").await;
    let renamed = world
        .files
        .rename((ROOT_INO, "old".into()), (ROOT_INO, "new".into()), false);
    assert_eq!(renamed.await, Ok(()));
    let (kept, changed) = world.times("new", "the rename").await;
    assert_eq!(kept, modified);
    assert!(changed >= over);
}

#[tokio::test]
async fn a_time_that_is_set_to_the_past_is_no_ctime() {
    let world = World::keeping();
    let (ino, handle) = world.create("file").await;
    world.write(handle, 0, "12345").await;
    world.done(handle).await;
    let (_, changed) = world.times("file", "the close").await;
    let past = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let set = SetAttr {
        modified: Some(UnixTime::new(1_000_000_000, 0)),
        ..SetAttr::default()
    };
    world.files.setattr(ino, set).await.expect("set");
    let attr = world.walk("file").await;
    assert_eq!(attr.mtime, past);
    assert!(attr.ctime >= changed);
}
