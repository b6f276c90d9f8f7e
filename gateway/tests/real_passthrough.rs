//! Files that the kernel reads by itself, on a real mount over a fake store. As root, with a /dev/fuse,
//! on Linux 6.9 or newer.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Method;
use rustix::fs::{Advice, OFlags};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

#[path = "support/fake_s3.rs"]
#[expect(dead_code, reason = "its raw answers are for origin_s3")]
mod fake_s3;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
mod mount;
#[path = "support/reading.rs"]
mod reading;

use fake_s3::FakeS3;
use gateway::send;
use mount::{Mounted, TOKEN, blocking};
use reading::{all, copied_by_the_kernel, sample};

const MIB: usize = 1 << 20;
const SIZE: usize = 2 * MIB + 4321;

/// Longer than anything here takes; only a failure waits for it.
const LONG: Duration = Duration::from_secs(60);

/// A mount with a disk, on which objects are laid out.
struct Passing {
    store: FakeS3,
    mounted: Mounted,
    disk: TempDir,
}

impl Passing {
    async fn start() -> Self {
        // Not in memory: there is to be a file system that can fail.
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let store = FakeS3::start().await;
        let more = format!(
            "[[route]]\norigin = \"o\"\nprofile = \"strict\"\n\
             [profile.strict]\nextends = \"documents\"\nttl = \"0s\"\nstale_while_revalidate = \"0s\"\n\
             [passthrough]\nsize = \"64MiB\"\nmin_free = \"1MiB\"\n\
             [[cache.disk]]\npath = \"{}\"\ncapacity = \"64MiB\"\nmin_free = \"1MiB\"\n",
            disk.path().display()
        );
        let mounted = Mounted::start(&store.settings(), &more).await;
        Self {
            store,
            mounted,
            disk,
        }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.mounted.path(key)
    }

    /// Reads a file until the kernel reads it by itself.
    async fn read_until_laid_out(&self, key: &str, bytes: &[u8]) {
        let before = self.laid_out().await;
        let again = async {
            loop {
                let path = self.path(key);
                let read = blocking(move || read_past_pages(&path)).await;
                assert!(read == bytes, "the bytes differ");
                sleep(Duration::from_millis(50)).await;
                if self.laid_out().await > before {
                    return;
                }
            }
        };
        timeout(LONG, again).await.expect("it is laid out");
    }

    async fn laid_out(&self) -> u64 {
        let words = ["passthrough_laid_out_total{", "result=\"done\""];
        self.mounted.gateway.metric(&words).await
    }

    async fn passed_through(&self) -> u64 {
        self.mounted
            .gateway
            .metric(&["tidegate_fuse_passed_through_total "])
            .await
    }

    /// Reads that the kernel asked us for.
    async fn reads(&self) -> u64 {
        let words = ["fuse_operations", "operation=\"read\""];
        self.mounted.gateway.metric(&words).await
    }

    async fn taken(&self) -> u64 {
        self.mounted
            .gateway
            .metric(&["tidegate_passthrough_bytes "])
            .await
    }

    async fn purge(&self, key: &str) {
        let done = self.mounted.purge(key).await;
        assert_eq!(done.status, 200, "{}", done.text());
    }
}

