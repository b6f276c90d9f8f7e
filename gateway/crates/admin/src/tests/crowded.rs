//! More clients than slots. On a Unix socket, so that the paused clock sees each byte at once.

use std::time::Duration;

use tokio::time::Instant;

use super::*;

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Clients whose slots are all taken, and the time that the next one waits for its answer.
async fn next_waits(listener: Listener, clients: &mut Vec<UnixStream>, sent: &[u8]) -> Duration {
    let t = start_on(listener, None);
    let path = t.address.strip_prefix("unix:").expect("a Unix socket");
    for _ in 0..listen::MAX_CONNECTIONS {
        let mut io = UnixStream::connect(path).await.expect("connects");
        io.write_all(sent).await.expect("sends");
        if sent == REQUEST {
            ok(&mut io).await;
        }
        clients.push(io);
    }
    let begun = Instant::now();
    assert_eq!(t.status("GET /healthz", "", "").await, 200);
    begun.elapsed()
}

/// Reads a whole answer of `/healthz`.
async fn ok(io: &mut UnixStream) {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nok\n") {
        let read = io.read_buf(&mut answer).await.expect("reads");
        assert_ne!(read, 0, "it ended");
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

async fn listener(folder: &tempfile::TempDir) -> Listener {
    let address = Listen::Unix(folder.path().join("admin.sock"));
    Listener::bind(&address, 0o600).await.expect("binds")
}

#[tokio::test(start_paused = true)]
async fn idle_connections_give_way_to_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut clients = Vec::new();
    let waited = next_waits(listener(&folder).await, &mut clients, REQUEST).await;
    assert!(waited <= Duration::from_secs(2), "{waited:?}");
    let mut rest = Vec::new();
    clients[0].read_to_end(&mut rest).await.expect("in order");
    assert!(rest.is_empty());
    for kept in &mut clients[2..] {
        kept.write_all(REQUEST).await.expect("sends");
        ok(kept).await;
    }
}

#[tokio::test(start_paused = true)]
async fn connections_without_a_whole_head_give_way_to_a_new_one() {
    for sent in [&b""[..], b"GET /healthz HTTP/1.1\r\nho"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut clients = Vec::new();
        let waited = next_waits(listener(&folder).await, &mut clients, sent).await;
        assert!(waited <= Duration::from_secs(2), "{waited:?}");
        for kept in &mut clients[2..] {
            let rest = &REQUEST[sent.len()..];
            kept.write_all(rest).await.expect("sends");
            ok(kept).await;
        }
    }
}
