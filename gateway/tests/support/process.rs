//! A child process that ends with the test: started in the foreground, stopped by process id.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The time for a server to listen, and to end; generous, for slow machines.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A running server; its drop asks it to end, and kills it if it does not.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts `command` with its output in the file `log`, and waits until `addr` accepts
    /// connections. Panics with the log if that never happens.
    pub(crate) fn start(mut command: Command, log: &Path, addr: SocketAddr) -> Self {
        let out = File::create(log).expect("the log's directory exists");
        let errors = out.try_clone().expect("a second handle");
        command.stdin(Stdio::null()).stdout(out).stderr(errors);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let mut process = Self(child);
        let since = Instant::now();
        while TcpStream::connect(addr).is_err() {
            let said = || std::fs::read_to_string(log).unwrap_or_default();
            let ended = process.0.try_wait().expect("our own child");
            assert_eq!(ended, None, "{command:?} ended:\n{}", said());
            assert!(
                since.elapsed() < TIMEOUT,
                "{command:?} does not listen:\n{}",
                said()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // It may have ended by itself; its id stays ours until we have waited for it.
        let _ = kill_process(id.expect("a process id"), Signal::TERM);
        let since = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) {
            if since.elapsed() > TIMEOUT {
                let _ = self.0.kill();
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
