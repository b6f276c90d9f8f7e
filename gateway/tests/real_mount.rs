//! A real mount with programs that read files, over a real MinIO, and over a fake store that counts its requests,
//! breaks and hangs. The tests need root and /dev/fuse.
#![cfg(all(feature = "real-parts", feature = "fuse", target_os = "linux"))]

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tidegate_origin::fake::Fault;

#[path = "support/bucket.rs"]
#[expect(dead_code, reason = "other suites delete and keep versions as well")]
mod bucket;
#[path = "support/collector.rs"]
mod collector;
#[path = "real_mount/extended.rs"]
mod extended;
#[path = "../crates/origin/tests/support/fake_s3.rs"]
#[expect(dead_code, reason = "its raw answers are for the suite of the crate")]
mod fake_s3;
#[path = "real_mount/faults.rs"]
mod faults;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/minio.rs"]
mod minio;
#[path = "support/mount.rs"]
mod mount;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/reading.rs"]
mod reading;
#[path = "real_mount/streams.rs"]
mod streams;
#[path = "real_mount/traces.rs"]
mod traces;

use bucket::Bucket;
use fake_s3::FakeS3;
use minio::Minio;
use mount::{Mounted, blocking, run_in};
use reading::{all, copied_by_the_kernel, sample};

const MIB: usize = 1 << 20;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// Returns a second of silence that ffprobe recognises (WAVE, "canonical" header).
fn wave() -> Vec<u8> {
    let (rate, bytes) = (8000_u32, 16_000_u32);
    let mut wave = b"RIFF".to_vec();
    wave.extend((36 + bytes).to_le_bytes());
    wave.extend(b"WAVEfmt ");
    wave.extend(16_u32.to_le_bytes());
    wave.extend(1_u16.to_le_bytes());
    wave.extend(1_u16.to_le_bytes());
    wave.extend(rate.to_le_bytes());
    wave.extend((rate * 2).to_le_bytes());
    wave.extend(2_u16.to_le_bytes());
    wave.extend(16_u16.to_le_bytes());
    wave.extend(b"data");
    wave.extend(bytes.to_le_bytes());
    wave.resize(44 + bytes as usize, 0);
    wave
}

