//! The logic of a mount, without a kernel.

use std::path::Path;
use std::sync::{Mutex, mpsc};
use std::time::SystemTime;

use bytes::Bytes;
use fuser::{FileType, FopenFlags, OpenFlags};
use futures_util::FutureExt as _;
use prometheus_client::registry::Registry;

use super::read::ReadData;
use super::*;
use crate::folder::FolderPage;
use crate::settings::AttributeUse;
use crate::{NumberTable, kernel};
use tidegate_engine::{Assists, Budget, EncodingTimes, Parts};
use tidegate_origin::fake::Fault;
use tidegate_origin::{FakeOrigin, OriginError};
use tidegate_plan::{Geometry, Profile, Timestamp};
use tidegate_write::Writers;
use tidegate_write::{self, Commit, WritePath};

mod attributes;
mod errors;
mod folders;
mod names;
mod reading;
mod stat;
mod writing;

/// An unknown thread of the owner of all files.
const BY: (u32, u32) = (0, 7);

/// A user who makes files.
const MAKER: Creator = Creator {
    uid: 7,
    gid: 8,
    mode: 0o640,
    thread: 0,
};

/// A kernel that records its notifications.
#[derive(Debug, Default)]
struct Ear {
    heard: Mutex<Vec<String>>,
    /// As long as its sender lives, no pages are dropped.
    busy: Mutex<Option<mpsc::Receiver<()>>>,
}

impl Ear {
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().expect("unpoisoned"))
    }
}

impl Kernel for Ear {
    fn drop_pages(&self, ino: u64) -> bool {
        let busy = self.busy.lock().expect("unpoisoned").take();
        let _free = busy.map(|busy| busy.recv());
        let mut heard = self.heard.lock().expect("unpoisoned");
        heard.push(format!("pages {ino}"));
        true
    }

    fn drop_name(&self, folder: u64, name: &str) {
        let mut heard = self.heard.lock().expect("unpoisoned");
        heard.push(format!("name {folder} {name}"));
    }
}

impl Folder {
    /// Returns names of a folder that keeps its name.
    async fn at(&self, number: u64) -> Result<Arc<FolderPage>, tidegate_engine::Error> {
        let page = self.listed_at(number).await?;
        Ok(page.expect("it was not renamed"))
    }
}

struct World {
    folder: tempfile::TempDir,
    bucket: FakeOrigin,
    engine: Engine,
    write_path: Arc<WritePath>,
    source: Arc<ReadContext>,
    files: Arc<Files>,
    ear: Arc<Ear>,
}

impl World {
    fn new() -> Self {
        Self::with(Profile::web(), |_| {})
    }

    fn with(profile: Profile, change: impl FnOnce(&mut Settings)) -> Self {
        Self::build(profile, change, |_, _, _| Access::Read)
    }

    /// Returns a world with a writable mount.
    fn writable() -> Self {
        Self::writable_with(|_| {})
    }

    /// Returns a world with a writable mount that keeps attributes.
    fn keeping() -> Self {
        Self::writable_with(|settings| settings.attributes = AttributeUse::Kept)
    }

    fn writable_with(change: impl FnOnce(&mut Settings)) -> Self {
        Self::build(Profile::web(), change, Self::write_access)
    }

    fn write_access(path: &Arc<WritePath>, source: &Arc<ReadContext>, folder: &Path) -> Access {
        let terms = tidegate_write::Settings::new(folder.to_owned());
        let sources = std::slice::from_ref(source);
        Access::Write(WriteSettings {
            writers: Writers::start(path, terms, sources).expect("a spool"),
            commit: Commit::Close,
            probe: None,
            rename_limit: 20,
        })
    }

    fn build(
        profile: Profile,
        change: impl FnOnce(&mut Settings),
        access: impl FnOnce(&Arc<WritePath>, &Arc<ReadContext>, &Path) -> Access,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::over((FakeOrigin::new(), folder), profile, change, access)
    }

    /// Returns a world over a bucket and a spool that an earlier one has left.
    fn over(
        (bucket, folder): (FakeOrigin, tempfile::TempDir),
        profile: Profile,
        change: impl FnOnce(&mut Settings),
        access: impl FnOnce(&Arc<WritePath>, &Arc<ReadContext>, &Path) -> Access,
    ) -> Self {
        let source = Arc::new(ReadContext::new(Arc::new(bucket.clone()), profile));
        let stores = tidegate_cache::open(
            &tidegate_cache::Settings::default(),
            &mut Registry::default(),
        );
        let stores = stores.expect("memory alone");
        let engine = Engine::new(Parts {
            assists: Assists::default(),
            encoding: EncodingTimes::default(),
            chunks: stores.chunks,
            meta: stores.meta,
            geometry: Geometry::default(),
            budget: Budget::new(64 << 20),
            clock: Arc::new(|| Timestamp::from(SystemTime::now())),
            runtime: None,
            origins: vec![("bucket".to_owned(), source.origin.clone())],
        });
        let mut settings = Settings {
            path: "/nowhere".into(),
            prefix: "p/".to_owned(),
            uid: 7,
            gid: 8,
            umask: 0o027,
            allow_other: false,
            attributes: AttributeUse::None,
            threads: 1,
            size: None,
            deadline: Duration::from_secs(30),
            mounted: SystemTime::now(),
            numbers: Arc::default(),
            tracer: None,
        };
        change(&mut settings);
        settings.numbers.subscribe_to(&engine);
        let write_path = WritePath::new(&engine);
        let access = access(&write_path, &source, folder.path());
        let files = Files::new(
            settings,
            engine.clone(),
            source.clone(),
            access,
            Metrics::default(),
        );
        let (files, ear) = (Arc::new(files), Arc::new(Ear::default()));
        files.attach(ear.clone());
        let subscriber: Arc<dyn InvalidationSubscriber> = files.clone();
        engine.subscribe(Arc::downgrade(&subscriber));
        Self {
            folder,
            bucket,
            engine,
            write_path,
            source,
            files,
            ear,
        }
    }

