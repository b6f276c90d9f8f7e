//! A disk that hangs under the real program: requests that memory, another disk or the bucket can answer are answered.
//! The program reports the fault and recovers. The test needs root and /dev/fuse.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tempfile::TempDir;

#[path = "../crates/engine/tests/support/draw.rs"]
mod draw;
#[path = "../crates/origin/tests/support/fake_s3.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod fake_s3;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites mount the bucket")]
mod mount;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites kill it")]
mod serving;
#[path = "support/sick_fs.rs"]
#[expect(dead_code, reason = "other suites cut the power")]
mod sick_fs;
#[path = "support/volatile.rs"]
mod volatile;

use fake_s3::FakeS3;
use serving::{Serving, disk};
use sick_fs::SickFs;

/// Number of objects of each kind, more than the reads that run at a time.
const OBJECTS: usize = 40;

/// Number of objects whose rows make the database twice as large as its cache in memory.
const OTHERS: usize = 3000;

/// Length of a header that makes a row large.
const LARGE: usize = 5000;

/// The longest time for an answer on a busy machine. A request that waits for the hung disk would wait for ever.
const BOUND: Duration = Duration::from_secs(120);

fn body(key: &str, edition: usize) -> Vec<u8> {
    format!("{key} {edition} ").repeat(1000).into_bytes()
}

/// Returns how many bytes of an object the disk has.
async fn on_disk(serving: &Serving, key: &str) -> Option<u64> {
    let stat = serving.look(&format!("/stat?path=/{key}")).await;
    let stat: serde_json::Value = serde_json::from_slice(&stat.body).ok()?;
    stat["objects"][0]["bytes"]["disk"].as_u64()
}

/// The program over a bucket that a test can change, and a sick file system.
struct House {
    s3: FakeS3,
    sick: SickFs,
    serving: Serving,
    _healthy: TempDir,
}

impl House {
    /// Starts the program with its state on the sick file system, and its only disk as well if `disk_too`. Some objects
    /// are in memory, some on disk alone, and some uncached.
    async fn build(disk_too: bool) -> Self {
        let s3 = FakeS3::start().await;
        let large = "x".repeat(LARGE);
        let large = [("x-amz-meta-large", large.as_str())];
        for kind in ["memory", "disk", "bucket", "later"] {
            for number in 0..OBJECTS {
                let key = format!("{kind}/{number}");
                s3.bucket.put_with(&key, body(&key, 0), &large);
            }
        }
        for number in 0..OTHERS {
            let key = format!("other/{number}");
            s3.bucket.put_with(&key, "other", &large);
        }
        let (sick, healthy) = (SickFs::mount(&["state", "cache"]), tempfile::tempdir());
        let healthy = healthy.expect("a folder");
        let cache = match disk_too {
            true => sick.path("cache"),
            false => healthy.path().join("cache"),
        };
        let toml = format!(
            "{}[profile.web]\nttl = \"1h\"\nnegative_ttl = \"1h\"\n[state]\npath = \"{}\"\n{}",
            mount::origin(&s3.settings()),
            sick.path("state").display(),
            disk(&cache)
        );
        let mut serving = Serving::configured(&toml).impatient();
        serving.start().await;
        let house = Self {
            s3,
            sick,
            serving,
            _healthy: healthy,
        };
        house.fill().await
    }

    /// Puts every kind except the last ones on disk, and after a restart the first kind into memory.
    async fn fill(mut self) -> Self {
        for kind in ["memory", "disk"] {
            self.read(kind, 0).await;
        }
        for first in (0..OTHERS).step_by(OBJECTS) {
            let numbers = first..first + OBJECTS;
            let paths = numbers.map(|number| format!("/other/{number}"));
            join_all(paths.map(async |path| self.serving.get(&path).await)).await;
        }
        self.serving.end().await;
        self.serving.start().await;
        // The index tells what was kept. The number of requests does not: a disk that a busy machine makes late is not read.
        for number in 0..OBJECTS {
            let key = format!("memory/{number}");
            let whole = Some(body(&key, 0).len() as u64);
            self.until("the restart has kept it", async |house: &Self| {
                on_disk(&house.serving, &key).await == whole
            })
            .await;
        }
        self.read("memory", 0).await;
        self
    }

    fn gets(&self) -> u64 {
        self.s3.bucket.gets()
    }

    /// Reads all objects of a kind at once; returns the longest time that one took.
    async fn read(&self, kind: &str, edition: usize) -> Duration {
        let one = async |number: usize| {
            let key = format!("{kind}/{number}");
            let begun = Instant::now();
            let got = self.serving.get(&format!("/{key}")).await;
            assert_eq!(got.status, 200, "{key}: {}", got.text());
            assert!(got.body == body(&key, edition), "{key}");
            begun.elapsed()
        };
        let took = join_all((0..OBJECTS).map(one)).await;
        took.into_iter().max().expect("some")
    }

