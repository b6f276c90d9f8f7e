//! The surroundings of a scenario: its options, a working directory, and a bucket.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use tempfile::TempDir;

use crate::bucket::Bucket;
use crate::peers::minio::Minio;
use crate::peers::rclone::{self, Cache};
use crate::peers::tidegate::{self, Settings};
use crate::peers::varnish;
use crate::peers::{Origin, Peer};
use crate::peers::{bare, nginx};
use crate::report::Report;

/// The peers behind nginx: the name of the pair, the peer, and whether nginx reaches it over its socket.
const PROXIED: [(&str, &str, bool); 5] = [
    ("nginx-tidegate", "tidegate", false),
    ("nginx-tidegate-unix", "tidegate", true),
    ("nginx-nginx", "nginx", false),
    ("nginx-nginx-unix", "nginx", true),
    ("nginx-bare", "bare", false),
];

/// The options from the command line.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The peers to measure; if empty, those that the scenario names.
    pub peers: Vec<String>,
    /// Alternating rounds, where a scenario has some.
    pub rounds: Option<u32>,
    /// The amount (ranges, replacements, clients or objects); each scenario defines its unit.
    pub count: Option<u64>,
    /// The seconds that one measurement of requests per second takes.
    pub seconds: Option<u64>,
    /// The seed of all random choices.
    pub seed: u64,
}

/// A scenario's surroundings; the server and the files in it end with it.
#[derive(Debug)]
pub struct Context {
    /// The options from the command line.
    pub options: Options,
    /// The scenario's own bucket.
    pub bucket: Bucket,
    minio: Minio,
    dir: TempDir,
}

impl Context {
    /// Starts MinIO in a new directory, and makes a bucket.
    ///
    /// # Errors
    /// If MinIO is missing or does not start.
    pub async fn new(options: Options) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("tidegate-loadtest-")
            .tempdir()?;
        let minio = Minio::start(dir.path())?;
        let bucket = Bucket::create(minio.addr(), "media").await?;
        Ok(Self {
            options,
            bucket,
            minio,
            dir,
        })
    }

    /// Returns the directory for files of this run.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the directory that the peer `nginx` serves; objects to be read from it are put here
    /// too.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn files(&self) -> Result<PathBuf> {
        let dir = self.dir.path().join("files");
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Returns the directory of MinIO's drive.
    #[must_use]
    pub fn drive(&self) -> &Path {
        self.minio.drive()
    }

    /// Returns the bucket, with nothing in between.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            addr: self.minio.addr(),
            bucket: self.bucket.name().to_owned(),
        }
    }

    /// Deletes all keys below a prefix and frees their disk space at once.
    ///
    /// # Errors
    /// If the server or the operating system refuses.
    pub async fn delete_all(&self, prefix: &str) -> Result<()> {
        self.bucket.delete_all(prefix).await?;
        Ok(self.minio.empty_bin()?)
    }

    /// Returns the bucket as reached through the proxy at `addr`.
    #[must_use]
    pub fn origin_behind(&self, addr: std::net::SocketAddr) -> Origin {
        Origin {
            addr,
            ..self.origin()
        }
    }

    /// Makes a new directory in it, whose name begins with `prefix`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new_dir(&self, prefix: &str) -> Result<PathBuf> {
        let dir = tempfile::Builder::new()
            .prefix(prefix)
            .tempdir_in(self.dir())?;
        Ok(dir.keep())
    }

    /// Returns the requested number of rounds, or the scenario's own.
    #[must_use]
    pub fn rounds(&self, usual: u32) -> u32 {
        self.options.rounds.unwrap_or(usual)
    }

    /// Returns the requested count, or the scenario's own.
    #[must_use]
    pub fn count(&self, full: u64) -> u64 {
        self.options.count.unwrap_or(full)
    }

    /// Tells whether a peer takes part: it was requested, or no peers were.
    #[must_use]
    pub fn takes_part(&self, name: &str) -> bool {
        self.options.peers.is_empty() || self.options.peers.iter().any(|asked| asked == name)
    }

    /// Returns the names of the peers to measure: the requested ones, else the scenario's own.
    #[must_use]
    pub fn peers<'a>(&'a self, usual: &[&'a str]) -> Vec<&'a str> {
        if self.options.peers.is_empty() {
            return usual.to_vec();
        }
        self.options.peers.iter().map(String::as_str).collect()
    }

    /// Starts a caching peer by name, in front of `origin`, with nothing cached.
    ///
    /// # Errors
    /// If there is no such peer, or it does not start.
    pub async fn start(&self, name: &str, origin: &Origin, settings: Settings) -> Result<Peer> {
        let dir = self.new_dir("peer-")?;
        if let Some((name, behind, over_socket)) = PROXIED.iter().find(|one| one.0 == name) {
            let behind = Box::pin(self.start(behind, origin, settings)).await?;
            return Ok(nginx::in_front_of(&dir, behind, *over_socket)?.called(name));
        }
        match name {
            "tidegate" => tidegate::start(&dir, origin, settings).await,
            "nginx" => nginx::static_files(&dir, &self.files()?),
            "bare" => bare::start("bare", &dir, &self.files()?),
            bare::PER_CORE => bare::start(bare::PER_CORE, &dir, &self.files()?),
            "nginx-slice" => nginx::slice(&dir, origin, "1m"),
            "nginx-slice-2m" => Ok(nginx::slice(&dir, origin, "2m")?.called("nginx-slice-2m")),
            "nginx-slice-4m" => Ok(nginx::slice(&dir, origin, "4m")?.called("nginx-slice-4m")),
            "nginx-slice-8m" => Ok(nginx::slice(&dir, origin, "8m")?.called("nginx-slice-8m")),
            "nginx-cache" => nginx::proxy_cache(&dir, origin),
            "rclone" => rclone::serve(&dir, origin, Cache::Off),
            "rclone-full" => rclone::serve(&dir, origin, Cache::Full),
            "rclone-8" => rclone::serve(&dir, origin, Cache::Streams(8)),
            "rclone-16" => rclone::serve(&dir, origin, Cache::Streams(16)),
            "varnish" => varnish::start(&dir, origin),
            "direct" => Ok(Peer::direct(origin)),
            other => bail!(
                "no peer `{other}`; there are tidegate, nginx, bare, bare-per-core, nginx-cache, nginx-slice, \
                 nginx-slice-2m, -4m, -8m, nginx-tidegate, -tidegate-unix, -nginx, -nginx-unix, -bare, rclone, \
                 rclone-full, rclone-8, rclone-16, varnish, direct"
            ),
        }
    }

    /// Does the same as [`Context::start`] for an optional peer. If its program is missing, it is
    /// left out and the report says so.
    ///
    /// # Errors
    /// If tidegate, or a peer that the command line asked for, does not start.
    pub async fn start_if_there(
        &self,
        name: &str,
        origin: &Origin,
        settings: Settings,
        report: &mut Report,
    ) -> Result<Option<Peer>> {
        match self.start(name, origin, settings).await {
            Ok(peer) => {
                report.peer(peer.name(), peer.config());
                Ok(Some(peer))
            }
            Err(error) if self.options.peers.is_empty() && name != "tidegate" => {
                report.notes.push(format!("{name} left out: {error:#}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Prints the current step to the standard error stream.
pub fn progress(text: impl std::fmt::Display) {
    eprintln!("   {text}");
}