    async fn look(&self, folder: u64, name: &str) -> Result<FileAttr, Errno> {
        let shown = self.files.look_up(folder, name.into()).await;
        shown.map(|(attr, _)| attr)
    }

    /// Looks a path up from the root on.
    async fn walk(&self, path: &str) -> FileAttr {
        let mut at = ROOT_INO;
        let mut last = None;
        for name in path.split('/') {
            let attr = self.look(at, name).await.expect(path);
            (at, last) = (attr.ino.0, Some(attr));
        }
        last.expect("a path has a name")
    }

    /// Opens a file to read it, and checks that its close needs no flush.
    async fn open(&self, ino: u64) -> (u64, FopenFlags) {
        let opened = self.files.open(ino, OpenFlags(0), BY).await;
        let (handle, flags) = opened.expect("it opens");
        assert!(flags.contains(FopenFlags::FOPEN_NOFLUSH));
        (handle, flags - FopenFlags::FOPEN_NOFLUSH)
    }

    async fn read(&self, handle: u64) -> Result<Vec<u8>, Errno> {
        let data = self.files.read(handle, 0, 1 << 20).await?;
        Ok(data.as_ref().to_vec())
    }

    async fn purge(&self, key: &str) {
        let key = ObjectKey::new(key).expect("a key");
        let purged = self.engine.purge_key(&self.source, &key).await;
        purged.expect("memory does not fail");
    }
}

/// A notification that waits within the kernel for an answer of ours would keep a killed process from ending.
#[tokio::test(start_paused = true)]
async fn the_kernel_is_told_once_the_requests_are_answered_that_hold_the_folder_and_the_pages() {
    for holds_folder in [true, false] {
        let world = World::new();
        world.bucket.put("p/f/a", "1");
        world.bucket.put("p/g/b", "2");
        let (folder, a) = (world.walk("f").await, world.walk("f/a").await);
        let (other, b) = (world.walk("g").await, world.walk("g/b").await);
        let held = match holds_folder {
            true => world.files.hold_folder(folder.ino.0, Hold::Alone),
            false => world.files.hold_pages(a.ino.0),
        };
        let mut purged = Box::pin(world.engine.purge_prefix(&world.source, "p/"));
        let (mut heard, told) = (Vec::new(), format!("name {} b", other.ino.0));
        while !heard.contains(&told) {
            assert!(purged.as_mut().now_or_never().is_none(), "{heard:?}");
            tokio::task::yield_now().await;
            heard.extend(world.ear.heard());
        }
        assert!(heard.contains(&format!("pages {}", b.ino.0)), "{heard:?}");
        let told = [
            format!("pages {}", a.ino.0),
            format!("name {} a", folder.ino.0),
        ];
        assert!(!heard.iter().any(|it| told.contains(it)), "{heard:?}");
        assert!(purged.as_mut().now_or_never().is_none());
        drop(held);
        purged.await.expect("memory does not fail");
        let heard = world.ear.heard();
        assert!(told.iter().all(|it| heard.contains(it)), "{heard:?}");
    }
}

#[tokio::test]
async fn purges_reach_the_kernel_before_they_are_answered() {
    let world = World::new();
    world.bucket.put("p/f/a", "1");
    world.bucket.put("p/f/b", "2");
    let (folder, a) = (world.walk("f").await, world.walk("f/a").await);
    world.walk("f/b").await;
    world.purge("p/f/a").await;
    let pages = format!("pages {}", a.ino.0);
    let name = format!("name {} a", folder.ino.0);
    assert_eq!(world.ear.heard(), [pages, name]);
    world.bucket.delete("p/f/a");
    world.purge("p/f/a").await;
    let (f, name) = (folder.ino.0, "a");
    assert_eq!(world.look(f, name).await, Err(Errno::ENOENT));
}

#[tokio::test]
async fn a_folder_is_read_page_by_page_and_again_from_anywhere() {
    let world = World::new();
    for n in 0..2500 {
        world.bucket.put(&format!("p/{n:04}"), "x");
    }
    let handle = world.files.open_folder(ROOT_INO).expect("the root");
    let folder = world.files.folder(handle).expect("open");
    let first = folder.at(0).await.expect("names");
    // The last file of a page waits, because a folder could take its name.
    assert_eq!((first.first, first.from(0).len()), (0, 999));
    assert!(world.bucket.lists() <= 2);
    let mut names = Vec::new();
    let mut at = 0;
    loop {
        let page = folder.at(at).await.expect("names");
        let some = page.from(at);
        if some.is_empty() {
            break;
        }
        names.extend(some.iter().map(|(name, _)| name.clone()));
        at += some.len() as u64;
    }
    let all: Vec<_> = (0..2500).map(|n| format!("{n:04}")).collect();
    assert_eq!(names, all);
    for back in [1500, 999, 0, 2499] {
        let page = folder.at(back).await.expect("names");
        assert_eq!(page.from(back)[0].0, format!("{back:04}"));
    }
    assert!(
        folder
            .at(2500)
            .await
            .expect("the end")
            .from(2500)
            .is_empty()
    );
}
