//! Whole objects as plain files: when they are laid out, what is in them, and when they go.

#[path = "support/engine.rs"]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use support::*;
use tempfile::TempDir;
use tidegate::engine::backing::{Settings, Under};
use tidegate::engine::{Backing, Backings};
use tidegate::store::fake::Faults;

const SIZE: u64 = 3 * MIB + 12_345;

/// A world with objects of [`SIZE`] that are cached whole, and room for two of them as plain files.
struct Laid {
    world: World,
    under: Arc<Mutex<Under>>,
    folder: TempDir,
    backings: Backings,
    registry: Registry,
}

impl Laid {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let world = World::plain();
        let folder = tempfile::tempdir().expect("a folder");
        let mut settings = Settings {
            folder: folder.path().join("below"),
            size: 2 * SIZE,
            min_free: 0,
        };
        change(&mut settings);
        let under = Arc::new(Mutex::new(Under::Sound));
        let told = under.clone();
        let ask = Box::new(move || *told.lock().expect("no panic"));
        let backings = Backings::start(&world.engine, settings, ask).expect("a folder");
        let mut registry = Registry::default();
        backings.register(&mut registry);
        Self {
            world,
            under,
            folder,
            backings,
            registry,
        }
    }

    async fn cached(&self, key: &str, bytes: &Bytes) {
        self.world.bucket.put(key, bytes.clone());
        same(&self.world.read(key).await.expect("read"), bytes);
        settle().await;
    }

    /// Has an object laid out, and waits for what comes of it.
    async fn lay_out(&self, key: &str) -> Option<Arc<Backing>> {
        let object = self.world.get(key).await.expect("it opens");
        self.backings.lay_out(&object);
        // The fake disk says of itself that it is never idle: each chunk waits for a second.
        pass(secs(30)).await;
        self.backings.of(&object)
    }

    /// Files are closed on a thread of their own, which no paused clock waits for.
    async fn comes_to(&self, line: &str) {
        let since = std::time::Instant::now();
        while !self.counted(line) {
            assert!(since.elapsed() < secs(60), "{line}");
            tokio::task::yield_now().await;
        }
    }

    fn counted(&self, line: &str) -> bool {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("text");
        text.lines().any(|one| one == line)
    }
}

fn bytes_of(backing: &Backing) -> Bytes {
    let file = backing.file();
    let length = file.metadata().expect("a file").len();
    let mut bytes = vec![0; usize::try_from(length).expect("small")];
    file.read_exact_at(&mut bytes, 0).expect("read");
    bytes.into()
}

fn names_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}

