//! A gateway that runs on a recipe's file.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::recipe::Home;
use crate::child::{Server, handed_over};

/// The variables of a gateway that takes no state disk of a slow machine for one that hangs.
const PATIENT: [(&str, &str); 2] = [
    ("TIDEGATE_STATE__READ_TIMEOUT", "10m"),
    ("TIDEGATE_STATE__WRITE_TIMEOUT", "10m"),
];

/// A gateway's public listener.
#[derive(Debug)]
pub enum PublicListener {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP address.
    Tcp(SocketAddr),
    /// A socket that is handed over and stays open without the gateway, as by a systemd socket
    /// unit.
    Passed(UnixListener),
}

impl PublicListener {
    fn answers(&self) -> bool {
        match self {
            Self::Unix(path) => UnixStream::connect(path).is_ok(),
            Self::Tcp(addr) => TcpStream::connect(addr).is_ok(),
            // Connections wait in the queue, so a test connection would prove nothing.
            Self::Passed(_) => true,
        }
    }

    /// Returns the command that runs `program`, and its standard input.
    fn command(&self, program: &Path) -> Result<(Command, Stdio)> {
        let Self::Passed(listener) = self else {
            return Ok((Command::new(program), Stdio::null()));
        };
        let socket = OwnedFd::from(listener.try_clone()?);
        Ok((handed_over(program), socket.into()))
    }
}

/// A gateway that runs unless it was killed or stopped.
#[derive(Debug)]
pub struct Gateway {
    program: PathBuf,
    dir: PathBuf,
    mount: Option<PathBuf>,
    listens: PublicListener,
    server: Option<Server>,
}

impl Gateway {
    /// Starts `program` in `home` with the configuration `toml`, and waits until it listens on its
    /// socket and has mounted `mount`, if given.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(program: &Path, home: &Home, toml: &str, mount: Option<PathBuf>) -> Result<Self> {
        Self::start_on(
            program,
            home,
            toml,
            mount,
            PublicListener::Unix(home.socket()),
        )
    }

    /// Does the same with another listener.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_on(
        program: &Path,
        home: &Home,
        toml: &str,
        mount: Option<PathBuf>,
        listens: PublicListener,
    ) -> Result<Self> {
        fs::write(home.dir.join("tidegate.toml"), toml)?;
        let mut gateway = Self {
            program: program.to_owned(),
            dir: home.dir.clone(),
            mount,
            listens,
            server: None,
        };
        gateway.restart()?;
        Ok(gateway)
    }

    /// Starts it again after a kill or stop, or in place of the running process.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        let (mut command, input) = self.listens.command(&self.program)?;
        command
            .arg("serve")
            .arg("--config")
            .arg(self.dir.join("tidegate.toml"))
            .envs(PATIENT);
        let mount = self.mount.as_deref();
        let ready = || self.listens.answers() && mount.is_none_or(answers);
        let log = self.dir.join("tidegate.log");
        self.server = Some(Server::start_with(command, input, &log, ready)?);
        Ok(())
    }

    /// Ends it in order, and starts it again with nothing cached and nothing known. Its spool must be empty.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart_empty(&mut self) -> Result<()> {
        self.stop();
        for folder in ["cache", "state"] {
            let folder = self.dir.join(folder);
            fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        self.restart()
    }

    /// Ends it at once, by SIGKILL. Its mount stays behind.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        self.server.take().map_or(Ok(()), Server::kill)
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        self.server = None;
    }

    /// Returns its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    /// Returns the first line with an error in the last lines of its log.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let log = self.log_tail();
        log.lines()
            .find(|line| line.contains("ERROR"))
            .map(str::to_owned)
    }

    /// Returns the last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.server
            .as_ref()
            .map(Server::log_tail)
            .unwrap_or_default()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
        // A killed gateway leaves its mount behind.
        if let Some(mount) = &self.mount {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Tells whether a FUSE file system is mounted there (proc_pid_mountinfo(5)) and its process lives.
fn answers(path: &Path) -> bool {
    let lives = rustix::fs::statvfs(path).is_ok();
    // The table is read after that: before it, the mount of a killed process may be in the table while the folder below
    // answers.
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let shown = path.display().to_string();
    let is_fuse = |line: &str| line.split(' ').nth(4) == Some(&*shown) && line.contains(" - fuse");
    lives && table.lines().any(is_fuse)
}
