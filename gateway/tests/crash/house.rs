//! The program over a bucket that can be shut off.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use http::Method;
use tempfile::TempDir;
use tidegate::embedded::EmbeddedOrigin;

use crate::door::Door;
use crate::gateway::{Got, send};
use crate::mount;
use crate::serving::{Serving, disk};

/// The token that PUT and DELETE show.
const WRITE_TOKEN: &str = "the-token-of-a-writer-in-a-test-of-crashes";

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// Returns the bytes of an object, which repeat its key.
pub(crate) fn body(key: &str, length: usize) -> Vec<u8> {
    let line = format!("{key}\n");
    line.bytes().cycle().take(length).collect()
}

pub(crate) struct House {
    pub(crate) serving: Serving,
    pub(crate) door: Door,
    state: PathBuf,
    bucket: TempDir,
    _embedded: EmbeddedOrigin,
}

impl House {
    /// Builds a house with its state and cache in these folders. Nothing runs yet.
    pub(crate) async fn build(state: &Path, cache: &Path) -> Self {
        let bucket = tempfile::tempdir().expect("a folder");
        let embedded = EmbeddedOrigin::start(bucket.path())
            .await
            .expect("it starts");
        let address = embedded.endpoint().replace("http://", "");
        let door = Door::to(address.parse().expect("an address")).await;
        let mut settings = embedded.settings("o");
        settings.endpoint = Some(format!("http://{}", door.address()));
        let toml = format!(
            "{}[[route]]\npath = \"/\"\norigin = \"o\"\nwritable = true\nwrite_token = \"{WRITE_TOKEN}\"\n\
             [state]\npath = \"{}\"\n{}",
            mount::origin(&settings),
            state.display(),
            disk(cache)
        );
        Self {
            serving: Serving::configured(&toml),
            door,
            state: state.to_owned(),
            bucket,
            _embedded: embedded,
        }
    }

    /// Puts an object into the bucket behind the gateway.
    pub(crate) fn store(&self, key: &str, length: usize) {
        let path = self.bucket.path().join("media").join(key);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, body(key, length)).expect("written");
    }

    pub(crate) async fn get(&self, key: &str) -> Got {
        self.serving.get(&format!("/{key}")).await
    }

    /// Reads an object and compares it with the stored bytes.
    pub(crate) async fn read(&self, key: &str, length: usize) {
        let got = self.get(key).await;
        assert_eq!(
            got.status,
            200,
            "{key}: {}\n{}",
            got.text(),
            self.serving.log()
        );
        assert!(got.body == body(key, length), "{key}");
    }

    /// Returns how many bytes of an object the disk has.
    pub(crate) async fn on_disk(&self, key: &str) -> u64 {
        let stat = self.serving.look(&format!("/stat?path=/{key}")).await;
        let stat: serde_json::Value = serde_json::from_slice(&stat.body).expect("JSON");
        stat["objects"][0]["bytes"]["disk"].as_u64().unwrap_or(0)
    }

    /// Changes an object through the gateway: replaces its content, or deletes it.
    pub(crate) async fn change(&self, key: &str, content: Option<&str>) -> u16 {
        change(self.serving.http, key, content).await
    }

    /// Waits until `rows` rows were written since the start, and every chunk.
    pub(crate) async fn written(&self, rows: u64) {
        self.until("everything is written", async |house: &Self| {
            let written = house.serving.metric(&["meta_writes_total"]).await;
            let queued = house.serving.metric(&["store_queued_bytes"]).await;
            written >= rows && queued == 0
        })
        .await;
    }

    /// Waits until the marks show a key that is being changed.
    pub(crate) async fn marked(&self, key: &str) {
        let marks = self.state.join("meta-v1.marks");
        self.until("it is marked", async |_: &Self| {
            let marks = std::fs::read(&marks).unwrap_or_default();
            marks
                .windows(key.len())
                .any(|bytes| bytes == key.as_bytes())
        })
        .await;
    }

    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self).await {
            assert!(begun.elapsed() < LONG, "{what}\n{}", self.serving.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Does the same as a free function, for a test that does not wait for the answer.
pub(crate) async fn change(http: std::net::SocketAddr, key: &str, content: Option<&str>) -> u16 {
    let bearer = format!("Bearer {WRITE_TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    let (method, content) = match content {
        Some(content) => (Method::PUT, content),
        None => (Method::DELETE, ""),
    };
    let path = format!("/{key}");
    send(http, method, &path, &headers, content).await.status
}
