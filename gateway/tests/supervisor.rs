//! The real program under a supervisor that wants to hear of it (`sd_notify(3)`).

use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[path = "support/door.rs"]
#[expect(dead_code, reason = "other suites let it hang")]
mod door;
#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[cfg(feature = "real-parts")]
#[path = "supervisor/mounts.rs"]
mod mounts;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod world;

use mount::blocking;
use serving::Serving;
use world::{World, sample};

const CONFIGURATION: &str = "[admin]\n[[origin]]\nname = \"o\"\nbucket = \"b\"\nendpoint = \"http://127.0.0.1:1\"\n\
     path_style = true\naccess_key_id = \"a\"\nsecret_access_key = \"b\"\n";

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// A supervisor. A thread takes its messages off the socket at any time, as a supervisor does: the queue of a socket is short,
/// and a program whose message does not fit into it waits.
struct Supervisor {
    _folder: TempDir,
    path: String,
    messages: Receiver<String>,
}

impl Supervisor {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        let (tell, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len) = socket.recv(&mut bytes) {
                let message = String::from_utf8_lossy(&bytes[..len]);
                if tell.send(message.trim_end().to_owned()).is_err() {
                    return;
                }
            }
        });
        Self {
            path: path.to_str().expect("text").to_owned(),
            _folder: folder,
            messages,
        }
    }

    fn receive(&self) -> String {
        self.messages.recv_timeout(LONG).expect("a message in time")
    }

    /// Returns once a status has come.
    async fn shows(self, status: &'static str) -> Self {
        let wanted = format!("STATUS={status}");
        blocking(move || {
            while self.receive() != wanted {}
            self
        })
        .await
    }
}

/// Returns the next message that is neither a sign of life nor a status.
fn next(supervisor: &Supervisor) -> String {
    loop {
        let message = supervisor.receive();
        if message != "WATCHDOG=1" && !message.starts_with("STATUS=") {
            return message;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_is_told_of_each_state() {
    let supervisor = Supervisor::new();
    let mut serving = Serving::configured(CONFIGURATION);
    let path = supervisor.path.clone();
    serving.launch(&[("NOTIFY_SOCKET", &path), ("WATCHDOG_USEC", "40000")]);
    let supervisor = blocking(move || {
        assert_eq!(next(&supervisor), "READY=1");
        supervisor
    })
    .await;
    serving.signal(Signal::HUP);
    let supervisor = blocking(move || {
        let reloading = next(&supervisor);
        let at = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
        let at = at.map(str::parse::<u64>).expect("the time of the reload");
        assert!(at.expect("a number") > 0);
        assert_eq!(next(&supervisor), "READY=1");
        // Two signs of life, without a question.
        for _ in 0..2 {
            while supervisor.receive() != "WATCHDOG=1" {}
        }
        supervisor
    })
    .await;
    serving.end().await;
    blocking(move || assert_eq!(next(&supervisor), "STOPPING=1")).await;
}

/// Its socket is full before the program starts, so no message can be sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_reads_nothing_stops_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let _unread = UnixDatagram::bind(&path).expect("bound");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("set");
    while filler.send_to(b"STATUS=full", &path).is_ok() {}
    let path = path.to_str().expect("text");
    let mut serving = Serving::configured(CONFIGURATION);
    serving.launch(&[("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", "20000")]);
    let listens = async {
        while TcpStream::connect(serving.admin).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, listens).await.expect("in time");
    for _ in 0..3 {
        serving.signal(Signal::HUP);
        assert_eq!(serving.look("/healthz").await.status, 200);
    }
    serving.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_is_shown_what_a_drain_waits_for() {
    let supervisor = Supervisor::new();
    let world = World::new().await;
    world.put("large.bin", &sample(64 << 20, 1)).await;
    let mut serving = Serving::configured(&world.config(""));
    serving.launch(&[("NOTIFY_SOCKET", &supervisor.path)]);
    let supervisor = supervisor.shows("serving").await;
    // A reader that takes no more than the head.
    let mut reader = TcpStream::connect(serving.http).await.expect("listening");
    let head = b"GET /large.bin HTTP/1.1\r\nhost: t\r\n\r\n";
    reader.write_all(head).await.expect("sent");
    reader.read_exact(&mut [0; 100]).await.expect("an answer");
    serving.signal(Signal::TERM);
    supervisor.shows("draining: 1 request left").await;
    let answer = serving.look("/readyz").await;
    let lines = "draining: the process is shutting down\ndraining: 1 request left\n";
    assert_eq!((answer.status, answer.text()), (503, lines.to_owned()));
    drop(reader);
    serving.ended().await;
}

/// A disk that hangs keeps a reload waiting for the configuration; here a pipe without a writer does.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_during_a_reload_that_waits() {
    let supervisor = Supervisor::new();
    let mut serving = Serving::configured(CONFIGURATION);
    serving.launch(&[("NOTIFY_SOCKET", &supervisor.path)]);
    let supervisor = blocking(move || {
        assert_eq!(next(&supervisor), "READY=1");
        supervisor
    })
    .await;
    let config = serving.config();
    std::fs::remove_file(&config).expect("there");
    mknodat(CWD, &config, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
    serving.signal(Signal::HUP);
    let supervisor = blocking(move || {
        let reloading = next(&supervisor);
        assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
        supervisor
    })
    .await;
    serving.signal(Signal::TERM);
    blocking(move || assert_eq!(next(&supervisor), "STOPPING=1")).await;
    serving.ended().await;
}