/// Reads a file, and has the kernel forget its pages.
fn read_past_pages(path: &Path) -> Vec<u8> {
    let mut file = File::open(path).expect("it opens");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).expect("read");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_again_the_kernel_reads_by_itself() {
    let passing = Passing::start().await;
    let bytes = sample(1, SIZE);
    passing.store.bucket.put("file", bytes.clone());
    passing.read_until_laid_out("file", &bytes).await;
    assert_eq!(passing.taken().await, SIZE as u64);

    let (reads, path) = (passing.reads().await, passing.path("file"));
    let before = passing.passed_through().await;
    let held = {
        let bytes = bytes.clone();
        blocking(move || {
            let mut file = File::open(&path).expect("it opens");
            assert!(all(&mut file) == bytes, "the bytes differ");
            assert!(copied_by_the_kernel(&file) == bytes, "copied, they differ");
            assert_eq!(file.metadata().expect("open").len(), SIZE as u64);
            let mut end = [0; 64];
            let at_end = file.read_at(&mut end, SIZE as u64).expect("read");
            assert_eq!(at_end, 0, "it ends where the object does");
            (file, path)
        })
        .await
    };
    assert_eq!(passing.passed_through().await, before + 1);
    assert_eq!(passing.reads().await, reads, "nothing was asked of us");

    // Another one beside it, and one that goes past every cache, which is ours to answer.
    let (mut file, path) = held;
    let wanted = bytes.clone();
    blocking(move || {
        let mut second = File::open(&path).expect("it opens");
        let mut options = File::options();
        let direct = OFlags::DIRECT.bits().cast_signed();
        let mut third = options.read(true).custom_flags(direct).open(&path);
        let third = third.as_mut().expect("it opens");
        let mut head = vec![0; MIB];
        third.read_exact(&mut head).expect("read");
        assert!(head == wanted[..MIB], "the bytes differ");
        assert!(all(&mut second) == wanted, "the bytes differ");
        assert!(all(&mut file) == wanted, "the bytes differ");
    })
    .await;
    assert!(passing.reads().await > reads);
    passing.mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_file_stays_on_its_version_while_the_kernel_reads_it() {
    let passing = Passing::start().await;
    let old = sample(1, SIZE);
    passing.store.bucket.put("file", old.clone());
    passing.read_until_laid_out("file", &old).await;
    let path = passing.path("file");
    let before = passing.passed_through().await;
    let bucket = passing.store.bucket.clone();
    let held = blocking(move || {
        let mut held = File::open(&path).expect("it opens");
        for (seed, size) in [(2, SIZE + MIB), (3, SIZE - MIB), (4, SIZE)] {
            let new = sample(seed, size);
            bucket.put("file", new.clone());
            let mut file = File::open(&path).expect("it opens");
            assert!(all(&mut file) == new, "{seed}: the new one");
            assert!(copied_by_the_kernel(&file) == new, "{seed}: copied");
            assert!(all(&mut held) == old, "{seed}: the old one changed");
            assert!(copied_by_the_kernel(&held) == old, "{seed}: copied");
            assert_eq!(held.metadata().expect("open").len(), SIZE as u64);
        }
        held
    })
    .await;
    assert_eq!(passing.passed_through().await, before + 1);
    // The file of the old version is held for him alone, and then for nobody.
    passing.purge("file").await;
    assert_eq!(passing.taken().await, SIZE as u64);
    let path = passing.path("file");
    let new = sample(4, SIZE);
    passing.read_until_laid_out("file", &new).await;
    let before = passing.passed_through().await;
    blocking(move || {
        drop(held);
        assert!(std::fs::read(path).expect("read") == new);
    })
    .await;
    assert_eq!(passing.passed_through().await, before + 1);
    let gone = async {
        while passing.taken().await > SIZE as u64 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, gone).await.expect("it is closed");
    passing.mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_file_open_otherwise_is_not_disturbed() {
    let passing = Passing::start().await;
    let bytes = sample(1, SIZE);
    passing.store.bucket.put("file", bytes.clone());
    let path = passing.path("file");
    let early = blocking(move || File::open(path).expect("it opens")).await;
    // One that is open through us keeps all others so, until it is closed.
    passing.read_until_laid_out("file", &bytes).await;
    let path = passing.path("file");
    let wanted = bytes.clone();
    blocking(move || {
        let mut early = early;
        assert!(read_past_pages(&path) == wanted);
        assert!(all(&mut early) == wanted);
    })
    .await;
    assert_eq!(passing.passed_through().await, 0);
    // The kernel tells of a close behind the program's back.
    let closed = async {
        let words = ["tidegate_fuse_open_files "];
        while passing.mounted.gateway.metric(&words).await > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, closed).await.expect("nobody has it open");
    let path = passing.path("file");
    let late = blocking(move || {
        assert!(std::fs::read(&path).expect("read") == bytes);
        File::open(path).expect("it opens")
    })
    .await;
    assert_eq!(passing.passed_through().await, 2);
    // The gateway goes; what the kernel has been lent it goes on reading, or says that it cannot.
    passing.mounted.gateway.stop().await;
    let read = blocking(move || {
        let mut bytes = Vec::new();
        let mut late = late;
        late.read_to_end(&mut bytes).map(|_| bytes)
    });
    let read = timeout(LONG, read).await.expect("nobody hangs");
    assert!(read.is_err() || read.is_ok_and(|read| read == sample(1, SIZE)));
}

/// Many at once, over objects that are replaced meanwhile: the kernel refuses an open with EIO where
/// it is told of one node in two ways.
#[tokio::test(flavor = "multi_thread")]
async fn many_opens_at_once_are_alike_for_the_kernel() {
    /// The last one is never replaced.
    const KEYS: usize = 4;
    let passing = Passing::start().await;
    for key in 0..KEYS {
        let bytes = sample(key, SIZE);
        passing.store.bucket.put(&key.to_string(), bytes);
    }
    let readers: Vec<_> = (0..8_usize)
        .map(|reader| {
            let paths: Vec<_> = (0..KEYS)
                .map(|key| passing.path(&key.to_string()))
                .collect();
            blocking(move || {
                for turn in 0..40 {
                    let key = (reader + turn) % KEYS;
                    let path = &paths[key];
                    // One of each version: the first byte is the seed's.
                    let bytes = match turn % 4 {
                        0 => copied_by_the_kernel(&File::open(path).expect("it opens")),
                        1 => read_past_pages(path),
                        _ => std::fs::read(path).expect("read"),
                    };
                    let seed = usize::from(bytes[0]);
                    assert!(bytes == sample(seed, SIZE), "{path:?} is mixed");
                    assert!(seed % 10 == key, "{path:?} is another's");
                }
            })
        })
        .collect();
    let bucket = passing.store.bucket.clone();
    let changed = tokio::spawn(async move {
        for version in 1..4 {
            for key in 0..KEYS - 1 {
                sleep(Duration::from_millis(150)).await;
                bucket.put(&key.to_string(), sample(version * 10 + key, SIZE));
            }
        }
    });
    for reader in readers {
        reader.await;
    }
    changed.await.expect("no panic");
    let (path, last) = (passing.path("3"), sample(3, SIZE));
    let passed = async {
        while passing.passed_through().await == 0 {
            let path = path.clone();
            let read = blocking(move || read_past_pages(&path)).await;
            assert!(read == last, "the bytes differ");
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LONG, passed).await.expect("the kernel reads it");
    passing.mounted.gateway.stop().await;
}

/// A map goes to the plain file, and outlives the descriptor that it was made of.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_maps_what_the_kernel_reads_by_itself() {
    let passing = Passing::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let base = folder.path().join("base.sqlite");
    let sql = "create table t (n integer, s text); \
               with recursive c(n) as (select 1 union all select n + 1 from c where n < 40000) \
               insert into t select n, 'row ' || n || ' ' || hex(zeroblob(20)) from c;";
    let made = [base.to_str().expect("text"), sql];
    let made = [&["sqlite3"][..], &made[..]].concat();
    let made = mount::run_in(folder.path(), &made).await;
    assert!(made.status.success(), "{made:?}");
    let bytes = std::fs::read(&base).expect("the database");
    passing.store.bucket.put("base.sqlite", bytes.clone());
    passing.read_until_laid_out("base.sqlite", &bytes).await;
    let (before, reads) = (passing.passed_through().await, passing.reads().await);
    let query =
        "pragma mmap_size = 1000000000; select count(*), sum(n) from t where s like 'row %'";
    let line = ["sqlite3", "-readonly", "base.sqlite", query];
    let rows = passing.mounted.says(&line).await;
    assert!(rows.ends_with("40000|800020000\n"), "{rows}");
    assert!(passing.passed_through().await > before);
    assert_eq!(passing.reads().await, reads, "nothing was asked of us");
    passing.mounted.gateway.stop().await;
}

/// A disk that is switched off is to be unmounted: nothing of ours may be open on it.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_stays_on_a_disk_that_is_switched_off() {
    let passing = Passing::start().await;
    let bytes = sample(1, SIZE);
    passing.store.bucket.put("file", bytes.clone());
    passing.read_until_laid_out("file", &bytes).await;
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    let off = serde_json::json!({ "path": passing.disk.path(), "enabled": false });
    let admin = passing.mounted.gateway.admin;
    let done = send(
        admin,
        Method::PUT,
        "/cache/disk",
        &headers,
        &off.to_string(),
    )
    .await;
    assert_eq!(done.status, 200, "{}", done.text());
    let gone = async {
        while passing.taken().await > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, gone).await.expect("it is closed");
    let before = passing.passed_through().await;
    let path = passing.path("file");
    assert!(blocking(move || std::fs::read(path).expect("read")).await == bytes);
    assert_eq!(passing.passed_through().await, before);
    passing.mounted.gateway.stop().await;
}
