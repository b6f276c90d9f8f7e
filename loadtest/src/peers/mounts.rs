//! Mounts: tidegate's own, and those that people mount buckets with today, each as its users tune it
//! for long media. Every one is a process of its own, unmounted when it is dropped.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::minio::{ACCESS_KEY, SECRET_KEY};
use super::tidegate::{Home, Until};
use super::{Origin, Peer};
use crate::child::find_program;
use crate::slow_disk::need_root;

const PATIENCE: Duration = Duration::from_secs(30);

/// A mounted bucket.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    config: String,
    process: Process,
}

#[derive(Debug)]
enum Process {
    /// It unmounts when it is told to stop.
    Tidegate(Peer),
    /// It ends when it is unmounted.
    Other(Child),
}

/// The names of those that can be mounted.
pub const NAMES: [&str; 5] = [
    "tidegate",
    "rclone",
    "rclone-full",
    "mountpoint-s3",
    "geesefs",
];

impl Mount {
    /// Mounts tidegate, `serve` with a `[[mount]]`, with what its home holds.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn tidegate(home: &Home) -> Result<Self> {
        need_root("mounting")?;
        let path = home.dir.join("mount");
        std::fs::create_dir_all(&path)?;
        let mut home = home.clone();
        home.mount = Some(path.clone());
        let peer = home.start(Until::Ready).await?;
        let config = peer.config().to_owned();
        let process = Process::Tidegate(peer);
        Ok(Self {
            path,
            config,
            process,
        })
    }

    /// Mounts another by name, with nothing cached; `None` where it is not installed.
    ///
    /// # Errors
    /// If it is there and does not start, or there is none of this name.
    pub fn other(name: &str, dir: &Path, origin: &Origin, key: &str) -> Result<Option<Self>> {
        need_root("mounting")?;
        let (path, cache) = (dir.join("mount"), dir.join("cache"));
        std::fs::create_dir_all(&path)?;
        std::fs::create_dir_all(&cache)?;
        let Some(mut command) = command(name, &path, &cache, origin)? else {
            return Ok(None);
        };
        let config = format!("{command:?}").replace('"', "");
        command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY);
        command.env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        let out = std::fs::File::create(dir.join("mount.log"))?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?);
        let child = command.stderr(out).spawn();
        let mount = Self {
            config,
            process: Process::Other(child.with_context(|| format!("cannot start {name}"))?),
            path,
        };
        let since = Instant::now();
        while !mount.file(key).is_file() {
            if since.elapsed() > PATIENCE {
                bail!("{name} shows no {key} after {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(mount))
    }

    /// How it was started.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// An object as a file.
    #[must_use]
    pub fn file(&self, key: &str) -> PathBuf {
        self.path.join(key)
    }

    /// The gateway behind it, where it is tidegate's.
    #[must_use]
    pub fn gateway(&self) -> Option<&Peer> {
        match &self.process {
            Process::Tidegate(peer) => Some(peer),
            Process::Other(_) => None,
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let Process::Other(child) = &mut self.process else {
            return;
        };
        let unmounted = Command::new("umount").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            let _ = child.kill();
        }
        let _ = child.wait();
    }
}

fn command(name: &str, path: &Path, cache: &Path, origin: &Origin) -> Result<Option<Command>> {
    let endpoint = format!("http://{}", origin.addr);
    Ok(match name {
        "rclone" => find_program("TIDEGATE_RCLONE", &["rclone"])
            .map(|program| rclone(&program, path, cache, origin, &LONG_MEDIA)),
        "rclone-full" => find_program("TIDEGATE_RCLONE", &["rclone"])
            .map(|program| rclone(&program, path, cache, origin, &["--vfs-cache-mode=full"])),
        "mountpoint-s3" => find_program("TIDEGATE_MOUNT_S3", &["mount-s3"]).map(|program| {
            let mut command = Command::new(program);
            command.arg(&origin.bucket).arg(path);
            command.args(["--force-path-style", "--read-only", "--foreground"]);
            command.args(["--region=us-east-1", "--endpoint-url", &endpoint]);
            command
        }),
        "geesefs" => find_program("TIDEGATE_GEESEFS", &["geesefs"]).map(|program| {
            let mut command = Command::new(program);
            command.args(["-f", "-o", "ro", "--endpoint", &endpoint]);
            command.arg(&origin.bucket).arg(path);
            command
        }),
        other => bail!("no mount `{other}`; there are {}", NAMES.join(", ")),
    })
}

/// As its users set it for audiobooks, over 8 connections at once.
const LONG_MEDIA: [&str; 5] = [
    "--vfs-cache-mode=off",
    "--vfs-read-chunk-streams=8",
    "--vfs-read-chunk-size=64M",
    "--vfs-read-ahead=64M",
    "--vfs-read-chunk-size-limit=2G",
];

fn rclone(program: &Path, path: &Path, cache: &Path, origin: &Origin, how: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["mount", &format!("origin:{}", origin.bucket)]);
    command.arg(path).args(["--read-only"]).args(how);
    command.args(["--config=/dev/null", "--log-level=ERROR"]);
    command.arg("--cache-dir").arg(cache);
    command
        .env("RCLONE_CONFIG_ORIGIN_TYPE", "s3")
        .env("RCLONE_CONFIG_ORIGIN_PROVIDER", "Minio")
        .env(
            "RCLONE_CONFIG_ORIGIN_ENDPOINT",
            format!("http://{}", origin.addr),
        )
        .env("RCLONE_CONFIG_ORIGIN_ACCESS_KEY_ID", ACCESS_KEY)
        .env("RCLONE_CONFIG_ORIGIN_SECRET_ACCESS_KEY", SECRET_KEY);
    command
}