    async fn notes(&self) -> String {
        let ready = self.serving.look("/readyz").await;
        assert_eq!(ready.status, 200, "{}", ready.text());
        ready.text()
    }

    async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self).await {
            assert!(begun.elapsed() < BOUND, "{what}: {}", self.notes().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Purges in vain: the purge reports in bounded time that it is not durable, and takes effect all the same.
    async fn purge_in_vain(&self) {
        self.s3.bucket.put("memory/0", body("memory/0", 1));
        let purged = self.serving.post("/purge?path=/memory/0").await;
        assert!(purged.status >= 500, "{}", purged.text());
        let text = purged.text();
        assert!(text.contains("within 5 s"), "{text}");
        self.is_of_the_second_edition().await;
        // The write may be the purge's own, as old as its wait was long.
        self.until("a write that hangs is told", async |house: &Self| {
            house.notes().await.contains("nothing is written to it")
        })
        .await;
        let told = "the state disk does not take what is written";
        self.serving.logged(&[told]).await;
    }

    async fn is_of_the_second_edition(&self) {
        let got = self.serving.get("/memory/0").await;
        assert!(
            got.body == body("memory/0", 1),
            "the purged version is served"
        );
    }

    /// Makes the disk hang; all requests go on, and the fault is reported.
    async fn hang(&self) {
        self.sick.hang();
        let begun = self.gets();
        let hits = self.read("memory", 0).await;
        assert_eq!(self.gets(), begun, "hits in memory ask nobody");
        let on_disk = self.read("disk", 0).await;
        let misses = self.read("bucket", 0).await;
        println!("while it is found out: {hits:?} {on_disk:?} {misses:?} at most");
        assert!(hits.max(on_disk).max(misses) < BOUND);
        assert!(self.sick.waiting() > 0, "it was asked");
        self.until("it is told", async |house: &Self| {
            house
                .notes()
                .await
                .contains("metadata store: nothing is read")
        })
        .await;
        assert_eq!(self.serving.metric(&["meta_reads_up"]).await, 0);
        assert!(self.serving.metric(&["meta_hung_reads"]).await > 0);
        self.serving
            .logged(&["the metadata store does not answer in time"])
            .await;
    }

    /// Checks that new requests do not wait for the disk: nothing further is sent to it.
    async fn later(&self) {
        let (unknown, hung) = (["meta_unknown_total"], ["meta_hung_reads"]);
        let before = (
            self.serving.metric(&unknown).await,
            self.serving.metric(&hung).await,
        );
        let later = self.read("later", 0).await;
        let again = self
            .read("later", 0)
            .await
            .max(self.read("memory", 0).await);
        println!("once it is known: {later:?} and {again:?} at most");
        assert!(later.max(again) < BOUND);
        let after = (
            self.serving.metric(&unknown).await,
            self.serving.metric(&hung).await,
        );
        assert_eq!(
            after.0 - before.0,
            OBJECTS as u64,
            "each is unknown at once"
        );
        assert!(
            after.1 <= before.1 + 1,
            "none but a probe waits: {before:?} {after:?}"
        );
    }

    async fn recovers(mut self) {
        self.sick.release();
        self.until("it recovers", async |house: &Self| {
            !house.notes().await.contains("metadata store")
        })
        .await;
        assert_eq!(self.serving.metric(&["meta_reads_up"]).await, 1);
        assert_eq!(self.serving.metric(&["meta_hung_reads"]).await, 0);
        self.serving
            .logged(&["the metadata store is read again"])
            .await;
        self.is_of_the_second_edition().await;
        assert_eq!(self.serving.post("/purge?path=/memory/1").await.status, 200);
        self.serving.end().await;
        // No late row has replaced newer knowledge.
        self.serving.start().await;
        self.is_of_the_second_edition().await;
        self.read("later", 0).await;
        self.read("disk", 0).await;
        self.serving.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_state_disk_stops_no_request() {
    let house = House::build(false).await;
    house.hang().await;
    house.later().await;
    house.purge_in_vain().await;
    house.recovers().await;
}

/// Without other settings the state lies beside the first cache disk: then both hang.
#[tokio::test(flavor = "multi_thread")]
async fn a_hung_disk_with_cache_and_state_stops_no_request() {
    let house = House::build(true).await;
    house.hang().await;
    house.later().await;
    house.purge_in_vain().await;
    house.recovers().await;
}

/// A file system in memory that a test makes read-only, as the kernel does with one that has an error.
struct Remounted(TempDir);

impl Remounted {
    fn new() -> Self {
        let own = Self(tempfile::tempdir().expect("a folder"));
        own.mount(&["-t", "tmpfs", "-o", "size=1g", "tmpfs"]);
        own
    }

    fn mount(&self, words: &[&str]) {
        let mut command = Command::new("mount");
        let status = command.args(words).arg(self.0.path()).status();
        assert!(status.expect("mount runs").success(), "{words:?}");
    }

    fn become_read_only(&self, is_read_only: bool) {
        let how = if is_read_only {
            "remount,ro"
        } else {
            "remount,rw"
        };
        self.mount(&["-o", how]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Remounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Waits until the disk has all of the object. A request to the bucket would not tell: a disk that a busy machine makes late
/// is not read.
async fn is_on_disk(serving: &Serving) {
    let (begun, whole) = (Instant::now(), body("object", 0).len() as u64);
    while on_disk(serving, "object").await != Some(whole) {
        assert!(begun.elapsed() < BOUND, "{}", serving.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Checks that the program serves without its disk, and says so.
async fn is_served_without_its_disk(serving: &Serving) {
    for edition in 0..2 {
        let got = serving.get("/object").await;
        assert!(got.body == body("object", 0), "{edition}: {}", got.text());
    }
    let ready = serving.look("/readyz").await;
    assert_eq!(ready.status, 200);
    for note in [
        "nothing is written to it (",
        "metadata store: kept in memory until the next start (",
        "Read-only file system",
    ] {
        assert!(ready.text().contains(note), "{note}: {}", ready.text());
    }
    let purged = serving.post("/purge?path=/object").await;
    assert_eq!(purged.status, 500, "{}", purged.text());
    let again = serving.get("/object").await;
    assert!(again.body == body("object", 0), "{}", again.text());
}

/// A machine that restarts with a disk that the kernel has made read-only serves all the same. So does one whose disk was
/// never used, and one whose disk gives no lock: that has its chunks again after the next start.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_read_only_at_the_start_stops_nothing() {
    for disk_was in ["used", "fresh", "without a lock"] {
        let s3 = FakeS3::start().await;
        s3.bucket.put("object", body("object", 0));
        let disk_of = Remounted::new();
        let toml = format!(
            "{}[profile.web]\nttl = \"1h\"\n{}",
            mount::origin(&s3.settings()),
            disk(&disk_of.path("cache"))
        );
        let mut serving = Serving::configured(&toml);
        if disk_was != "fresh" {
            serving.start().await;
            serving.get("/object").await;
            is_on_disk(&serving).await;
            serving.end().await;
        }
        if disk_was == "without a lock" {
            std::fs::remove_file(disk_of.path("cache/lock")).expect("there");
        }
        disk_of.become_read_only(true);
        serving.start().await;
        is_served_without_its_disk(&serving).await;
        // The tier follows once the disk is mended.
        disk_of.become_read_only(false);
        if disk_was != "without a lock" {
            let begun = Instant::now();
            while serving.look("/readyz").await.text().contains("cache disk") {
                assert!(begun.elapsed() < BOUND, "{}", serving.log());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let told = "the cache disk can be written again";
            serving.logged(&[told]).await;
        }
        serving.end().await;
        serving.start().await;
        assert!(!serving.look("/readyz").await.text().contains("note"));
        if disk_was != "fresh" {
            // As it was before anything is read.
            is_on_disk(&serving).await;
        }
        let before = s3.bucket.gets();
        let got = serving.get("/object").await;
        assert!(got.body == body("object", 0));
        assert!(disk_was != "fresh" || s3.bucket.gets() > before);
        serving.end().await;
    }
}

/// A reload that adds a disk which takes no writes is refused as a whole, and is taken once the disk is mended.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_takes_no_disk_that_is_read_only() {
    let s3 = FakeS3::start().await;
    let disk_of = Remounted::new();
    let well = tempfile::tempdir().expect("a folder");
    let toml = format!("{}{}", mount::origin(&s3.settings()), disk(well.path()));
    let mut serving = Serving::configured(&toml);
    serving.start().await;
    serving.configure(&format!("{toml}{}", disk(&disk_of.path("cache"))));
    disk_of.become_read_only(true);
    let refused = serving.post("/reload").await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    let text = refused.text();
    let told = format!("{}: Read-only file system", disk_of.path("cache").display());
    assert!(text.contains(&told), "{text}");
    let readiness = serving.look("/readyz").await;
    assert!(!readiness.text().contains("note"), "{}", readiness.text());
    disk_of.become_read_only(false);
    let taken = serving.post("/reload").await;
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert!(taken.text().contains("cache.disk"), "{}", taken.text());
    serving.end().await;
}

/// A member of a fleet begins with a doubt of all that is cached, which its disk may not take.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_of_a_fleet_starts_with_a_disk_that_is_read_only() {
    let s3 = FakeS3::start().await;
    s3.bucket.put("object", body("object", 0));
    let disk_of = Remounted::new();
    let toml = format!(
        "{}[fleet]\nnats = [\"nats://127.0.0.1:9\"]\n{}",
        mount::origin(&s3.settings()),
        disk(&disk_of.path("cache"))
    );
    let mut serving = Serving::configured(&toml);
    disk_of.become_read_only(true);
    serving.start().await;
    let got = serving.get("/object").await;
    assert!(got.body == body("object", 0), "{}", got.text());
    serving.end().await;
}
