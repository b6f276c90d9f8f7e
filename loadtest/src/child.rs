//! Child processes that end with the load test: started in the foreground, stopped by process id.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

#[path = "../../gateway/tests/support/ports.rs"]
mod ports;

/// Time limit for a server to listen, and to end after SIGTERM, also on a slow machine.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A server that runs until this is dropped. Dropping sends SIGTERM first, SIGKILL if that has no effect.
#[derive(Debug)]
pub struct Server {
    child: Child,
    log: PathBuf,
}

/// Returns a command that runs `program` with its standard input handed over as a socket, as systemd does
#[must_use]
pub fn handed_over(program: &Path) -> Command {
    let script = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(program);
    command
}

impl Server {
    /// Starts `command` with its output in the file `log`, and waits until it accepts connections
    /// on `addr`.
    ///
    /// # Errors
    /// If it cannot be started, ends at once, or does not listen in time; with the end of its log.
    pub fn start(command: Command, log: &Path, addr: SocketAddr) -> Result<Self> {
        let patience = Duration::from_millis(200);
        Self::start_when(command, log, || {
            TcpStream::connect_timeout(&addr, patience).is_ok()
        })
        .with_context(|| format!("nothing listens on {addr}"))
    }

    /// Starts `command` with its output in the file `log`, and waits until `ready` returns true.
    ///
    /// # Errors
    /// If it cannot be started, ends at once, or is not ready in time; with the end of its log.
    pub fn start_when(command: Command, log: &Path, ready: impl FnMut() -> bool) -> Result<Self> {
        Self::start_with(command, Stdio::null(), log, ready)
    }

    /// Does the same as [`Server::start_when`], with `input` as the standard input.
    ///
    /// # Errors
    /// As [`Server::start_when`].
    pub fn start_with(
        mut command: Command,
        input: Stdio,
        log: &Path,
        ready: impl FnMut() -> bool,
    ) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
        let child = command
            .stdin(input)
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let mut server = Self {
            child,
            log: log.to_owned(),
        };
        server.wait_until(ready)?;
        Ok(server)
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the last 20 lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Ends it at once, by SIGKILL.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn wait_until(&mut self, mut ready: impl FnMut() -> bool) -> Result<()> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once ({status}):\n{}", self.log_tail());
            }
            if ready() {
                return Ok(());
            }
            if since.elapsed() > TIMEOUT {
                bail!("it is not ready after {TIMEOUT:?}:\n{}", self.log_tail());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn ended_within(&mut self, patience: Duration) -> bool {
        let since = Instant::now();
        while since.elapsed() < patience {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            // It has ended and was waited for: its id may belong to another process by now.
            return;
        }
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            // The id stays ours until we have waited for the process, even if it ends by itself meanwhile.
            let _ = kill_process(pid, Signal::TERM);
        }
        if !self.ended_within(TIMEOUT) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Returns a loopback address without a listener, which no other caller gets, in this process or in another one.
#[must_use]
pub fn free_addr() -> SocketAddr {
    ports::free_addr()
}

/// Finds a program: first by the environment variable `env`, then in [`tools_dir`], then in `PATH`.
#[must_use]
pub fn find_program(env: &str, names: &[&str]) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(env) {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let built = tools_dir().into_iter();
    built
        .chain(std::env::split_paths(&path))
        .flat_map(|dir| names.iter().map(move |name| dir.join(name)))
        .find(|file| file.is_file())
}

/// Returns the directory into which `loadtest/setup` installs the tools that it builds.
#[must_use]
pub fn tools_dir() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("tidegate-tools/bin"))
}
