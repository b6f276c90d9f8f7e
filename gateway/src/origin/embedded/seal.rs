//! Which files came through S3 as they are.
//!
//! s3s-fs notes an ETag beside each object, and believes it for good. A file that somebody edits or
//! moves into its place would keep the ETag of other bytes, which no cache could survive. So each
//! file that S3 wrote is sealed: a note says which inode it is and when that last changed.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

/// The seals of all objects, one small file each.
#[derive(Debug)]
pub(super) struct Seals(PathBuf);

impl Seals {
    /// The seals kept under `root`, in a folder whose dot keeps it from being a bucket.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let folder = root.join(".seals");
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }

    /// Whether the object's file is the one that was sealed, untouched.
    pub(super) async fn holds(&self, bucket: &str, key: &str, file: &Metadata) -> bool {
        let seal = tokio::fs::read_to_string(self.path(bucket, key)).await;
        seal.is_ok_and(|seal| seal == impression(file))
    }

    /// Seals the object's file as it is now.
    pub(super) async fn set(&self, bucket: &str, key: &str, file: &Metadata) -> io::Result<()> {
        tokio::fs::write(self.path(bucket, key), impression(file)).await
    }

    fn path(&self, bucket: &str, key: &str) -> PathBuf {
        let name = xxh3_128(format!("{bucket}/{key}").as_bytes());
        self.0.join(format!("{name:032x}"))
    }
}

/// Tells a file from any other that could stand in its place. The inode's change time is what `mv`
/// and `cp -p` do not keep.
fn impression(file: &Metadata) -> String {
    let (seconds, nanos) = (file.ctime(), file.ctime_nsec());
    format!("{} {} {seconds}.{nanos:09}", file.ino(), file.len())
}
