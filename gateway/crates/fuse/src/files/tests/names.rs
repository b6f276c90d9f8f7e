//! The requests that the names of a mount cost.

use tokio::time::{Instant, advance, sleep};

use super::*;

mod made;

const NOTHING: SetAttr = SetAttr {
    size: None,
    mode: Some(0o644),
    uid: None,
    gid: None,
    modified: None,
    accessed: None,
    handle: None,
    caller: 7,
};

/// The sizes that WordPress makes of a picture.
const SIZES: [&str; 6] = [
    "",
    "-scaled",
    "-150x150",
    "-300x200",
    "-768x512",
    "-1024x683",
];

impl World {
    fn closing(commit: Commit) -> Self {
        Self::probing(commit, None)
    }

    /// Returns a world whose opens ask the bucket, unless it answered within this time.
    fn probing(commit: Commit, probe: Option<Duration>) -> Self {
        Self::build(
            Profile::web(),
            |_| {},
            |path, source, folder| {
                let terms = tidegate_write::Settings::new(folder.to_owned());
                let sources = std::slice::from_ref(source);
                Access::Write(WriteSettings {
                    writers: Writers::start(path, terms, sources).expect("a spool"),
                    commit,
                    probe,
                    rename_limit: 20,
                })
            },
        )
    }

    /// Returns the numbers of HEADs, LISTs and GETs.
    pub(crate) fn costs(&self) -> (u64, u64, u64) {
        (self.bucket.heads(), self.bucket.lists(), self.bucket.gets())
    }

    pub(crate) async fn scan(&self, folder: u64) -> Vec<String> {
        let handle = self.files.open_folder(folder).expect("a folder");
        let (mut names, mut at) = (Vec::new(), 0);
        loop {
            // The dots come before the names.
            let offset = if at == 0 { 0 } else { at + 2 };
            let page = kernel::names(&self.files, handle, offset).await;
            let page = page.expect("names");
            let some = page.from(at);
            if some.is_empty() {
                break;
            }
            names.extend(some.iter().map(|(name, _)| name.clone()));
            at += some.len() as u64;
        }
        self.files.close_folder(handle);
        names
    }

    async fn put(&self, folder: u64, name: &str) {
        let created = self.files.create(folder, name.into(), 0o101, MAKER).await;
        let ((attr, _), handle, _) = created.expect("created");
        let bytes = Bytes::from_static(b"picture");
        self.files
            .write((handle, 0), 0, bytes, false)
            .await
            .expect("written");
        assert_eq!(self.files.flush(handle, 0).await, Ok(()));
        self.files.close(handle).await;
        // chmod
        self.files
            .setattr(attr.ino.0, NOTHING)
            .await
            .expect("accepted");
    }

    /// Sends the requests of `wp_handle_upload`, `wp_unique_filename` and the editor in a folder.
    async fn upload(&self, folder: u64, photo: &str) {
        assert_eq!(
            self.look(folder, &format!("{photo}.jpg")).await,
            Err(Errno::ENOENT)
        );
        let names = self.scan(folder).await;
        assert!(!names.iter().any(|name| name.starts_with(photo)));
        for size in SIZES {
            let name = format!("{photo}{size}.jpg");
            assert_eq!(self.look(folder, &name).await, Err(Errno::ENOENT));
            self.put(folder, &name).await;
            assert_eq!(self.look(folder, &name).await.expect("there").size, 7);
        }
        assert_eq!(self.scan(folder).await.len(), names.len() + SIZES.len());
    }
}

#[tokio::test]
async fn uploads_ask_nothing_of_a_folder_that_was_made_here() {
    for commit in [Commit::Close, Commit::Background] {
        let world = World::closing(commit);
        assert_eq!(world.look(ROOT_INO, "2026").await, Err(Errno::ENOENT));
        let (year, _) = world
            .files
            .mkdir(ROOT_INO, "2026".into(), MAKER)
            .await
            .expect("made");
        let (month, _) = world
            .files
            .mkdir(year.ino.0, "11".into(), MAKER)
            .await
            .expect("made");
        let before = world.costs();
        assert!(before.0 <= 1 && before.1 <= 1, "{before:?}");
        for photo in ["one", "two"] {
            world.upload(month.ino.0, photo).await;
        }
        assert_eq!(world.costs(), before, "{commit:?}");
    }
}

#[tokio::test]
async fn uploads_list_a_folder_that_was_there_once() {
    let world = World::closing(Commit::Close);
    for n in 0..700 {
        world.bucket.put(&format!("p/2026/11/{n:03}.jpg"), "x");
    }
    let month = world.walk("2026/11").await.ino.0;
    assert_eq!(world.costs(), (0, 1, 0), "its first key proves it");
    // One name is unknown, and then the folder is read.
    world.upload(month, "one").await;
    assert_eq!(world.costs(), (1, 3, 0));
    world.upload(month, "two").await;
    assert_eq!(world.costs(), (1, 3, 0));
    // A name is removed, made and removed again: only the changes themselves reach the bucket.
    let (folder, _) = world
        .files
        .mkdir(month, "cache".into(), MAKER)
        .await
        .expect("made");
    world.put(folder.ino.0, "index.php").await;
    assert_eq!(
        world.files.rmdir(month, "cache".into()).await,
        Err(Errno::ENOTEMPTY)
    );
    assert_eq!(
        world.files.unlink(folder.ino.0, "index.php".into()).await,
        Ok(())
    );
    assert_eq!(world.files.rmdir(month, "cache".into()).await, Ok(()));
    assert_eq!(world.look(month, "cache").await, Err(Errno::ENOENT));
    assert_eq!(world.costs(), (1, 3, 0));
    assert!(!world.bucket.keys().iter().any(|key| key.contains("cache")));
}