/// Writes the same files to a folder and to a bucket.
async fn tree(bucket: &Bucket) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = vec![
        ("empty".to_owned(), Vec::new()),
        ("one".to_owned(), vec![1]),
        ("a b/ü ☃.txt".to_owned(), b"needle in here\n".to_vec()),
        ("sound.wav".to_owned(), wave()),
        ("large.bin".to_owned(), sample(1, 9 * MIB + 12_345)),
        ("chunk".to_owned(), sample(2, 256 << 10)),
    ];
    for n in 0..60 {
        files.push((format!("many/{}/f{n}", n % 7), sample(n, n * 997)));
    }
    let base = folder.path().join("base.sqlite");
    let sql = "create table t (n integer, s text); \
               with recursive c(n) as (select 1 union all select n + 1 from c where n < 5000) \
               insert into t select n, 'row ' || n from c; create index i on t (s);";
    let base_arg = base.to_str().expect("text");
    let made = run_in(folder.path(), &["sqlite3", base_arg, sql]).await;
    assert!(made.status.success(), "{made:?}");
    let bytes = std::fs::read(&base).expect("the database");
    bucket.put("base.sqlite", bytes).await;
    for (key, bytes) in files {
        let path = folder.path().join(&key);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, &bytes).expect("written");
        bucket.put(&key, bytes).await;
    }
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_read_what_is_in_the_bucket() {
    let minio = Minio::start().await;
    let settings = minio.settings("media");
    let bucket = Bucket::create(&settings).await;
    let truth = tree(&bucket).await;
    let mounted = Mounted::start(&settings, "").await;
    let original = truth.path().to_str().expect("text");

    let out = tempfile::tempdir().expect("a folder");
    let to = |name: &str| out.path().join(name).to_str().expect("text").to_owned();
    mounted.says(&["diff", "-r", original, "."]).await;
    mounted.says(&["cp", "-r", ".", &to("cp")]).await;
    mounted.says(&["rsync", "-a", "./", &to("rsync")]).await;
    mounted.says(&["tar", "-cf", &to("all.tar"), "."]).await;
    std::fs::create_dir(to("tar")).expect("made");
    mounted
        .says(&["tar", "-xf", &to("all.tar"), "-C", &to("tar")])
        .await;
    for copy in ["cp", "rsync", "tar"] {
        run_in(out.path(), &["diff", "-r", original, copy]).await;
        let same = run_in(out.path(), &["diff", "-r", original, copy]).await;
        assert!(same.status.success(), "{copy}: {same:?}");
    }
    let (from, to_part) = ("if=large.bin", format!("of={}", to("part")));
    let dd = ["dd", from, &to_part, "bs=1M", "skip=3", "count=4"];
    mounted.says(&dd).await;
    let (part, large) = (std::fs::read(to("part")), sample(1, 9 * MIB + 12_345));
    assert!(part.expect("written") == large[3 * MIB..7 * MIB]);

    let count = |text: String| text.lines().count();
    assert_eq!(count(mounted.says(&["find", ".", "-type", "f"]).await), 67);
    assert_eq!(count(mounted.says(&["find", ".", "-type", "d"]).await), 10);
    let hits = mounted.says(&["grep", "-rl", "needle", "."]).await;
    assert_eq!(hits, "./a b/ü ☃.txt\n");
    let du = |folder: &str| ["du", "-s", "-b", "--apparent-size", folder].map(str::to_owned);
    let bytes: u64 = std::fs::metadata(truth.path().join("large.bin"))
        .expect("it")
        .len();
    let said = mounted
        .says(&du("large.bin").each_ref().map(String::as_str))
        .await;
    assert!(said.starts_with(&bytes.to_string()), "{said}");

    let probe = ["ffprobe", "-v", "error", "-of", "csv=p=0", "-show_entries"];
    let probe = [&probe[..], &["stream=codec_name,duration", "sound.wav"]].concat();
    assert!(mounted.says(&probe).await.starts_with("pcm_s16le,1.0"));
    let query = "select count(*), max(n) from t where s like 'row 4%'";
    let rows = mounted
        .says(&["sqlite3", "-readonly", "base.sqlite", query])
        .await;
    assert_eq!(rows, "1111|4999\n");

    for (line, why) in [
        (&["touch", "new"][..], "Read-only"),
        (&["ln", "-s", "one", "link"], "Read-only"),
        (&["rm", "one"], "Read-only"),
        (&["cat", "none"], "No such file"),
        (&["cat", "many"], "Is a directory"),
    ] {
        let refused = mounted.run(line).await;
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(why), "{said}");
    }
    mounted.gateway.stop().await;
}

