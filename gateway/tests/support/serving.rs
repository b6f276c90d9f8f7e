//! The real program: `tidegate serve` as a process of its own, with a log that can be read.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::gateway::{Got, PATIENT, ask};
use crate::mount::TOKEN;
use crate::ports::free_addr;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// A configuration, and the processes that run with it one after the other.
pub(crate) struct Serving {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    home: TempDir,
    child: Option<Child>,
    is_patient: bool,
}

impl Serving {
    /// Prepares a configuration; nothing runs yet. `toml` has no `[http]`, and an `[admin]` without
    /// an address.
    pub(crate) fn configured(toml: &str) -> Self {
        let (http, admin) = (free_addr(), free_addr());
        let serving = Self {
            http,
            admin,
            home: tempfile::tempdir().expect("a folder"),
            child: None,
            is_patient: true,
        };
        serving.configure(toml);
        serving
    }

    /// Returns the same with the program's own deadlines for the disk of its state, which a test lets pass.
    pub(crate) fn impatient(mut self) -> Self {
        self.is_patient = false;
        self
    }

    /// Sets another configuration for the next start.
    pub(crate) fn configure(&self, toml: &str) {
        let listen = format!("[admin]\nlisten = \"{}\"\n", self.admin);
        let toml = toml.replace("[admin]\n", &listen);
        let toml = format!("{toml}[http]\nlisten = \"{}\"\n", self.http);
        std::fs::write(self.config(), toml).expect("written");
    }

    /// Sets other public listeners, and perhaps further lines of `[http]`, in the configuration that is written.
    pub(crate) fn listen_on(&self, listen: &str) {
        let text = std::fs::read_to_string(self.config()).expect("written");
        let (before, _) = text.split_once("[http]\nlisten = ").expect("at its end");
        let text = format!("{before}[http]\nlisten = {listen}\n");
        std::fs::write(self.config(), text).expect("written");
    }

    /// Returns the bytes of memory that the program has in use.
    pub(crate) fn resident(&self) -> usize {
        let child = self.child.as_ref().expect("it runs");
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.expect("a line").parse::<usize>().expect("a number") << 10
    }

    /// Returns the configuration's file.
    pub(crate) fn config(&self) -> PathBuf {
        self.home.path().join("tidegate.toml")
    }

    fn log_file(&self) -> PathBuf {
        self.home.path().join("log")
    }

    /// Returns everything that the processes have logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Waits for a line of the log with all of these words: lines are written behind the work that they tell of.
    pub(crate) async fn logged(&self, words: &[&str]) {
        let has = |line: &str| words.iter().all(|word| line.contains(word));
        let begun = Instant::now();
        while !self.log().lines().any(has) {
            let log = self.log();
            assert!(begun.elapsed() < LONG, "no line has {words:?}\n{log}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts the program and waits until it is ready.
    pub(crate) async fn start(&mut self) {
        self.launch(&[]);
        self.ready().await;
    }

    /// Waits until the program is ready.
    pub(crate) async fn ready(&mut self) {
        let begun = Instant::now();
        while !self.is_ready().await {
            let child = self.child.as_mut().expect("started");
            let ended = child.try_wait().expect("a child of ours");
            let late = begun.elapsed() > LONG;
            assert!(ended.is_none() && !late, "{ended:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Starts the program with these variables, and does not wait.
    pub(crate) fn launch(&mut self, variables: &[(&str, &str)]) {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.log_file());
        self.launch_with(variables, log.expect("a log").into());
    }

    /// Does the same with another standard error than the log that can be read.
    pub(crate) fn launch_with(&mut self, variables: &[(&str, &str)], stderr: Stdio) {
        assert!(self.child.is_none(), "one at a time");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["serve", "--config"]).arg(self.config());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if self.is_patient {
            command.envs(PATIENT);
        }
        command.envs(variables.iter().copied());
        self.child = Some(command.stderr(stderr).spawn().expect("it starts"));
    }

    async fn is_ready(&self) -> bool {
        tokio::net::TcpStream::connect(self.admin).await.is_ok()
            && self.look("/readyz").await.status == 200
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        ask(self.http, Method::GET, path, &[]).await
    }

    /// Sends a GET to the admin listener.
    pub(crate) async fn look(&self, path: &str) -> Got {
        ask(self.admin, Method::GET, path, &[]).await
    }

    /// Sends a POST to the admin listener, as the operator.
    pub(crate) async fn post(&self, path: &str) -> Got {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        ask(self.admin, Method::POST, path, &headers).await
    }

    /// Returns the sum of the samples whose name and labels contain each of `words`.
    pub(crate) async fn metric(&self, words: &[&str]) -> u64 {
        self.look("/metrics").await.metric(words)
    }

    /// Sends the program a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("told");
    }

    /// Returns the number of descriptors that the program has open.
    pub(crate) fn descriptors(&self) -> usize {
        let child = self.child.as_ref().expect("it runs");
        let open = std::fs::read_dir(format!("/proc/{}/fd", child.id()));
        open.expect("it runs").count()
    }

    /// Ends the program in order.
    pub(crate) async fn end(&mut self) {
        self.signal(Signal::TERM);
        self.ended().await;
    }

    /// Waits until the program has ended in order.
    pub(crate) async fn ended(&mut self) {
        let mut child = self.child.take().expect("it runs");
        let ended = tokio::task::spawn_blocking(move || child.wait().expect("it ends"));
        let ended = tokio::time::timeout(LONG, ended).await.expect("in time");
        assert!(ended.expect("no panic").success(), "{}", self.log());
    }

    /// Kills the program, as a power cut does.
    pub(crate) fn kill(&mut self) {
        self.kill_with(|| ());
    }

    /// Does the same, and then runs `taken_away` for the other losses of a power cut.
    pub(crate) fn kill_with(&mut self, taken_away: impl FnOnce()) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it runs still");
        taken_away();
        child.wait().expect("it is gone");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a `[[cache.disk]]` in a folder.
pub(crate) fn disk(path: &Path) -> String {
    format!(
        "[[cache.disk]]\npath = \"{}\"\ncapacity = \"64MiB\"\nmin_free = 0\n",
        path.display()
    )
}
