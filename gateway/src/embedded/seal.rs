//! The record of files that came through S3 and are unchanged.
//!
//! s3s-fs stores an ETag beside each object and trusts it forever. A file that a user edits or
//! moves into its place would keep the ETag of other bytes, and caches would serve wrong bytes. So
//! each file that S3 wrote is sealed: a note holds its inode and the time of its last change.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

/// The seals of all objects, one small file each.
#[derive(Debug)]
pub(super) struct Seals(PathBuf);

impl Seals {
    /// Opens the seals under `root`, in a folder whose dot keeps it from being a bucket.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let folder = root.join(".seals");
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Returns whether the object's file is the sealed one, unchanged.
    pub(super) async fn holds(&self, bucket: &str, key: &str, file: &Metadata) -> bool {
        let seal = tokio::fs::read_to_string(self.path(bucket, key)).await;
        seal.is_ok_and(|seal| seal == impression(file))
    }

    /// Seals the object's present file.
    pub(super) async fn set(&self, bucket: &str, key: &str, file: &Metadata) -> io::Result<()> {
        tokio::fs::write(self.path(bucket, key), impression(file)).await
    }

    fn path(&self, bucket: &str, key: &str) -> PathBuf {
        let name = xxh3_128(format!("{bucket}/{key}").as_bytes());
        self.0.join(format!("{name:032x}"))
    }
}

/// Distinguishes a file from any other in its place. `mv` and `cp -p` do not keep the inode's
/// change time.
fn impression(file: &Metadata) -> String {
    let (seconds, nanos) = (file.ctime(), file.ctime_nsec());
    format!("{} {} {seconds}.{nanos:09}", file.ino(), file.len())
}
