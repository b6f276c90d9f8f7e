//! MinIO: the bucket.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::child::{Server, find_program, free_addr};

/// The access key; it may write.
pub const ACCESS_KEY: &str = "minioadmin";
/// Its secret. The server listens on loopback only, for the length of a run.
pub const SECRET_KEY: &str = "minioadmin";

/// A running MinIO with one drive.
#[derive(Debug)]
pub struct Minio {
    addr: SocketAddr,
    drive: PathBuf,
    _server: Server,
}

impl Minio {
    /// Starts a server that keeps its objects below `dir`.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(dir: &Path) -> Result<Self> {
        Self::start_at(free_addr(), dir, &[])
    }

    /// Does the same at this address and with these variables.
    ///
    /// # Errors
    /// As [`Minio::start`].
    pub fn start_at(addr: SocketAddr, dir: &Path, variables: &[(&str, &str)]) -> Result<Self> {
        let program = find_program("TIDEGATE_MINIO", &["minio"])
            .context("MinIO is missing; `loadtest setup` installs it")?;
        let drive = dir.join("minio");
        let mut command = Command::new(program);
        command
            .args(["server", "--quiet", "--address", &addr.to_string()])
            .args(["--console-address", &free_addr().to_string()])
            .arg(&drive)
            .env("MINIO_ROOT_USER", ACCESS_KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET_KEY)
            .env("MINIO_UPDATE", "off")
            .env("MINIO_BROWSER", "off")
            .envs(variables.iter().copied());
        let server = Server::start_when(command, &dir.join("minio.log"), || {
            is_ready(addr).unwrap_or(false)
        })?;
        Ok(Self {
            addr,
            drive,
            _server: server,
        })
    }

    /// Frees the space of deleted objects. MinIO moves them aside and removes them only from five minutes after its
    /// start on, regardless of its settings. Until then a run of long files could fill the disk.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn empty_bin(&self) -> io::Result<()> {
        for deleted in std::fs::read_dir(self.drive.join(".minio.sys/tmp/.trash"))? {
            let path = deleted?.path();
            let removed = match path.is_dir() {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
            match removed {
                // MinIO may have removed it itself.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        Ok(())
    }

    /// Returns the directory of its drive.
    #[must_use]
    pub fn drive(&self) -> &Path {
        &self.drive
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// Asks a server whether it can serve. It listens before it can: for as long as its disks are not ready, it refuses
/// every request.
fn is_ready(addr: SocketAddr) -> io::Result<bool> {
    let patience = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_read_timeout(Some(patience))?;
    write!(
        stream,
        "GET /minio/health/cluster HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
