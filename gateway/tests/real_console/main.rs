//! The console in a real browser: Chromium reads it, orders by it, and takes pictures of it.
#![cfg(feature = "real-parts")]

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

mod browser;
#[path = "../support/bucket.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod bucket;
mod foreign;
#[path = "../support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
mod looks;
#[path = "../support/minio.rs"]
mod minio;
#[path = "../support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[path = "../support/ports.rs"]
mod ports;
#[path = "../support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;

use browser::Browser;
use bucket::Bucket;
use minio::Minio;
use mount::{Folder, TOKEN, blocking, origin};
use serving::Serving;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

const LARGE: usize = 64 << 20;
const FILM: usize = 3 << 20;

const EVENTS_TOKEN: &str = "of-the-events-0123456789abcdef01234567";

fn sample(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|at| ((at + seed) * 31 % 251) as u8).collect()
}

/// A gateway with a disk and a writable mount before a real bucket, and a browser that has logged in.
struct Stage {
    serving: Serving,
    folder: Folder,
    bucket: Bucket,
    browser: Browser,
    _home: tempfile::TempDir,
    _minio: Minio,
}

impl Stage {
    async fn set() -> Self {
        let minio = Minio::start().await;
        let settings = minio.settings("media");
        let bucket = Bucket::create(&settings).await;
        for n in 0..4 {
            bucket.put(&format!("o/{n}.bin"), sample(400_000, n)).await;
        }
        bucket.put("o/deeper/x", "x").await;
        bucket.put("large.bin", sample(LARGE, 7)).await;
        bucket.put("film.bin", sample(FILM, 3)).await;
        let (home, folder) = (tempfile::tempdir().expect("a folder"), Folder::new());
        let toml = format!(
            "{}[cache]\nmemory = \"64MiB\"\n\
             [[cache.disk]]\npath = \"{home}/cache\"\ncapacity = \"256MiB\"\nmin_free = \"1MiB\"\n\
             [state]\npath = \"{home}/state\"\n\
             [[events]]\nname = \"bucket\"\norigin = \"o\"\ntoken = \"{EVENTS_TOKEN}\"\n\
             [[route]]\npath = \"/\"\norigin = \"o\"\n[profile.web]\nttl = \"1h\"\n\
             [spool]\npath = \"{home}/spool\"\n\
             [[mount]]\npath = \"{}\"\nwritable = true\ncommit = \"background\"\n",
            origin(&settings),
            folder.path().display(),
            home = home.path().display(),
        );
        let mut serving = Serving::configured(&toml);
        serving.start().await;
        let browser = Browser::start().await;
        let stage = Self {
            serving,
            folder,
            bucket,
            browser,
            _home: home,
            _minio: minio,
        };
        stage.log_in().await;
        stage
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.serving.admin)
    }

    async fn log_in(&self) {
        self.browser.open(&self.url("/")).await;
        assert!(self.browser.text("h1").await == "Log in");
        self.browser.write("#token", "not the token at all").await;
        self.browser.click(".login button").await;
        self.browser.find("[role=alert]").await;
        self.browser.write("#token", TOKEN).await;
        self.browser.click(".login button").await;
        self.browser
            .until(
                "the first page",
                "return document.querySelector('h1').innerText === 'Now'",
            )
            .await;
    }

    /// Reads an object at a steady pace until the token is cancelled.
    fn paced(&self, path: &str, stop: CancellationToken) -> tokio::task::JoinHandle<()> {
        let (address, path) = (self.serving.http, path.to_owned());
        tokio::spawn(async move {
            let mut io = TcpStream::connect(address).await.expect("listening");
            let head = format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
            io.write_all(head.as_bytes()).await.expect("sent");
            let mut piece = vec![0; 64 << 10];
            let read = async {
                while io.read(&mut piece).await.is_ok_and(|read| read > 0) {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            let _ = stop.run_until_cancelled(read).await;
        })
    }

    async fn end(mut self) {
        self.browser.end().await;
        self.serving.end().await;
    }
}

/// Returns where pictures are kept.
fn pictures() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("console")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_does_a_days_work() {
    let stage = Stage::set().await;
    a_paced_stream_moves_and_is_stopped(&stage).await;
    the_focus_stays_when_an_earlier_stream_ends(&stage).await;
    an_object_is_purged(&stage).await;
    a_link_is_made_and_copied(&stage).await;
    a_setting_is_changed_wrongly_and_rightly(&stage).await;
    a_refused_write_is_resolved(&stage).await;
    stage.end().await;
}

async fn a_paced_stream_moves_and_is_stopped(stage: &Stage) {
    let stop = CancellationToken::new();
    let reader = stage.paced("/large.bin", stop.clone());
    let browser = &stage.browser;
    browser.open(&stage.url("/console/streams")).await;
    browser.find("#live rect.read").await;
    let width =
        "return Number(document.querySelector('#live rect.read')?.getAttribute('width') ?? 0)";
    let before = browser
        .run(width, json!([]))
        .await
        .as_f64()
        .expect("a number");
    browser
        .until(
            "the bar grows without a click",
            &format!("return (() => {{ {width} }})() > {before} + 5"),
        )
        .await;
    browser.click("#live button").await;
    browser.find(".message").await;
    assert!(browser.text(".message").await.contains("stopped"));
    browser
        .until(
            "the stream is gone",
            "return !document.querySelector('#live rect.read')",
        )
        .await;
    let ended = tokio::time::timeout(LONG, reader).await;
    ended.expect("its reader was cut off").expect("no panic");
    stop.cancel();
}

async fn the_focus_stays_when_an_earlier_stream_ends(stage: &Stage) {
    let browser = &stage.browser;
    browser.open(&stage.url("/console/streams")).await;
    let rows = |count: usize| {
        format!("return document.querySelectorAll('#live tbody tr').length === {count}")
    };
    let mut readers = Vec::new();
    for count in 1..=2 {
        let stop = CancellationToken::new();
        readers.push((stage.paced("/large.bin", stop.clone()), stop));
        browser.until("a row for each stream", &rows(count)).await;
    }
    let focus =
        "window.second = document.querySelectorAll('#live tbody button')[1]; window.second.focus()";
    browser.run(focus, json!([])).await;
    for (left, (reader, stop)) in [1, 0].into_iter().zip(readers) {
        stop.cancel();
        reader.await.expect("no panic");
        browser
            .until("the row of the stream is gone", &rows(left))
            .await;
        let has_focus = "return document.activeElement === window.second";
        let has_focus = browser.run(has_focus, json!([])).await;
        assert_eq!(
            has_focus,
            json!(left == 1),
            "it is that of the second stream"
        );
    }
}

async fn an_object_is_purged(stage: &Stage) {
    for n in 0..4 {
        assert_eq!(stage.serving.get(&format!("/o/{n}.bin")).await.status, 200);
    }
    let browser = &stage.browser;
    let rows = "[...document.querySelectorAll('tbody tr')]";
    let row = format!("{rows}.find(row => row.innerText.includes('1.bin'))");
    let kept = format!(
        "return {rows}.filter(row => row.innerText.includes('.bin') && row.querySelector('rect')).length === 4"
    );
    let begun = Instant::now();
    // A reader has the last bytes a moment before they are kept.
    loop {
        browser.open(&stage.url("/console/objects?path=/o/")).await;
        if browser.run(&kept, json!([])).await == json!(true) {
            break;
        }
        assert!(begun.elapsed() < LONG, "they are not cached");
    }
    browser
        .run(
            &format!("{row}.querySelector('details').open = true"),
            json!([]),
        )
        .await;
    browser
        .run(&format!("{row}.id = 'wanted'"), json!([]))
        .await;
    browser.click("#wanted button[value=purge]").await;
    browser.find(".message").await;
    assert!(browser.text(".message").await.contains("Purged: o/1.bin"));
    let empty = format!("return {row}.querySelectorAll('rect').length === 0");
    assert_eq!(
        browser.run(&empty, json!([])).await,
        json!(true),
        "its bar is empty"
    );
    let others = "return document.querySelectorAll('tbody rect').length >= 3";
    assert_eq!(
        browser.run(others, json!([])).await,
        json!(true),
        "the others are not"
    );
}

async fn a_link_is_made_and_copied(stage: &Stage) {
    let browser = &stage.browser;
    browser.open(&stage.url("/console/objects?path=/o/")).await;
    let open = "const row = [...document.querySelectorAll('tbody tr')].find(row => row.innerText.includes('2.bin'));
        row.querySelector('details').open = true; row.id = 'wanted'";
    browser.run(open, json!([])).await;
    browser.click("#wanted button[value=link]").await;
    browser.find("#copied").await;
    let link = "return document.querySelector('#copied').value";
    assert_eq!(browser.run(link, json!([])).await, json!("/o/2.bin"));
    browser.click("[data-copy]").await;
    let copied = "return document.querySelector('[data-copy]').innerText === 'Copied'";
    browser.until("it is copied", copied).await;
}

async fn a_setting_is_changed_wrongly_and_rightly(stage: &Stage) {
    let browser = &stage.browser;
    browser.open(&stage.url("/console/settings")).await;
    browser.click("[data-key='cache.memory'] a.button").await;
    browser.write("#edit-value", "much").await;
    browser.click("#edit button[value=set]").await;
    let error = browser.find("#edit-errors").await;
    assert!(!error.is_empty());
    let text = browser.text("#edit-errors").await;
    assert!(text.contains("cache.memory"), "{text}");
    let kept = browser
        .run(
            "return document.querySelector('#edit-value').value",
            json!([]),
        )
        .await;
    assert_eq!(kept, json!("much"), "what was written is still there");
    browser.write("#edit-value", "80MiB").await;
    browser.click("#edit button[value=set]").await;
    browser.find(".message").await;
    assert!(
        browser
            .text(".message")
            .await
            .contains("In force now: cache.memory")
    );
    let row = browser.text("[data-key='cache.memory']").await;
    assert!(row.contains("80MiB") && row.contains("override"), "{row}");
    let tiers: Value =
        serde_json::from_slice(&stage.serving.look("/cache").await.body).expect("JSON");
    assert_eq!(tiers["memory"]["capacity"], 80 << 20);
}

/// Has the bucket refuse a write, and waits until the page tells their version.
async fn a_write_is_refused(stage: &Stage) {
    let path = stage.folder.path().join("film.bin");
    let opened = blocking(move || {
        let mut file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .expect("opened");
        let mut before = Vec::new();
        file.read_to_end(&mut before).expect("read");
        file.seek(SeekFrom::Start(1 << 20)).expect("there");
        file.write_all(b"mine").expect("written");
        file
    });
    let file = opened.await;
    stage.bucket.put("film.bin", "theirs").await;
    blocking(move || drop(file)).await;
    let browser = &stage.browser;
    browser.open(&stage.url("/console/writes")).await;
    browser.find("#live .choices button").await;
    // A bucket that is slow to answer is asked again meanwhile.
    let told = "return document.querySelector('#live').innerText.includes('6 B')";
    browser.until("their version is told", told).await;
}

async fn a_refused_write_is_resolved(stage: &Stage) {
    a_write_is_refused(stage).await;
    let browser = &stage.browser;
    let text = browser.text("#live").await;
    assert!(
        text.contains("film.bin") && text.contains("Theirs") && text.contains("6 B"),
        "{text}"
    );
    browser.click("#live button[value^=ours]").await;
    browser.find(".message").await;
    let said = browser.text(".message").await;
    assert!(said.contains("in the bucket as film.bin"), "{said}");
    let ours = stage.serving.get("/film.bin").await;
    let mut truth = sample(FILM, 3);
    truth[1 << 20..(1 << 20) + 4].copy_from_slice(b"mine");
    assert!(
        ours.body == truth,
        "each byte of the draft, {} bytes",
        ours.body.len()
    );
    browser
        .until(
            "nothing is left",
            "return !document.querySelector('#live .choices')",
        )
        .await;
}
