//! MinIO: the bucket.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::child::{Server, find_program, free_addr};

/// The key that writes.
pub const ACCESS_KEY: &str = "minioadmin";
/// Its secret; the server listens on loopback only, and for the length of a run.
pub const SECRET_KEY: &str = "minioadmin";

/// A running MinIO with one drive.
#[derive(Debug)]
pub struct Minio {
    addr: SocketAddr,
    _server: Server,
}

impl Minio {
    /// Starts one that keeps its objects below `dir`.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(dir: &Path) -> Result<Self> {
        let program = find_program("TIDEGATE_MINIO", &["minio"])
            .context("MinIO is missing; `loadtest setup` installs it")?;
        let addr = free_addr()?;
        let mut command = Command::new(program);
        command
            .args(["server", "--quiet", "--address", &addr.to_string()])
            .args(["--console-address", &free_addr()?.to_string()])
            .arg(dir.join("minio"))
            .env("MINIO_ROOT_USER", ACCESS_KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
            .env("MINIO_UPDATE", "off")
            // What is deleted makes room for the next round: after 5 minutes, else.
            .env("MINIO_API_DELETE_CLEANUP_INTERVAL", "5s")
            .env("MINIO_BROWSER", "off");
        let server = Server::start(command, &dir.join("minio.log"), addr)?;
        Ok(Self {
            addr,
            _server: server,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}
