//! Media players: ffprobe and Chromium read the demo's audio over HTTP, and seek in it.
#![cfg(feature = "real-parts")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tidegate::app::{Gateway, start_demo};
use tidegate::demo::{DemoOptions, RunningGateway, Stage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// An audio file of three minutes.
const AUDIO: &str = "audio/tide-waltz.wav";

struct Demo {
    folder: TempDir,
    stage: Stage,
    gateway: Gateway,
}

impl Demo {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = DemoOptions {
            dir: Some(folder.path().to_owned()),
            port: 0,
            admin_port: 0,
            large: 1 << 20,
        };
        let stage = Stage::set(&options).await.expect("a stage");
        let gateway = start_demo(stage.launch().expect("sockets")).await;
        Self {
            gateway: gateway.expect("it starts"),
            folder,
            stage,
        }
    }

    fn url(&self, key: &str) -> String {
        let urls = self.stage.guide().urls();
        let audio = urls.iter().find(|url| url.ends_with(AUDIO));
        audio.expect("the demo has audio").replace(AUDIO, key)
    }
}

async fn output(program: &str, arguments: Vec<String>) -> String {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.expect("no panic").expect("it runs");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn ffprobe_reads_and_seeks() {
    let demo = Demo::start().await;
    let url = demo.url(AUDIO);
    let ask = |options: &str| {
        let words = format!("-v error -of csv=p=0 {options} {url}");
        output("ffprobe", words.split(' ').map(str::to_owned).collect())
    };
    let stream = ask("-show_entries stream=codec_name,duration").await;
    assert!(stream.starts_with("pcm_s16le,180.0"), "{stream}");
    let packets = ask("-read_intervals 120%+1 -show_entries packet=pts_time,size").await;
    let times: Vec<f64> = packets
        .lines()
        .filter_map(|line| line.split(',').next()?.parse().ok())
        .collect();
    let (first, last) = (times.first(), times.last());
    assert!(
        first.is_some_and(|at| (119.0..=120.0).contains(at)),
        "{packets}"
    );
    assert!(
        last.is_some_and(|at| (120.5..=121.5).contains(at)),
        "{packets}"
    );
    RunningGateway::stop(demo.gateway).await.expect("in order");
}

/// Plays, seeks to 150 s and plays on; then reports the result to the test as a request for a
/// picture.
const PLAYER: &str = r#"<!doctype html><meta charset=utf-8><title>player</title><script>
const until = (media, event) => new Promise((done, failed) => {
  media.addEventListener(event, done, { once: true });
  media.addEventListener("error", () => failed(media.error.message), { once: true });
});
const played = (media, past) => new Promise(done => media.addEventListener("timeupdate", () => {
  if (media.currentTime > past) done();
}));
(async () => {
  const media = new Audio("/audio/tide-waltz.wav");
  let begun = performance.now();
  // Nothing plays faster than time passes, however late this page looks at it.
  const since = at => media.currentTime - at < (performance.now() - begun) / 1000 + 1;
  await Promise.all([until(media, "loadedmetadata"), media.play()]);
  await played(media, 0.5);
  const before = since(0);
  const sought = until(media, "seeked");
  begun = performance.now();
  media.currentTime = 150;
  await sought;
  await played(media, 150.5);
  return `played ${media.duration} ${before} ${since(150)}`;
})().catch(error => `failed: ${error}`).then(told => {
  new Image().src = "http://TEST/" + encodeURIComponent(told);
});
</script>"#;

/// Returns the request line of the first request.
async fn first_request(listener: TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.expect("accepts");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n") {
        head.push(stream.read_u8().await.expect("a line"));
    }
    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    String::from_utf8(head).expect("text")
}

fn chromium(profile: &Path, log: &Path, url: &str) -> std::process::Child {
    let log = std::fs::File::create(log).expect("a log");
    Command::new("chromium")
        .args("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run".split(' '))
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .args([
            "--disable-sync",
            "--autoplay-policy=no-user-gesture-required",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("Chromium is installed")
}

#[tokio::test(flavor = "multi_thread")]
async fn chromium_plays_and_seeks() {
    let demo = Demo::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let page = demo.folder.path().join("origin/media/player.html");
    std::fs::write(page, PLAYER.replace("TEST", &address)).expect("a page");
    let (profile, log) = (
        demo.folder.path().join("profile"),
        demo.folder.path().join("log"),
    );
    let mut browser = chromium(&profile, &log, &demo.url("player.html"));
    let told = timeout(LONG, first_request(listener)).await;
    browser.kill().expect("ours");
    browser.wait().expect("ours");
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let told = told.unwrap_or_else(|_| panic!("it tells nothing:\n{said}"));
    assert!(told.starts_with("GET /played%20180"), "{told}\n{said}");
    assert!(told.contains("%20true%20true "), "{told}");
    RunningGateway::stop(demo.gateway).await.expect("in order");
}
