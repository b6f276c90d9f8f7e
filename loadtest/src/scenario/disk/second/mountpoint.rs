//! mountpoint-s3 with its cache on disk: a mount, read as a file.
//!
//! It empties its cache when it starts, so that its second read follows the first in one process,
//! with the file cache emptied in between.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::child::find_program;
use crate::pattern::Pattern;
use crate::peers::Origin;
use crate::peers::minio::{ACCESS_KEY, SECRET_KEY};

const PATIENCE: Duration = Duration::from_secs(30);

/// A mounted bucket; unmounted when dropped.
#[derive(Debug)]
pub(super) struct Mount {
    child: Child,
    path: PathBuf,
    config: String,
}

/// Where the program is, if it is installed.
pub(super) fn find() -> Option<PathBuf> {
    find_program("TIDEGATE_MOUNT_S3", &["mount-s3"])
}

impl Mount {
    /// Mounts the bucket below `dir`, and waits until `key` is there.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(program: &Path, dir: &Path, origin: &Origin, key: &str) -> Result<Self> {
        let (path, cache) = (dir.join("mount"), dir.join("mount-cache"));
        std::fs::create_dir(&path)?;
        std::fs::create_dir(&cache)?;
        let endpoint = format!("http://{}", origin.addr);
        let options = [
            "--force-path-style",
            "--read-only",
            "--foreground",
            "--region=us-east-1",
        ];
        let mut command = Command::new(program);
        command
            .arg(&origin.bucket)
            .arg(&path)
            .args(options)
            .args(["--endpoint-url", &endpoint])
            .arg("--cache")
            .arg(&cache)
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let child = command.spawn().context("cannot start mount-s3")?;
        let config = format!("mount-s3 {} --cache", options.join(" "));
        let mount = Self {
            child,
            path,
            config,
        };
        let since = Instant::now();
        while !mount.path.join(key).is_file() {
            if since.elapsed() > PATIENCE {
                bail!("mount-s3 shows no {key} after {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(mount)
    }

    pub(super) fn config(&self) -> &str {
        &self.config
    }

    /// Reads an object as a file and checks every byte; MB (10⁶ bytes) in a second.
    ///
    /// # Errors
    /// If a byte is wrong or missing.
    pub(super) async fn read(&self, key: &str, pattern: Pattern) -> Result<f64> {
        let path = self.path.join(key);
        tokio::task::spawn_blocking(move || read(&path, pattern)).await?
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn read(path: &Path, pattern: Pattern) -> Result<f64> {
    let since = Instant::now();
    let mut file = File::open(path)?;
    let (mut buffer, mut at) = (vec![0; 1 << 20], 0);
    loop {
        let len = file.read(&mut buffer)?;
        if len == 0 {
            break;
        }
        ensure!(
            pattern.matches(at, &buffer[..len]),
            "wrong bytes from {at} on"
        );
        at += len as u64;
    }
    ensure!(at == pattern.len, "ends at {at} instead of {}", pattern.len);
    Ok(at as f64 / 1e6 / since.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_and_a_wrong_byte_is_found() {
        let pattern = Pattern {
            seed: 3,
            len: 3_000_001,
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), pattern.all()).unwrap();
        assert!(read(file.path(), pattern).unwrap() > 0.0);
        std::fs::write(file.path(), pattern.bytes(0, 3_000_000)).unwrap();
        assert!(read(file.path(), pattern).is_err());
        let mut wrong = pattern.all().to_vec();
        wrong[2_000_000] ^= 1;
        std::fs::write(file.path(), wrong).unwrap();
        assert!(read(file.path(), pattern).is_err());
    }
}
