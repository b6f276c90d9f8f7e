//! Sockets that a supervisor hands over (`sd_listen_fds(3)`): connections outlive a process that did not answer them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use loadtest::child::handed_over;
use tempfile::TempDir;

#[path = "support/killed.rs"]
mod killed;

use killed::Killed;

/// Timeout of a test's waits; only a failure waits so long.
const LONG: Duration = Duration::from_secs(300);

/// Starts `tidegate serve` with a configuration that listens on `http`, in a folder of its own.
fn start(dir: &TempDir, http: &str, handed: OwnedFd) -> Killed {
    let at = |name: &str| dir.path().join(name).display().to_string();
    let toml = format!(
        "[http]\nlisten = \"{http}\"\n[admin]\nlisten = \"unix:{}\"\n[state]\npath = \"{}\"\n\
         [[origin]]\nname = \"none\"\nbucket = \"none\"\nendpoint = \"http://127.0.0.1:9\"\n\
         access_key_id = \"a\"\nsecret_access_key = \"b\"\n",
        at("admin.sock"),
        at("state")
    );
    let file = dir.path().join("tidegate.toml");
    std::fs::write(&file, toml).expect("written");
    let mut command = handed_over(Path::new(env!("CARGO_BIN_EXE_tidegate")));
    command.arg("serve").arg("--config").arg(file).stdin(handed);
    let piped = command.stdout(Stdio::null()).stderr(Stdio::piped());
    Killed(piped.spawn().expect("sh"))
}

/// Returns the errors of a gateway that does not start.
fn refusal(mut gateway: Killed) -> String {
    let mut errors = String::new();
    let piped = gateway.0.stderr.take();
    piped
        .expect("piped")
        .read_to_string(&mut errors)
        .expect("text");
    assert_eq!(gateway.0.wait().expect("it ends").code(), Some(1));
    errors
}

fn connect(address: &TcpListener) -> TcpStream {
    let address = address.local_addr().expect("bound");
    let mut client = TcpStream::connect(address).expect("it listens");
    client.set_read_timeout(Some(LONG)).expect("set");
    let request = b"GET /object HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    client.write_all(request).expect("sent");
    client
}

fn is_answered(mut client: TcpStream) {
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
}

#[test]
fn connections_wait_for_the_next_process() {
    let dir = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    for _ in 0..2 {
        // No process runs: the connection exists, and its request waits.
        let early = connect(&listener);
        let handed = listener.try_clone().expect("a descriptor");
        let gateway = start(&dir, &address, handed.into());
        is_answered(early);
        is_answered(connect(&listener));
        drop(gateway);
    }
}

#[test]
fn the_file_of_a_socket_that_was_handed_over_stays() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("http.sock");
    let listener = UnixListener::bind(&path).expect("free");
    let handed = listener.try_clone().expect("a descriptor");
    let mut gateway = start(&dir, &format!("unix:{}", path.display()), handed.into());
    let mut client = UnixStream::connect(&path).expect("it listens");
    client.set_read_timeout(Some(LONG)).expect("set");
    client
        .write_all(b"GET /object HTTP/1.0\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1."), "{answer}");
    // An orderly stop, so that the process clears away its own files.
    let ended = Command::new("kill")
        .arg(gateway.0.id().to_string())
        .status();
    assert!(ended.expect("kill").success());
    assert_eq!(gateway.0.wait().expect("it ends").code(), Some(0));
    assert!(!dir.path().join("admin.sock").exists());
    assert!(Path::new(&path).exists());
}

#[test]
fn a_socket_that_has_no_use_ends_the_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let handed = listener.try_clone().expect("a descriptor");
    let said = refusal(start(&dir, "127.0.0.1:0", handed.into()));
    let named =
        format!("listens on {address}, which neither `http.listen` nor `admin.listen` names");
    assert!(said.contains(&named), "{said}");
    // A connection, as systemd hands it over with `Accept=yes`.
    let client = TcpStream::connect(address).expect("it listens");
    let said = refusal(start(&dir, "127.0.0.1:0", client.into()));
    assert!(
        said.contains("descriptor 3: ") && said.contains("Accept=no"),
        "{said}"
    );
}