/// Returns the number of requests so far: GETs and others, HEADs, listings.
fn asked(store: &FakeS3) -> (usize, usize, usize) {
    let requests = store.requests();
    let list = |target: &str| target.contains("list-type=2");
    let lists = requests.iter().filter(|one| list(&one.target)).count();
    let heads = requests.iter().filter(|one| one.method == "HEAD").count();
    (requests.len() - lists - heads, heads, lists)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_listing_costs_no_heads() {
    let store = FakeS3::start().await;
    for n in 0..2000 {
        store.bucket.put(&format!("f/{n:04}"), vec![0; n]);
    }
    let mounted = Mounted::start(&store.settings(), "").await;
    let said = mounted.says(&["ls", "-l", "f"]).await;
    assert_eq!(said.lines().count(), 2001);
    for line in said.lines().skip(1) {
        let words: Vec<_> = line.split_whitespace().collect();
        let name: u64 = words.last().expect("a name").parse().expect("a number");
        assert_eq!(words[4], name.to_string(), "{line}");
    }
    let (gets, heads, lists) = asked(&store);
    // The question whether `f` is a folder costs one HEAD, which is cancelled if the listing of one key answers first.
    // Its contents cost two pages.
    assert!((gets, heads) <= (0, 1), "{gets} {heads}");
    assert!(lists <= 4, "{lists}");
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_ten_folders_deep() {
    let store = FakeS3::start().await;
    let deep = "1/2/3/4/5/6/7/8/9/10";
    store.bucket.put(&format!("{deep}/file"), "12345");
    store.bucket.put(&format!("{deep}/other"), "67890");
    let mounted = Mounted::start(&store.settings(), "").await;
    let mut before = 0;
    let mut opened = async |key: String| {
        let path = mounted.path(&key);
        let file = blocking(move || File::open(path).expect("it opens")).await;
        let requests = store.requests().len();
        (file, requests - std::mem::replace(&mut before, requests))
    };
    let (file, cold) = opened(format!("{deep}/file")).await;
    assert!(cold <= 22, "{cold}");
    assert_eq!(opened(format!("{deep}/file")).await.1, 0);
    let (_other, known) = opened(format!("{deep}/other")).await;
    assert!(known <= 2, "{known}");
    drop(file);
    assert_eq!(opened(format!("{deep}/file")).await.1, 0);
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_names_of_a_large_folder_come_early() {
    let names = std::env::var("TIDEGATE_NAMES").ok();
    let names = names.map_or(100_000, |count| count.parse().expect("a number"));
    let store = FakeS3::start().await;
    for n in 0..names {
        store.bucket.put(&format!("big/{n:06}"), "x");
    }
    let mounted = Mounted::start(&store.settings(), "").await;
    let path = mounted.path("big");
    let mut listing = blocking(move || std::fs::read_dir(path).expect("it is there")).await;
    let (first, listing) = blocking(move || (listing.next(), listing)).await;
    assert_eq!(first.expect("a name").expect("read").file_name(), "000000");
    let (.., lists) = asked(&store);
    assert!(lists <= 4, "{lists} pages before the first name");
    let rest = blocking(move || listing.filter(Result::is_ok).count()).await;
    assert_eq!(rest, names - 1);
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sequential_read_fetches_each_byte_once() {
    let store = FakeS3::start().await;
    let bytes = sample(3, 64 * MIB);
    store.bucket.put("large", bytes.clone());
    let latency = Fault::Latency(Duration::from_millis(20));
    store.bucket.set_faults([latency, Fault::Rate(20_000_000)]);
    let route = "[[route]]\norigin = \"o\"\nprofile = \"stream\"\n";
    let mounted = Mounted::start(&store.settings(), route).await;
    let path = mounted.path("large");
    let read = blocking(move || std::fs::read(path).expect("read")).await;
    assert!(read == bytes, "the bytes differ");
    // A request that a busy machine makes late is sent once more; that is counted.
    let hedged = mounted.gateway.metric(&["hedged_bytes_total"]).await;
    let fetched = store.bucket.bytes().saturating_sub(hedged) as f64 / bytes.len() as f64;
    assert!(
        fetched <= 1.01,
        "{fetched}, without {hedged} bytes of hedges"
    );
    // The kernel's reads have the length of a chunk, as root may tell it; by itself it sends 512.
    let words = ["fuse_operations", "operation=\"read\""];
    let reads = mounted.gateway.metric(&words).await;
    assert!(reads <= 300, "{reads} reads for 64 MiB");
    // Read-ahead fetches parts, which are larger than the kernel's reads.
    let gets = store.bucket.gets();
    assert!(gets <= 100, "{gets} GETs");
    mounted.gateway.stop().await;
}

/// Each open confirms the version, because its lifetime is zero.
const STRICT: &str = "[[route]]\norigin = \"o\"\nprofile = \"strict\"\n\
                      [profile.strict]\nextends = \"documents\"\nttl = \"0s\"\n\
                      stale_while_revalidate = \"0s\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_open_file_stays_on_its_version_and_pages_never_mix() {
    const SIZE: usize = 300_000;
    let store = FakeS3::start().await;
    store.bucket.put("file", vec![b'1'; SIZE]);
    let mounted = Mounted::start(&store.settings(), STRICT).await;
    let path = mounted.path("file");
    let open = |path: &Path| File::open(path).expect("it opens");
    let bucket = store.bucket.clone();
    blocking(move || {
        let mut old = open(&path);
        // Bytes that were read of a version stay readable; the others may be gone.
        assert!(all(&mut old) == vec![b'1'; SIZE]);
        // Longer, and then shorter: each change of the size reaches the pages in its own way.
        for (byte, size) in [(b'2', SIZE + 50_000), (b'3', SIZE - 100_000), (b'4', SIZE)] {
            bucket.put("file", vec![byte; size]);
            let mut new = open(&path);
            let got = all(&mut new);
            assert!(got == vec![byte; size], "{}: {}", byte as char, got.len());
            assert!(all(&mut old) == vec![b'1'; SIZE], "the old one changed");
            let found = |file: &File| file.metadata().expect("open").len();
            assert_eq!((found(&new), found(&old)), (size as u64, SIZE as u64));
            assert_eq!(std::fs::metadata(&path).expect("there").len(), size as u64);
        }
        drop(old);
        for (byte, size) in [(b'5', SIZE), (b'6', SIZE), (b'7', 100)] {
            bucket.put("file", vec![byte; size]);
            let mut new = open(&path);
            assert_eq!(new.metadata().expect("open").len(), size as u64);
            assert!(all(&mut new) == vec![byte; size]);
        }
    })
    .await;
    mounted.gateway.stop().await;
}

/// If a program has the kernel copy (`sendfile`, as web servers do), the bytes go through the page cache, even with a
/// handle that bypasses it.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_kernel_copies_is_of_one_version() {
    const SIZE: usize = 300_000;
    let store = FakeS3::start().await;
    store.bucket.put("file", vec![b'1'; SIZE]);
    let mounted = Mounted::start(&store.settings(), STRICT).await;
    let (path, bucket) = (mounted.path("file"), store.bucket.clone());
    blocking(move || {
        let open = || File::open(&path).expect("it opens");
        let old = open();
        // Half of the file is in the page cache.
        let mut half = vec![0; SIZE / 2];
        (&old).read_exact(&mut half).expect("read");
        assert!(copied_by_the_kernel(&old) == vec![b'1'; SIZE]);
        for (byte, size) in [(b'2', SIZE + 50_000), (b'3', SIZE - 100_000), (b'4', SIZE)] {
            bucket.put("file", vec![byte; size]);
            let new = copied_by_the_kernel(&open());
            assert!(new == vec![byte; size], "{}: {}", byte as char, new.len());
            assert!(
                copied_by_the_kernel(&old) == vec![b'1'; SIZE],
                "the old one changed"
            );
        }
    })
    .await;
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_stay_while_the_version_stands() {
    let store = FakeS3::start().await;
    store.bucket.put("file", sample(5, 3 * MIB));
    let mounted = Mounted::start(&store.settings(), "").await;
    let path = mounted.path("file");
    let reads = async || {
        let words = ["fuse_operations", "operation=\"read\""];
        mounted.gateway.metric(&words).await
    };
    let read = async || {
        let path = path.clone();
        let bytes = blocking(move || std::fs::read(path).expect("read")).await;
        assert!(bytes == sample(5, 3 * MIB));
        reads().await
    };
    assert!(read().await > 0);
    let begun = Instant::now();
    // Another process may have the kernel drop all pages in between, as some suites do: then once more.
    while reads().await != read().await {
        assert!(begun.elapsed() < LONG, "it is read again each time");
    }
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_stay_over_a_restart() {
    let store = FakeS3::start().await;
    store.bucket.put("f/file", "x");
    let number = async || {
        let mounted = Mounted::start(&store.settings(), "").await;
        let (file, folder) = (mounted.path("f/file"), mounted.path("f"));
        let ino = |path: PathBuf| blocking(move || path.metadata().expect("there").ino());
        let numbers = (ino(file).await, ino(folder).await);
        mounted.gateway.stop().await;
        numbers
    };
    let first = number().await;
    assert_ne!(first.0, first.1);
    assert_eq!(number().await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn purges_are_seen_at_once() {
    let store = FakeS3::start().await;
    store.bucket.put("f/file", "old");
    let mounted = Mounted::start(&store.settings(), "").await;
    let purge = async |key: &str| {
        let done = mounted.purge(key).await;
        assert_eq!(done.status, 200, "{}", done.text());
    };
    assert_eq!(mounted.says(&["cat", "f/file"]).await, "old");
    store.bucket.put("f/file", "a new one");
    assert_eq!(mounted.says(&["cat", "f/file"]).await, "old");
    purge("f/file").await;
    assert_eq!(mounted.says(&["cat", "f/file"]).await, "a new one");
    assert_eq!(mounted.says(&["stat", "-c", "%s", "f/file"]).await, "9\n");
    store.bucket.delete("f/file");
    purge("f/file").await;
    assert!(!mounted.run(&["cat", "f/file"]).await.status.success());
    mounted.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_frontend_has_fetched_the_other_has() {
    let store = FakeS3::start().await;
    let (a, b) = (sample(1, 3 * MIB), sample(2, 3 * MIB));
    store.bucket.put("a", a.clone());
    store.bucket.put("b", b.clone());
    let mounted = Mounted::start(&store.settings(), "").await;
    let got = mounted.gateway.get("/a", &[]).await;
    assert!(got.body[..] == a[..]);
    let path = mounted.path("b");
    assert!(blocking(move || std::fs::read(path).expect("read")).await == b);
    let gets = store.bucket.gets();
    let path = mounted.path("a");
    assert!(blocking(move || std::fs::read(path).expect("read")).await == a);
    let got = mounted.gateway.get("/b", &[]).await;
    assert!(got.body[..] == b[..]);
    assert_eq!(store.bucket.gets(), gets);
    mounted.gateway.stop().await;
}
