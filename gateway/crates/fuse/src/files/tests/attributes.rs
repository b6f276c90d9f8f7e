//! Modes, owners, times and links, as programs see them and as the bucket has them.

use tidegate_plan::attributes::{Attributes, MTIME_HEADER, UnixTime};

use super::*;

mod links;
mod model;
mod opened;
mod replaced;
mod waiting;

const CLERK: Creator = Creator {
    uid: 1000,
    gid: 1001,
    mode: 0o750,
    thread: 0,
};

fn mode(mode: u32) -> SetAttr {
    SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    }
}

fn dated(secs: i64, nanos: u32) -> SetAttr {
    SetAttr {
        modified: Some(UnixTime::new(secs, nanos)),
        ..SetAttr::default()
    }
}

fn owner(uid: u32, gid: u32) -> SetAttr {
    SetAttr {
        uid: Some(uid),
        gid: Some(gid),
        ..SetAttr::default()
    }
}

impl World {
    /// Writes a file as the clerk, and closes it.
    async fn filled(&self, name: &str, bytes: &'static str) -> u64 {
        let created = self.files.create(ROOT_INO, name.into(), 0, CLERK).await;
        let ((attr, _), handle, _) = created.expect("created");
        let written = self.files.write((handle, 0), 0, bytes.into(), false).await;
        written.expect("written");
        self.files.flush(handle, 0).await.expect("closed");
        self.files.close(handle).await;
        attr.ino.0
    }

    async fn set(&self, ino: u64, set: SetAttr) {
        self.files.setattr(ino, set).await.expect("set");
    }

    async fn all_sent(&self) {
        let writers = self.files.writers().expect("writable");
        writers.settled().await;
    }

    fn attributes(&self, key: &str) -> Attributes {
        let (version, _) = self.bucket.object(key).expect("an object");
        Attributes::of(&version.headers)
    }

    /// Returns the bytes of each file of the spool.
    fn spooled(&self) -> Vec<Vec<u8>> {
        let entries = std::fs::read_dir(self.folder.path()).expect("readable");
        let mut paths: Vec<_> = entries.map(|it| it.expect("readable").path()).collect();
        paths.sort();
        let read = |path| std::fs::read(path).expect("readable");
        paths.into_iter().map(read).collect()
    }

    /// Returns what a process finds after a crash of this one, with its spool or with an empty one.
    async fn restarted(self, with_spool: bool) -> Self {
        let left = tempfile::tempdir().expect("a folder");
        if with_spool {
            for entry in std::fs::read_dir(self.folder.path()).expect("readable") {
                let entry = entry.expect("readable");
                let to = left.path().join(entry.file_name());
                std::fs::copy(entry.path(), to).expect("copied");
            }
        }
        self.engine.close(Duration::from_secs(1)).await;
        let bucket = self.bucket.clone();
        let change = |settings: &mut Settings| settings.attributes = AttributeUse::Kept;
        Self::over((bucket, left), Profile::web(), change, Self::write_access)
    }
}

/// WordPress sets the mode of each file that it has written, to what that has already.
#[tokio::test]
async fn an_attribute_that_stays_writes_nothing() {
    let world = World::keeping();
    let ino = world.filled("waits.tmp", "bytes").await;
    let spooled = world.spooled();
    world.set(ino, mode(CLERK.mode)).await;
    world.set(ino, owner(CLERK.uid, CLERK.gid)).await;
    assert_eq!(world.spooled(), spooled);
    world.set(ino, mode(0o640)).await;
    assert_ne!(world.spooled(), spooled);
    world.all_sent().await;
    assert_eq!(world.bucket.writes(), ["put"]);
    assert_eq!(world.attributes("p/waits.tmp").mode, Some(0o100_640));
}

