//! The real program under a supervisor that wants to hear of it (`sd_notify(3)`).

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

#[path = "support/gateway.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod gateway;
#[path = "support/mount.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod mount;
#[path = "support/ports.rs"]
mod ports;
#[path = "support/serving.rs"]
#[expect(dead_code, reason = "other suites ask more of it")]
mod serving;

use serving::Serving;

const CONFIGURATION: &str = "[admin]\n[[origin]]\nname = \"o\"\nbucket = \"b\"\nendpoint = \"http://127.0.0.1:1\"\n\
     path_style = true\naccess_key_id = \"a\"\nsecret_access_key = \"b\"\n";

/// Returns the next message that is no sign of life, and the number of those before it.
fn next(socket: &UnixDatagram) -> (String, usize) {
    let mut alive = 0;
    loop {
        let mut bytes = [0; 4096];
        let len = socket.recv(&mut bytes).expect("a message in time");
        let text = String::from_utf8_lossy(&bytes[..len]).into_owned();
        match text.trim_end() {
            "WATCHDOG=1" => alive += 1,
            text => return (text.to_owned(), alive),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_is_told_of_each_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    let long = Some(Duration::from_secs(60));
    socket.set_read_timeout(long).expect("a timeout");
    let mut serving = Serving::configured(CONFIGURATION);
    let path = path.to_str().expect("text");
    serving.launch(&[("NOTIFY_SOCKET", path), ("WATCHDOG_USEC", "40000")]);
    let told = tokio::task::spawn_blocking(move || {
        assert_eq!(next(&socket).0, "READY=1");
        socket
    });
    let socket = told.await.expect("ready");
    serving.signal(Signal::HUP);
    let told = tokio::task::spawn_blocking(move || {
        let (reloading, _) = next(&socket);
        let at = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=");
        let at = at.map(str::parse::<u64>).expect("the time of the reload");
        assert!(at.expect("a number") > 0);
        assert_eq!(next(&socket).0, "READY=1");
        // Two signs of life, without a question.
        for _ in 0..2 {
            let mut bytes = [0; 64];
            let len = socket.recv(&mut bytes).expect("a sign of life");
            assert_eq!(&bytes[..len], b"WATCHDOG=1\n");
        }
        socket
    });
    let socket = told.await.expect("reloaded");
    serving.end().await;
    let told = tokio::task::spawn_blocking(move || assert_eq!(next(&socket).0, "STOPPING=1"));
    told.await.expect("stopped");
}

/// A disk that hangs keeps a reload waiting for the configuration; here a pipe without a writer does.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_it_during_a_reload_that_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    let long = Some(Duration::from_secs(60));
    socket.set_read_timeout(long).expect("a timeout");
    let mut serving = Serving::configured(CONFIGURATION);
    serving.launch(&[("NOTIFY_SOCKET", path.to_str().expect("text"))]);
    let told = tokio::task::spawn_blocking(move || {
        assert_eq!(next(&socket).0, "READY=1");
        socket
    });
    let socket = told.await.expect("ready");
    let config = serving.config();
    std::fs::remove_file(&config).expect("there");
    mknodat(CWD, &config, FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
    serving.signal(Signal::HUP);
    let told = tokio::task::spawn_blocking(move || {
        let (reloading, _) = next(&socket);
        assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
        socket
    });
    let socket = told.await.expect("it reloads");
    serving.signal(Signal::TERM);
    let told = tokio::task::spawn_blocking(move || assert_eq!(next(&socket).0, "STOPPING=1"));
    told.await.expect("it stops");
    serving.ended().await;
}