#[tokio::test(start_paused = true)]
async fn a_plain_file_is_the_object_and_has_no_name() {
    let laid = Laid::new();
    let bytes = sample(1, SIZE);
    laid.cached(KEY, &bytes).await;
    let asked = laid.world.asked();
    // As after a restart: what is on disk alone is laid out too, and does not go to memory.
    laid.world.store.evict_memory();
    let held = laid.world.store.held();
    let file = laid.lay_out(KEY).await.expect("laid out");
    same(&bytes_of(&file), &bytes);
    assert_eq!(laid.world.store.held(), held);
    assert_eq!(laid.world.asked(), asked, "nothing is asked of the bucket");
    assert_eq!(names_in(&laid.folder.path().join("below")), 0);
    assert!(laid.counted(&format!("passthrough_bytes {SIZE}")));
    assert!(laid.counted("passthrough_laid_out_total{result=\"done\"} 1"));
    laid.lay_out(KEY).await.expect("still there");
    assert!(laid.counted("passthrough_laid_out_total{result=\"done\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_cached_whole_or_too_small_or_too_large_is_not_laid_out() {
    let laid = Laid::new();
    laid.world.bucket.put(KEY, sample(1, SIZE));
    assert!(laid.lay_out(KEY).await.is_none(), "it is not cached");
    laid.cached("small", &sample(1, MIB - 1)).await;
    assert!(laid.lay_out("small").await.is_none());
    laid.cached("large", &sample(1, 2 * SIZE + 1)).await;
    assert!(laid.lay_out("large").await.is_none());
    laid.cached("gone", &sample(1, SIZE)).await;
    laid.world.store.evict_memory();
    // It is in the index, and is not found.
    laid.world.store.set(Faults {
        lose: true,
        ..Faults::default()
    });
    assert!(laid.lay_out("gone").await.is_none());
    assert!(laid.counted("passthrough_laid_out_total{result=\"gone\"} 1"));
    laid.comes_to("passthrough_bytes 0").await;
}

#[tokio::test(start_paused = true)]
async fn another_version_is_another_file() {
    let laid = Laid::new();
    let (old, new) = (sample(1, SIZE), sample(2, SIZE));
    laid.cached(KEY, &old).await;
    let first = laid.lay_out(KEY).await.expect("laid out");
    let before = laid.world.get(KEY).await.expect("it opens");
    laid.world.bucket.put(KEY, new.clone());
    laid.world.purge(KEY).await;
    assert!(laid.backings.of(&before).is_none(), "it was purged");
    let object = laid.world.get(KEY).await.expect("it opens");
    assert!(laid.backings.of(&object).is_none());
    same(&whole(&object).await.expect("read"), &new);
    settle().await;
    let second = laid.lay_out(KEY).await.expect("laid out");
    same(&bytes_of(&second), &new);
    same(&bytes_of(&first), &old);
}

#[tokio::test(start_paused = true)]
async fn what_is_open_keeps_its_room_and_what_is_not_makes_room() {
    let laid = Laid::new();
    for (version, key) in ["a", "b", "c"].into_iter().enumerate() {
        laid.cached(key, &sample(version as u64, SIZE)).await;
    }
    let a = laid.lay_out("a").await.expect("laid out");
    let b = laid.lay_out("b").await.expect("laid out");
    assert!(laid.lay_out("c").await.is_none(), "both are open");
    assert!(laid.counted("passthrough_laid_out_total{result=\"no_room\"} 1"));
    drop(b);
    // Twice asked for, and the other one was not in between.
    same(
        &bytes_of(&laid.lay_out("c").await.expect("room")),
        &sample(2, SIZE),
    );
    same(&bytes_of(&a), &sample(0, SIZE));
    let size = 2 * SIZE;
    assert!(laid.counted(&format!("passthrough_bytes {size}")));
    laid.world.purge_prefix("").await;
    laid.comes_to(&format!("passthrough_bytes {SIZE}")).await;
    drop(a);
    laid.comes_to("passthrough_bytes 0").await;
}

#[tokio::test(start_paused = true)]
async fn what_has_changed_meanwhile_is_not_laid_out() {
    let laid = Laid::new();
    laid.cached(KEY, &sample(1, SIZE)).await;
    let old = laid.world.get(KEY).await.expect("it opens");
    laid.world.purge(KEY).await;
    laid.backings.lay_out(&old);
    pass(secs(30)).await;
    assert!(laid.counted("passthrough_laid_out_total{result=\"gone\"} 1"));
    // And while it is copied, which takes a second a chunk here.
    laid.cached(KEY, &sample(1, SIZE)).await;
    let old = laid.world.get(KEY).await.expect("it opens");
    laid.backings.lay_out(&old);
    pass(secs(5)).await;
    assert!(laid.counted(&format!("passthrough_bytes {SIZE}")));
    laid.world.purge(KEY).await;
    pass(secs(30)).await;
    assert!(laid.counted("passthrough_laid_out_total{result=\"gone\"} 2"));
    laid.comes_to("passthrough_bytes 0").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_lent_is_not_forgotten_by_the_cache() {
    let laid = Laid::new();
    laid.cached(KEY, &sample(1, SIZE)).await;
    drop(laid.lay_out(KEY).await.expect("laid out"));
    let object = laid.world.get(KEY).await.expect("it opens");
    assert_eq!(laid.world.store.counts().touches, 0);
    drop(laid.backings.of(&object).expect("it is there"));
    pass(secs(700)).await;
    let chunks = SIZE.div_ceil(CHUNK);
    assert_eq!(laid.world.store.counts().touches as u64, chunks);
}

#[tokio::test(start_paused = true)]
async fn what_is_to_stay_free_stays_free() {
    let laid = Laid::with(|settings| settings.min_free = u64::MAX / 2);
    laid.cached(KEY, &sample(1, SIZE)).await;
    assert!(laid.lay_out(KEY).await.is_none());
    assert!(laid.counted("passthrough_laid_out_total{result=\"no_room\"} 1"));
    laid.comes_to("passthrough_bytes 0").await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lent_while_the_disk_fails_and_nothing_kept_once_it_is_off() {
    let laid = Laid::new();
    laid.cached(KEY, &sample(1, SIZE)).await;
    drop(laid.lay_out(KEY).await.expect("laid out"));
    let object = laid.world.get(KEY).await.expect("it opens");
    let turn = async |under| {
        *laid.under.lock().expect("no panic") = under;
        pass(secs(2)).await;
    };
    turn(Under::Failing).await;
    assert!(laid.backings.of(&object).is_none());
    turn(Under::Sound).await;
    let open = laid.backings.of(&object).expect("it was kept");
    turn(Under::Off).await;
    assert!(laid.counted(&format!("passthrough_bytes {SIZE}")));
    drop(open);
    laid.comes_to("passthrough_bytes 0").await;
    assert!(laid.lay_out(KEY).await.is_none());
    turn(Under::Sound).await;
    laid.lay_out(KEY).await.expect("laid out anew");
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("written");
    let settings = Settings {
        folder: file.join("below"),
        size: SIZE,
        min_free: 0,
    };
    Backings::start(&World::plain().engine, settings, Box::new(|| Under::Sound))
        .expect_err("no folder");
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_goes_away_is_tried_again_later() {
    let laid = Laid::new();
    let bytes = sample(1, SIZE);
    laid.cached(KEY, &bytes).await;
    let below = laid.folder.path().join("below");
    std::fs::remove_dir(&below).expect("it is empty");
    assert!(laid.lay_out(KEY).await.is_none());
    assert!(laid.counted("passthrough_laid_out_total{result=\"failed\"} 1"));
    std::fs::create_dir(&below).expect("made");
    assert!(laid.lay_out(KEY).await.is_none(), "not at once");
    pass(secs(60)).await;
    same(&bytes_of(&laid.lay_out(KEY).await.expect("later")), &bytes);
}