#[tokio::test]
async fn attributes_ride_on_the_upload() {
    let world = World::keeping();
    let created = world.files.create(ROOT_INO, "script".into(), 0, CLERK);
    let ((attr, _), handle, _) = created.await.expect("created");
    assert_eq!((attr.perm, attr.uid, attr.gid), (0o750, 1000, 1001));
    let written = world.files.write((handle, 0), 0, "#!".into(), false);
    written.await.expect("written");
    let ino = attr.ino.0;
    world.set(ino, mode(0o755)).await;
    world.set(ino, owner(5, 6)).await;
    world.set(ino, dated(-2, 500_000_000)).await;
    assert_eq!(world.files.flush(handle, 0).await, Ok(()));
    world.files.close(handle).await;
    assert_eq!(world.bucket.writes(), ["put"]);
    let (version, _) = world.bucket.object("p/script").expect("there");
    let header = |name: &str| version.header(&name.try_into().expect("a name"));
    assert_eq!(header("x-amz-meta-mode"), Some("0100755"));
    assert_eq!(header("x-amz-meta-uid"), Some("5"));
    assert_eq!(header("x-amz-meta-gid"), Some("6"));
    assert_eq!(header("x-amz-meta-mtime"), Some("-1.500000000"));
    let before = world.bucket.writes().len();
    let shown = world.walk("script").await;
    assert_eq!((shown.perm, shown.uid, shown.gid), (0o755, 5, 6));
    assert_eq!(
        attr::shown_time(shown.mtime),
        UnixTime::new(-2, 500_000_000)
    );
    world.all_sent().await;
    assert_eq!(world.bucket.writes().len(), before);
}

/// A file that no program dates has the time of its last write in its metadata, so that other programs see it.
#[tokio::test]
async fn what_was_written_last_is_the_stored_time() {
    let world = World::keeping();
    let ino = world.filled("file", "12345").await;
    let shown = world.files.getattr(ino).await.expect("there").0;
    let stored = world.attributes("p/file").modified;
    assert_eq!(stored, Some(attr::shown_time(shown.mtime)));
}

#[tokio::test(start_paused = true)]
async fn changes_after_the_close_cost_one_copy_together() {
    let world = World::keeping();
    let ino = world.filled("file.txt", "12345").await;
    let before = world.bucket.object("p/file.txt").expect("there").0;
    let (requests, lists) = (world.requests(), world.bucket.lists());
    world.set(ino, dated(1_600_000_000, 7)).await;
    world.set(ino, mode(0o640)).await;
    world.set(ino, owner(1, 2)).await;
    world.set(ino, mode(0o640)).await;
    assert_eq!(world.requests(), requests, "nothing is sent at once");
    let listed = world.listed("file.txt").await;
    for attr in [world.walk("file.txt").await, listed] {
        assert_eq!((attr.perm, attr.uid, attr.gid), (0o640, 1, 2));
        assert_eq!(
            attr::shown_time(attr.mtime),
            UnixTime::new(1_600_000_000, 7)
        );
    }
    let listed = world.bucket.lists() - lists;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(world.bucket.writes(), ["put", "copy"]);
    assert_eq!(world.requests() - requests, 1 + listed);
    let (after, bytes) = world.bucket.object("p/file.txt").expect("there");
    assert_eq!((bytes, &after.etag), ("12345".into(), &before.etag));
    assert_eq!(
        after.header(&http::header::CONTENT_TYPE),
        Some("text/plain")
    );
    assert_eq!(after.header(&MTIME_HEADER), Some("1600000000.000000007"));
    let requests = world.requests();
    let (handle, _) = world.open(ino).await;
    assert_eq!(world.read(handle).await, Ok(b"12345".to_vec()));
    assert_eq!(world.requests(), requests, "its chunks stay");
    world.all_sent().await;
    assert_eq!(world.requests(), requests);
}

#[tokio::test]
async fn a_file_that_is_replaced_keeps_mode_and_owner() {
    let world = World::keeping();
    let ino = world.filled("file", "12345").await;
    world.set(ino, mode(0o4755)).await;
    world.all_sent().await;
    let truncate = i32::try_from(rustix::fs::OFlags::TRUNC.bits()).expect("small");
    let opened = world
        .files
        .open(ino, OpenFlags(1 | truncate), (0, 1000))
        .await;
    let (handle, _) = opened.expect("it opens");
    let written = world.files.write((handle, 0), 0, "new".into(), false).await;
    written.expect("written");
    assert_eq!(world.files.flush(handle, 0).await, Ok(()));
    world.files.close(handle).await;
    let shown = world.walk("file").await;
    assert_eq!((shown.perm, shown.uid, shown.size), (0o755, 1000, 3));
}

