//! A bucket on the embedded origin, and gateways in front of it.

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::stream;
use http::Uri;
use tempfile::TempDir;
use tidegate::embedded::EmbeddedOrigin;

use crate::door::Door;
use crate::gateway::Whole;

/// A bucket that stays while gateways come and go.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) origin: EmbeddedOrigin,
    pub(crate) door: Door,
}

impl World {
    /// Starts an origin, and an open door before it.
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let origin = EmbeddedOrigin::start(&folder.path().join("origin")).await;
        let origin = origin.expect("an origin");
        let uri: Uri = origin.endpoint().parse().expect("a URL");
        let address = uri.authority().expect("an address").as_str().parse();
        Self {
            folder,
            origin,
            door: Door::to(address.expect("on loopback")).await,
        }
    }

    /// Returns a configuration with memory and disk, without a path for metadata.
    pub(crate) fn config(&self, profile: &str) -> String {
        let key = self.origin.credentials();
        format!(
            "[admin]\ntoken = \"t0ken-of-the-tests\"\n\
             [cache]\nmemory = \"64MiB\"\n\
             [[cache.disk]]\npath = \"{}\"\ncapacity = \"128MiB\"\nmin_free = \"1MiB\"\n\
             [[origin]]\nname = \"media\"\nbucket = \"{}\"\nendpoint = \"http://{}\"\n\
             path_style = true\naccess_key_id = \"{}\"\nsecret_access_key = \"{}\"\n\
             [profile.web]\n{profile}\n",
            self.disk().display(),
            self.origin.bucket(),
            self.door.address(),
            key.access_key_id,
            key.secret_access_key,
        )
    }

    /// Returns the cache disk's folder.
    pub(crate) fn disk(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Starts a gateway whose profile `web` has these lines.
    pub(crate) async fn start(&self, profile: &str) -> Whole {
        Whole::start(&self.config(profile)).await
    }

    /// Puts an object into the bucket.
    pub(crate) async fn put(&self, key: &str, bytes: &[u8]) {
        let body = stream::iter([io::Result::Ok(Bytes::copy_from_slice(bytes))]);
        let put = self.origin.put(key, "application/x-test", body).await;
        put.expect("written");
    }
}

/// Returns bytes that distinguish offsets and seeds.
pub(crate) fn sample(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|at| ((at + seed) * 31 % 251) as u8).collect()
}
