//! `rclone serve http`: a common server in front of a bucket.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::minio::{ACCESS_KEY, SECRET_KEY};
use super::{Origin, Peer};
use crate::child::{Server, find_program, free_addr};

/// The mode of its VFS cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Every read goes to the bucket.
    Off,
    /// Bytes that were read stay on disk.
    Full,
    /// Every read goes to the bucket, over this many connections at once, as tuned for long media.
    Streams(u8),
}

/// Options that users set for audiobooks.
const LONG_MEDIA: [&str; 3] = [
    "--vfs-read-chunk-size=64M",
    "--vfs-read-ahead=64M",
    "--vfs-read-chunk-size-limit=2G",
];

/// Serves the bucket over HTTP.
///
/// # Errors
/// If rclone is missing or does not start.
pub fn serve(dir: &Path, origin: &Origin, cache: Cache) -> Result<Peer> {
    let program = find_program("TIDEGATE_RCLONE", &["rclone"])
        .context("rclone is missing; `loadtest setup` installs it")?;
    let (name, mode) = match cache {
        Cache::Off => ("rclone", "off"),
        Cache::Full => ("rclone-full", "full"),
        Cache::Streams(8) => ("rclone-8", "off"),
        Cache::Streams(_) => ("rclone-16", "off"),
    };
    let home = dir.join(name);
    std::fs::create_dir_all(&home)?;
    let addr = free_addr();
    let mut arguments = vec!["serve".to_owned(), "http".to_owned()];
    arguments.push(format!("origin:{}", origin.bucket));
    arguments.push(format!("--addr={addr}"));
    arguments.push(format!("--vfs-cache-mode={mode}"));
    arguments.push("--read-only".to_owned());
    if let Cache::Streams(streams) = cache {
        arguments.push(format!("--vfs-read-chunk-streams={streams}"));
        arguments.extend(LONG_MEDIA.map(str::to_owned));
    }
    let config = format!("rclone {}", arguments.join(" "));
    let mut command = Command::new(program);
    command
        .args(&arguments)
        .arg("--cache-dir")
        .arg(home.join("cache"))
        .args(["--config", "/dev/null", "--log-level", "ERROR"])
        // rclone refuses to start with this variable, and needs none for a bucket over HTTP.
        .env_remove("AWS_CA_BUNDLE");
    give_keys(&mut command, origin);
    let server = Server::start(command, &home.join("rclone.log"), addr)?;
    Ok(Peer::new(name, addr, config, server))
}

/// Defines the bucket's store as rclone's remote `origin`, with the keys.
pub(super) fn give_keys(command: &mut Command, origin: &Origin) {
    command
        .env("RCLONE_CONFIG_ORIGIN_TYPE", "s3")
        .env("RCLONE_CONFIG_ORIGIN_PROVIDER", "Minio")
        .env(
            "RCLONE_CONFIG_ORIGIN_ENDPOINT",
            format!("http://{}", origin.addr),
        )
        .env("RCLONE_CONFIG_ORIGIN_ACCESS_KEY_ID", ACCESS_KEY)
        .env("RCLONE_CONFIG_ORIGIN_SECRET_ACCESS_KEY", SECRET_KEY);
}