#[tokio::test]
async fn a_link_is_a_small_object_whose_type_is_found_again() {
    let world = World::keeping();
    let at = (ROOT_INO, "link".into());
    let made = world.files.symlink(at, "../some where".into(), CLERK).await;
    let (made, _) = made.expect("made");
    assert_eq!((made.kind, made.perm), (FileType::Symlink, 0o777));
    assert_eq!((made.size, made.uid), (13, 1000));
    let target = world.files.readlink(made.ino.0).await;
    assert_eq!(target, Ok(b"../some where".to_vec()));
    assert_eq!(world.stored("p/link").expect("there"), "../some where");
    assert_eq!(world.bucket.writes(), ["put"]);
    let at = (ROOT_INO, "link".into());
    let again = world.files.symlink(at, "x".into(), CLERK).await;
    assert_eq!(again.map(drop), Err(Errno::EEXIST));
    world
        .bucket
        .put_with("p/s3fs", "else", &[("x-amz-meta-mode", "41471")]);
    let geesefs = [("x-amz-meta---symlink-target", "a%2Fb")];
    world.bucket.put_with("p/geesefs", "", &geesefs);
    world.bucket.put("p/text", "plain");
    let world = world.restarted(false).await;
    let heads = world.bucket.heads();
    let handle = world.files.open_folder(ROOT_INO).expect("the root");
    let page = world.files.folder(handle).expect("open").at(0).await;
    let page = page.expect("names");
    world.files.learn_types("p/", &page).await;
    assert_eq!(world.bucket.heads() - heads, 4, "one for each small object");
    let is_link =
        |(name, entry): &&(String, NameKind)| world.files.is_link(&format!("p/{name}"), entry);
    let links = page.names.iter().filter(is_link);
    let links: Vec<_> = links.map(|(name, _)| name.as_str()).collect();
    assert_eq!(links, ["geesefs", "link", "s3fs"]);
    for (name, target) in [
        ("geesefs", "a/b"),
        ("link", "../some where"),
        ("s3fs", "else"),
    ] {
        let attr = world.walk(name).await;
        assert_eq!(attr.kind, FileType::Symlink, "{name}");
        let read = world.files.readlink(attr.ino.0).await.expect("a target");
        assert_eq!(read, target.as_bytes());
    }
    assert_eq!(world.walk("text").await.kind, FileType::RegularFile);
    assert_eq!(world.bucket.heads() - heads, 4);
    let world = world.restarted(true).await;
    let heads = world.bucket.heads();
    let page = {
        let handle = world.files.open_folder(ROOT_INO).expect("the root");
        world.files.folder(handle).expect("open").at(0).await
    };
    let page = page.expect("names");
    world.files.learn_types("p/", &page).await;
    assert_eq!(world.bucket.heads(), heads, "the types outlive a restart");
}

#[tokio::test]
async fn a_folder_has_a_marker_with_its_attributes() {
    let world = World::keeping();
    let made = world.files.mkdir(ROOT_INO, "d".into(), CLERK).await;
    let (made, _) = made.expect("made");
    let shared = Creator {
        mode: 0o2770,
        ..CLERK
    };
    assert_eq!((made.perm, made.uid, made.gid), (0o750, 1000, 1001));
    world.set(made.ino.0, mode(0o2770)).await;
    let sub = world
        .files
        .mkdir(made.ino.0, "sub".into(), Creator { gid: 9, ..shared });
    let (sub, _) = sub.await.expect("made");
    assert_eq!((sub.perm, sub.gid), (0o2770, 1001), "they are the parent's");
    world.set(made.ino.0, dated(1_400_000_000, 1)).await;
    world.set(made.ino.0, dated(1_400_000_000, 1)).await;
    world.all_sent().await;
    assert_eq!(world.bucket.writes(), ["put", "put", "put"]);
    let marker = world.attributes("p/d/");
    assert_eq!(marker.mode, Some(0o042_770));
    assert_eq!(marker.modified, Some(UnixTime::new(1_400_000_000, 1)));
    let before = world.walk("d").await.mtime;
    let created = world.files.create(made.ino.0, "new".into(), 0, CLERK).await;
    let (_, handle, _) = created.expect("created");
    world.files.close(handle).await;
    assert!(world.walk("d").await.mtime > before, "a name came");
}
