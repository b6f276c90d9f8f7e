//! Commands for the other mounts.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::Access;
use crate::child::find_program;
use crate::peers::minio::{ACCESS_KEY, SECRET_KEY};
use crate::peers::{Origin, rclone};

/// The names of the available mounts.
pub const NAMES: [&str; 8] = [
    "rclone",
    "rclone-full",
    "rclone-writes",
    "rclone-folder",
    "mountpoint-s3",
    "mountpoint-s3-cache",
    "mountpoint-s3-folder",
    "geesefs",
];

/// Options that users set for audiobooks, with 8 connections at once.
const LONG_MEDIA: [&str; 5] = [
    "--vfs-cache-mode=off",
    "--vfs-read-chunk-streams=8",
    "--vfs-read-chunk-size=64M",
    "--vfs-read-ahead=64M",
    "--vfs-read-chunk-size-limit=2G",
];
/// Options that users set for writing: several uploads at once, begun 100 ms after the close. At 0
/// s the upload would precede the close's return.
const WRITES: [&str; 3] = [
    "--vfs-cache-mode=writes",
    "--vfs-write-back=100ms",
    "--transfers=16",
];

/// Returns the command that mounts; `None` if the program is not installed.
pub(super) fn command(
    name: &str,
    access: Access,
    path: &Path,
    cache: &Path,
    origin: &Origin,
) -> Result<Option<Command>> {
    let rclone = |how: &[&str]| {
        let program = find_program("TIDEGATE_RCLONE", &["rclone"])?;
        let mut command = Command::new(program);
        command.args(["mount", &format!("origin:{}", origin.bucket)]);
        command.arg(path).args(read_only(access, &["--read-only"]));
        command.args(how);
        command.args(["--config=/dev/null", "--log-level=ERROR"]);
        command.arg("--cache-dir").arg(cache);
        Some(command)
    };
    Ok(match name {
        "rclone" => rclone(&LONG_MEDIA),
        "rclone-full" => rclone(&["--vfs-cache-mode=full"]),
        "rclone-writes" => rclone(&WRITES),
        // It takes a file's time from the listing: the one in the metadata is a request a file.
        "rclone-folder" => rclone(&["--vfs-cache-mode=full", "--use-server-modtime"]),
        "mountpoint-s3" => mountpoint(access, path, origin),
        "mountpoint-s3-cache" => mountpoint(access, path, origin).map(|mut command| {
            command.arg("--cache").arg(cache);
            command
        }),
        // Listings are kept, too: it keeps none by itself, or for a minute with a cache.
        "mountpoint-s3-folder" => mountpoint(access, path, origin).map(|mut command| {
            command.arg("--cache").arg(cache).arg("--metadata-ttl=3600");
            command
        }),
        "geesefs" => geesefs(access, path, origin),
        other => bail!("no mount `{other}`; there are {}", NAMES.join(", ")),
    })
}

fn read_only<'a>(access: Access, how: &'a [&'a str]) -> &'a [&'a str] {
    match access {
        Access::Reading => how,
        Access::Writing => &[],
    }
}

/// Returns mountpoint-s3's command. It empties its cache when it starts: a second read must follow
/// the first in one process.
fn mountpoint(access: Access, path: &Path, origin: &Origin) -> Option<Command> {
    let mut command = Command::new(find_program("TIDEGATE_MOUNT_S3", &["mount-s3"])?);
    command.arg(&origin.bucket).arg(path);
    command.args(["--foreground", "--force-path-style", "--region=us-east-1"]);
    command.arg(format!("--endpoint-url=http://{}", origin.addr));
    command.args(match access {
        Access::Reading => ["--read-only"].as_slice(),
        Access::Writing => ["--allow-delete", "--allow-overwrite"].as_slice(),
    });
    Some(command)
}

fn geesefs(access: Access, path: &Path, origin: &Origin) -> Option<Command> {
    let mut command = Command::new(find_program("TIDEGATE_GEESEFS", &["geesefs"])?);
    command.args(["-f"]).args(read_only(access, &["-o", "ro"]));
    command.arg(format!("--endpoint=http://{}", origin.addr));
    command.arg("--region=us-east-1");
    command.arg(&origin.bucket).arg(path);
    Some(command)
}

/// Sets the keys in the variables that each program reads, so that none requests others over the
/// network.
pub(super) fn give_keys(command: &mut Command, origin: &Origin) {
    command
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        // The endpoint speaks no TLS, and some versions of rclone fail because of this variable.
        .env_remove("AWS_CA_BUNDLE");
    rclone::give_keys(command, origin);
}
