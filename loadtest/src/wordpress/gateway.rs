//! A gateway of a recipe: a process with the recipe's file.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use super::recipe::Home;
use crate::child::{Server, handed_over};

/// Where a gateway's public listener is.
#[derive(Debug)]
pub enum Listens {
    /// At a Unix socket.
    Unix(PathBuf),
    /// At an address.
    Tcp(SocketAddr),
    /// At a socket that is handed to it and stays open without it, as by a systemd socket unit.
    Passed(UnixListener),
}

impl Listens {
    fn answers(&self) -> bool {
        match self {
            Self::Unix(path) => UnixStream::connect(path).is_ok(),
            Self::Tcp(addr) => TcpStream::connect(addr).is_ok(),
            // Whether anything accepts cannot be seen from outside: connections wait.
            Self::Passed(_) => true,
        }
    }

    /// The command that runs `program`, and its standard input.
    fn command(&self, program: &Path) -> Result<(Command, Stdio)> {
        let Self::Passed(listener) = self else {
            return Ok((Command::new(program), Stdio::null()));
        };
        let socket = OwnedFd::from(listener.try_clone()?);
        Ok((handed_over(program), socket.into()))
    }
}

/// A gateway, running but where it was killed or stopped.
#[derive(Debug)]
pub struct Gateway {
    program: PathBuf,
    dir: PathBuf,
    mount: Option<PathBuf>,
    listens: Listens,
    server: Option<Server>,
}

impl Gateway {
    /// Starts `program` in `home` with the configuration `toml`, and waits until it listens on its
    /// socket and, if `mount` says where, has mounted.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(program: &Path, home: &Home, toml: &str, mount: Option<PathBuf>) -> Result<Self> {
        Self::start_on(program, home, toml, mount, Listens::Unix(home.socket()))
    }

    /// The same for one that listens elsewhere.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_on(
        program: &Path,
        home: &Home,
        toml: &str,
        mount: Option<PathBuf>,
        listens: Listens,
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

    /// Starts it again, after it was killed or stopped, or in place of the process that runs.
    ///
    /// # Errors
    /// If it does not start.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        let (mut command, input) = self.listens.command(&self.program)?;
        command
            .arg("serve")
            .arg("--config")
            .arg(self.dir.join("tidegate.toml"));
        let mount = self.mount.as_deref();
        let ready = || self.listens.answers() && mount.is_none_or(answers);
        let log = self.dir.join("tidegate.log");
        self.server = Some(Server::start_with(command, input, &log, ready)?);
        Ok(())
    }

    /// Ends it at once, by SIGKILL. Its mount is left behind.
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

    /// Its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    /// A line of its log's end that says what should not be.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let log = self.log_tail();
        log.lines()
            .find(|line| line.contains("ERROR"))
            .map(str::to_owned)
    }

    /// The end of its log.
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
        // What a killed one has left.
        if let Some(mount) = &self.mount {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

/// Whether a FUSE file system is mounted there (proc_pid_mountinfo(5)), and its process lives.
fn answers(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let shown = path.display().to_string();
    let is_fuse = |line: &str| line.split(' ').nth(4) == Some(&*shown) && line.contains(" - fuse");
    table.lines().any(is_fuse) && rustix::fs::statvfs(path).is_ok()
}
