//! A bucket of a real MinIO with a writable mount, and access to its objects.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::bucket::Bucket;
use crate::door::Door;
use crate::minio::Minio;
use crate::mount::{Mounted, blocking};

/// Bytes in a mebibyte.
pub(crate) const MIB: usize = 1 << 20;

/// Bytes of a part of a draft: a larger object is uploaded in parts.
pub(crate) const PART: usize = 16 * MIB;

/// Timeout of a test's waits; only a failure waits so long.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// The section of a profile whose facts hold to a test's end, however slow the machine is: its count of requests does
/// not depend on the time.
pub(crate) const LASTING: &str = "[profile.web]\nttl = \"1h\"\nnegative_ttl = \"1h\"\n";

/// Returns bytes that differ for each seed.
pub(crate) fn sample(seed: usize, size: usize) -> Vec<u8> {
    let byte = |n: usize| (n.wrapping_mul(31) ^ (n >> 11) ^ (seed * 7)) as u8;
    (0..size).map(byte).collect()
}

/// A bucket with a writable mount.
pub(crate) struct Desk {
    pub(crate) mounted: Mounted,
    pub(crate) bucket: Bucket,
    spool: TempDir,
    minio: Minio,
    /// Further lines for the `[[mount]]`, and the sections that follow it.
    lines: [String; 2],
}

impl Desk {
    /// Starts a desk; `more` has further lines for the `[[mount]]`.
    pub(crate) async fn start(more: &str) -> Self {
        Self::with(more, "").await
    }

    /// Starts a desk; `sections` follow the `[[mount]]`.
    pub(crate) async fn with(more: &str, sections: &str) -> Self {
        let minio = Minio::start().await;
        let bucket = Bucket::create(&minio.settings("media")).await;
        let lines = [more, sections].map(str::to_owned);
        let spool = tempfile::tempdir().expect("a folder");
        Self::over(minio, bucket, spool, lines).await
    }

    async fn over(minio: Minio, bucket: Bucket, spool: TempDir, lines: [String; 2]) -> Self {
        let ([more, sections], path) = (&lines, spool.path().display());
        let all = format!("writable = true\n{more}[spool]\npath = \"{path}\"\n{sections}");
        Self {
            mounted: Mounted::start(&minio.settings("media"), &all).await,
            bucket,
            spool,
            minio,
            lines,
        }
    }

    /// Stops the gateway, and starts it again; without its spool, it has lost its index.
    pub(crate) async fn restart(self, with_spool: bool) -> Self {
        self.mounted.gateway.stop().await;
        drop(self.mounted.folder);
        let spool = match with_spool {
            true => self.spool,
            false => tempfile::tempdir().expect("a folder"),
        };
        Self::over(self.minio, self.bucket, spool, self.lines).await
    }

    /// Returns the URL of the store.
    pub(crate) fn endpoint(&self) -> String {
        let endpoint = self.minio.settings("media").endpoint;
        endpoint.expect("it has one")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mounted.path(name)
    }

    pub(crate) async fn stored(&self, key: &str) -> Option<Vec<u8>> {
        stored(&self.bucket, key).await
    }

    /// Checks the bytes of a file in the mount, over HTTP and in the bucket.
    pub(crate) async fn is(&self, key: &str, bytes: &[u8]) {
        let path = self.path(key);
        let read = blocking(move || std::fs::read(path)).await.expect("read");
        assert!(read == bytes, "{key}: {} bytes in the mount", read.len());
        let got = self.mounted.gateway.get(&format!("/{key}"), &[]).await;
        assert_eq!(got.status, 200, "{key}");
        assert!(got.body == bytes, "{key}: {} bytes by HTTP", got.body.len());
        let stored = self.stored(key).await.expect("in the bucket");
        assert!(
            stored == bytes,
            "{key}: {} bytes in the bucket",
            stored.len()
        );
    }

    pub(crate) async fn requests(&self) -> u64 {
        let words = ["tidegate_origin_requests_total{"];
        self.mounted.gateway.metric(&words).await
    }

    pub(crate) async fn stop(self) {
        self.mounted.gateway.stop().await;
    }
}

/// Returns an object as it is in the bucket.
pub(crate) async fn stored(bucket: &Bucket, key: &str) -> Option<Vec<u8>> {
    let Bucket::S3 { client, name } = bucket else {
        panic!("a real one");
    };
    let got = client.get_object().bucket(name).key(key).send().await;
    let body = got.ok()?.body.collect().await.expect("a body");
    Some(body.into_bytes().to_vec())
}

/// Waits until `holds` returns true.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < LONG, "{what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Starts a MinIO behind a door.
pub(crate) async fn behind_a_door() -> (Minio, Bucket, Door, tidegate_origin::Settings) {
    behind(async |server| {
        let door = Door::to(server).await;
        (door.address(), door)
    })
    .await
}

/// Starts a MinIO, and what stands before it: `stand` returns it with its address, after that of the server.
pub(crate) async fn behind<P>(
    stand: impl AsyncFnOnce(SocketAddr) -> (SocketAddr, P),
) -> (Minio, Bucket, P, tidegate_origin::Settings) {
    let minio = Minio::start().await;
    let mut settings = minio.settings("media");
    let bucket = Bucket::create(&settings).await;
    let endpoint = settings.endpoint.clone().expect("an endpoint");
    let server = endpoint.replace("http://", "");
    let (address, stands) = stand(server.parse().expect("an address")).await;
    settings.endpoint = Some(format!("http://{address}"));
    (minio, bucket, stands, settings)
}

/// Returns whether something is mounted on a folder, also if it does not answer (proc_pid_mountinfo(5)).
pub(crate) fn is_mounted(folder: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("a table");
    table.contains(folder.to_str().expect("text"))
}
