//! The program under attack, over a small S3 store in this process.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use tempfile::TempDir;
use tidegate_origin::settings::Credentials;
use tokio::sync::{Mutex, MutexGuard};

use crate::fake_s3::FakeS3;
use crate::gateway::{Got, ask};
use crate::ports::free_addr;

const MIB: u64 = 1 << 20;

/// Memory that the process may use at its peak: `memory` and `budget` of 64 MiB each, and 64 MiB for the
/// process itself.
pub(crate) const PROMISE: u64 = 192 * MIB;

/// Pages of the program's own file that the shipped build has in memory at most. The unoptimised one that the tests start
/// has 60 MiB, which no promise is about.
const PROGRAM: u64 = 32 * MIB;

/// Each deadline of the configuration. The program notices a passed deadline late by at most its own length, twice that
/// for an HTTP/2 stream; see `docs/HTTP.md`.
pub(crate) const DEADLINE: Duration = Duration::from_secs(2);

/// Timeout of a test's waits; only a failure waits so long.
pub(crate) const LONG: Duration = Duration::from_secs(300);

/// Number of chunks that fill the memory tier, and some more.
pub(crate) const FILLERS: usize = 280;

/// Bytes of a chunk.
const CHUNK: usize = 256 << 10;

/// The lock that keeps attacks one at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A running program and its store. The drop of this value kills it.
pub(crate) struct Target {
    pub(crate) http: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The store.
    pub(crate) s3: FakeS3,
    home: TempDir,
    child: Child,
    _turn: MutexGuard<'static, ()>,
}

impl Target {
    /// Starts the program and fills its memory tier.
    pub(crate) async fn start() -> Self {
        Self::with("", "").await
    }

    /// Does the same, with more keys of `[http]` and more sections. The store has `small` (35 KB), `text.js` (300 KiB)
    /// and `fill/0`, `fill/1` … (a chunk each).
    pub(crate) async fn with(http_keys: &str, sections: &str) -> Self {
        let turn = TURN.lock().await;
        let s3 = FakeS3::start().await;
        let bytes = |size: usize| (0..size).map(|at| (at * 31 % 251) as u8);
        s3.bucket.put("small", bytes(35_000).collect::<Vec<_>>());
        let text = "export const answer = 42; // the same again\n".repeat(7000);
        let kind = [("content-type", "text/javascript")];
        s3.bucket.put_with("text.js", text, &kind);
        s3.bucket.put("chunk", bytes(CHUNK).collect::<Vec<_>>());
        for number in 0..FILLERS {
            s3.bucket.copy("chunk", &format!("fill/{number}"));
        }
        let (http, admin, home) = (free_addr(), free_addr(), tempfile::tempdir());
        let home = home.expect("a folder");
        let toml = configuration(&s3, http, admin, http_keys, sections);
        std::fs::write(home.path().join("tidegate.toml"), toml).expect("written");
        let log = File::create(home.path().join("log")).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["serve", "--config"]);
        command.arg(home.path().join("tidegate.toml"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.stderr(log).spawn().expect("it starts");
        let mut target = Self {
            http,
            admin,
            s3,
            home,
            child,
            _turn: turn,
        };
        target.ready().await;
        for numbers in (0..FILLERS).collect::<Vec<_>>().chunks(20) {
            let reads = numbers.iter().map(async |number| {
                let got = target.get(&format!("/fill/{number}"), &[]).await;
                assert_eq!(got.status, 200, "{}", target.log());
            });
            futures_util::future::join_all(reads).await;
        }
        target
    }

    async fn ready(&mut self) {
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(self.admin).await.is_err()
            || self.look("/readyz").await.status != 200
        {
            let ended = self.child.try_wait().expect("a child of ours");
            let late = begun.elapsed() > LONG;
            assert!(ended.is_none() && !late, "{ended:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Puts a text into the store.
    pub(crate) fn put_text(&self, key: &str, text: String) {
        let kind = [("content-type", "text/plain")];
        self.s3.bucket.put_with(key, text, &kind);
    }

    /// Returns everything that the program has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.path().join("log")).unwrap_or_default()
    }

    /// Sends a GET to the public listener, on a connection of its own.
    pub(crate) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Got {
        ask(self.http, Method::GET, path, headers).await
    }

    /// Sends a GET to the admin listener.
    pub(crate) async fn look(&self, path: &str) -> Got {
        ask(self.admin, Method::GET, path, &[]).await
    }

    /// Returns the sum of the samples whose name and labels contain each of `words`.
    pub(crate) async fn metric(&self, words: &[&str]) -> u64 {
        self.look("/metrics").await.metric(words)
    }

    /// Returns the peak memory of the process so far, in bytes (proc(5), `VmHWM`).
    pub(crate) fn peak(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).expect("it runs");
        let bytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
            let kib = kib.and_then(|kib| kib.trim().parse::<u64>().ok());
            kib.expect("a number of KiB") * 1024
        };
        // The file's pages only become more: at the peak they were no more than now.
        bytes("VmHWM:") - bytes("RssFile:").saturating_sub(PROGRAM)
    }

    /// Waits until the program has no public connection left, though the attacker closes none. Returns the time that
    /// took. How late a deadline may be noticed is tested under paused time, beside the deadlines.
    pub(crate) async fn quiet(&self) -> Duration {
        let begun = Instant::now();
        loop {
            let open = self.metric(&["tidegate_http_connections "]).await;
            if open == 0 {
                return begun.elapsed();
            }
            assert!(
                begun.elapsed() < LONG,
                "{open} connections live after {LONG:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(
    s3: &FakeS3,
    http: SocketAddr,
    admin: SocketAddr,
    http_keys: &str,
    sections: &str,
) -> String {
    let settings = s3.settings();
    let Credentials::Static {
        access_key_id,
        secret_access_key,
        ..
    } = &settings.credentials
    else {
        panic!("the store has a key");
    };
    let seconds = DEADLINE.as_secs();
    format!(
        "[http]\nlisten = \"{http}\"\nheader_timeout = \"{seconds}s\"\n\
         idle_timeout = \"{seconds}s\"\nwrite_timeout = \"{seconds}s\"\n{http_keys}\n\
         [admin]\nlisten = \"{admin}\"\n\
         [cache]\nmemory = \"64MiB\"\nbudget = \"64MiB\"\n\
         [[origin]]\nname = \"o\"\nbucket = \"{}\"\npath_style = true\nendpoint = \"{}\"\n\
         access_key_id = \"{access_key_id}\"\nsecret_access_key = \"{secret_access_key}\"\n\
         [profile.web]\nttl = \"1h\"\n{sections}\n",
        settings.bucket,
        settings.endpoint.as_ref().expect("an endpoint"),
    )
}