/// A library's scan: folders are read and names looked up, and files opened for their beginnings.
#[tokio::test]
async fn a_scan_lists_each_folder_once_and_asks_each_file_once() {
    let world = World::with(Profile::stream(), |_| {});
    for n in 0..10 {
        world
            .bucket
            .put(&format!("p/author/book/{n}.m4b"), vec![7; 2 << 20]);
    }
    assert_eq!(world.scan(ROOT_INO).await, ["author"]);
    let author = world.walk("author").await.ino.0;
    assert_eq!(world.scan(author).await, ["book"]);
    let book = world.walk("author/book").await.ino.0;
    for name in world.scan(book).await {
        let ino = world.look(book, &name).await.expect("there").ino.0;
        let (handle, _) = world.open(ino).await;
        for offset in [0, 64 << 10] {
            world
                .files
                .read(handle, offset, 64 << 10)
                .await
                .expect("read");
        }
        world.files.close(handle).await;
        world.files.getattr(ino).await.expect("attributes");
    }
    for name in ["metadata.json", "cover.jpg", "desc.txt"] {
        assert_eq!(world.look(book, name).await, Err(Errno::ENOENT));
    }
    assert_eq!(world.scan(book).await.len(), 10);
    assert_eq!(world.costs(), (0, 3, 10));
}

/// Only the bucket's copy looks at an object that is renamed, and at the new name if that must not be replaced.
#[tokio::test]
async fn a_rename_asks_two_heads_and_nothing_of_the_folders() {
    for (keep, heads) in [(false, 2), (true, 3)] {
        let world = World::closing(Commit::Close);
        world.bucket.put("p/a/file", "bytes");
        world.bucket.put("p/b/other", "x");
        let (a, b) = (world.walk("a").await.ino.0, world.walk("b").await.ino.0);
        world.scan(a).await;
        world.scan(b).await;
        let before = world.costs();
        let (from, to) = ((a, "file".into()), (b, "moved".into()));
        assert_eq!(world.files.rename(from, to, keep).await, Ok(()));
        assert_eq!(world.look(a, "file").await, Err(Errno::ENOENT));
        assert_eq!(world.look(b, "moved").await.expect("there").size, 5);
        assert_eq!(world.scan(b).await, ["moved", "other"]);
        let after = world.costs();
        assert_eq!(after, (before.0 + heads, before.1, before.2));
    }
}

/// The time of an answer of the bucket.
const TRIP: Duration = Duration::from_millis(20);
/// The time for which an answer counts.
const STANDS: Duration = Duration::from_secs(1);

/// The folder of a month with a photo that was just uploaded, and a bucket that takes its time from now on.
async fn just_uploaded(world: &World) -> u64 {
    assert_eq!(world.look(ROOT_INO, "11").await, Err(Errno::ENOENT));
    let made = world.files.mkdir(ROOT_INO, "11".into(), MAKER).await;
    let month = made.expect("made").0.ino.0;
    assert_eq!(world.look(month, "photo.jpg").await, Err(Errno::ENOENT));
    world.put(month, "photo.jpg").await;
    world.bucket.set_faults([Fault::Latency(TRIP)]);
    month
}

/// ImageMagick opens a size twice: it creates it and closes it empty, then truncates and writes it.
#[tokio::test(start_paused = true)]
async fn a_size_of_a_photo_takes_one_round_trip() {
    let world = World::probing(Commit::Close, Some(STANDS));
    let month = just_uploaded(&world).await;
    for name in ["photo-300x200.jpg", "photo-768x512.jpg"] {
        let since = Instant::now();
        assert_eq!(world.look(month, name).await, Err(Errno::ENOENT));
        let created = world.files.create(month, name.into(), 0o1102, MAKER).await;
        let ((attr, _), handle, _) = created.expect("created");
        assert_eq!(world.files.flush(handle, 0).await, Ok(()));
        world.files.close(handle).await;
        let opened = world.files.open(attr.ino.0, OpenFlags(0o1002), BY).await;
        let (handle, _) = opened.expect("opened");
        for at in 0..7 {
            let bytes = Bytes::from(vec![7; 8 << 10]);
            let written = world.files.write((handle, 0), at * (8 << 10), bytes, false);
            written.await.expect("written");
        }
        assert_eq!(since.elapsed(), Duration::ZERO, "{name}");
        assert_eq!(world.files.flush(handle, 0).await, Ok(()));
        assert_eq!(since.elapsed(), TRIP, "{name}");
        world.files.close(handle).await;
        assert_eq!(world.look(month, name).await.expect("there").size, 56 << 10);
        assert_eq!(since.elapsed(), TRIP, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_photo_is_opened_without_a_wait_for_the_probe() {
    let world = World::probing(Commit::Close, Some(STANDS));
    let month = just_uploaded(&world).await;
    for name in ["photo-300x200.jpg", "photo-768x512.jpg"] {
        advance(STANDS).await;
        let probes = world.bucket.probes();
        // WordPress looks several times, and works on the picture meanwhile.
        for _ in 0..3 {
            assert_eq!(world.look(month, name).await, Err(Errno::ENOENT));
            sleep(TRIP).await;
        }
        let since = Instant::now();
        let created = world.files.create(month, name.into(), 0o101, MAKER).await;
        let (_, handle, _) = created.expect("created");
        assert_eq!(since.elapsed(), Duration::ZERO, "{name}");
        assert_eq!(world.bucket.probes(), probes + 1, "{name}");
        world.files.close(handle).await;
    }
    // A name that nothing tells of may never be made.
    advance(STANDS).await;
    let probes = world.bucket.probes();
    assert_eq!(world.look(month, "other.jpg").await, Err(Errno::ENOENT));
    sleep(TRIP).await;
    assert_eq!(world.bucket.probes(), probes);
}
