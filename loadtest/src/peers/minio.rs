//! MinIO: the bucket.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
    drive: PathBuf,
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
        let (addr, drive) = (free_addr()?, dir.join("minio"));
        let mut command = Command::new(program);
        command
            .args(["server", "--quiet", "--address", &addr.to_string()])
            .args(["--console-address", &free_addr()?.to_string()])
            .arg(&drive)
            .env("MINIO_ROOT_USER", ACCESS_KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
            .env("MINIO_UPDATE", "off")
            .env("MINIO_BROWSER", "off");
        let server = Server::start(command, &dir.join("minio.log"), addr)?;
        Ok(Self {
            addr,
            drive,
            _server: server,
        })
    }

    /// Frees the room of what was deleted. MinIO moves that aside and looks after it five minutes after its
    /// start for the first time, whatever its settings: until then a run of long files fills the disk.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn empty_bin(&self) -> io::Result<()> {
        for deleted in std::fs::read_dir(self.drive.join(".minio.sys/tmp/.trash"))? {
            let path = deleted?.path();
            let removed = match path.is_dir() {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
            match removed {
                // It may have come to that itself.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}
