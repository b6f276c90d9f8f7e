//! Live parts: sent as they change, to a bounded number of readers.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::admission::log_in;
use super::{LARGE, LONG, SlowReader, Whole, World, post, sample, started};

/// Readers at once.
const MAX_READERS: usize = 32;

/// Asks for a live part; returns the connection and the status.
async fn listen(gateway: &Whole, cookie: &str) -> (TcpStream, u16) {
    listen_to(gateway.admin, "now", cookie).await
}

/// Asks an admin listener for the live part of a section; returns the connection and the status.
pub(super) async fn listen_to(admin: SocketAddr, section: &str, cookie: &str) -> (TcpStream, u16) {
    let mut io = TcpStream::connect(admin).await.expect("listening");
    let head = format!(
        "GET /console/live?section={section} HTTP/1.1\r\nhost: {admin}\r\ncookie: {cookie}\r\n\r\n"
    );
    io.write_all(head.as_bytes()).await.expect("sent");
    let mut line = [0; 12];
    io.read_exact(&mut line).await.expect("an answer");
    let status = std::str::from_utf8(&line[9..]).expect("text");
    (io, status.parse().expect("a status"))
}

/// Reads until `text` has come; returns all that came.
pub(super) async fn read_until(io: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    let read = async {
        while !String::from_utf8_lossy(&all).contains(text) {
            let more = io.read_buf(&mut all).await.expect("open");
            assert!(more > 0, "it ended: {}", String::from_utf8_lossy(&all));
        }
    };
    timeout(LONG, read).await.expect("in time");
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_are_bounded_and_each_gets_what_changes() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    let mut readers = Vec::new();
    for _ in 0..MAX_READERS {
        let (io, status) = listen(&gateway, &cookie).await;
        assert_eq!(status, 200);
        readers.push(io);
    }
    assert_eq!(listen(&gateway, &cookie).await.1, 503, "one too many");
    for io in [0, MAX_READERS - 1] {
        read_until(&mut readers[io], "data: ").await;
        read_until(&mut readers[io], "tiles").await;
    }
    readers.truncate(1);
    let again = async {
        while listen(&gateway, &cookie).await.1 != 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, again).await.expect("their places are free");
    let (mut stranger, status) = listen(&gateway, "tidegate-session=0").await;
    assert_eq!(status, 303);
    drop(stranger.shutdown().await);
    gateway.stop().await;
    read_until_end(&mut readers[0]).await;
}

/// Reads to the end of the connection: the gateway does not wait for a live part when it stops.
async fn read_until_end(io: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = timeout(LONG, io.read_to_end(&mut rest)).await;
    let _ = read.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_gets_at_once_what_others_know_already() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    // Nothing of this section changes while the test runs.
    let (mut first, _) = listen_to(gateway.admin, "events", &cookie).await;
    read_until(&mut first, "not proven").await;
    let (mut second, _) = listen_to(gateway.admin, "events", &cookie).await;
    read_until(&mut second, "not proven").await;
    drop((first, second));
    let (mut again, _) = listen_to(gateway.admin, "events", &cookie).await;
    read_until(&mut again, "not proven").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn charts_are_an_event_of_their_own() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    let (mut io, _) = listen(&gateway, &cookie).await;
    let text = read_until(&mut io, "The last day").await;
    let (figures, charts) = text.split_once("event: charts\ndata: ").expect("both");
    assert!(figures.contains("tiles") && charts.starts_with("<h2>The last hour"));
    // Figures and charts may come at once, each as an event.
    let more = read_until(&mut io, "tiles").await;
    let events = more.split("\n\n").filter(|event| event.contains("tiles"));
    for event in events {
        assert!(!event.contains("The last hour"), "{more}");
    }
    assert_eq!(listen_to(gateway.admin, "charts", &cookie).await.1, 400);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_part_ends_with_its_session() {
    let world = World::new().await;
    let gateway = started(&world).await;
    let (cookie, csrf) = log_in(&gateway).await;
    let (other, _) = log_in(&gateway).await;
    let (mut io, _) = listen_to(gateway.admin, "events", &cookie).await;
    let (mut stays, _) = listen_to(gateway.admin, "now", &other).await;
    read_until(&mut io, "not proven").await;
    let fields = format!("csrf={csrf}");
    let got = post(&gateway, "/console/logout", &cookie, &fields).await;
    assert_eq!(got.status, 303);
    read_until(&mut io, "\r\n0\r\n\r\n").await;
    read_until(&mut stays, "tiles").await;
    read_until(&mut stays, "tiles").await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_page_shows_the_drain_and_ends_with_it() {
    let world = World::new().await;
    world.put("large.bin", &sample(LARGE, 1)).await;
    let gateway = started(&world).await;
    let (cookie, _) = log_in(&gateway).await;
    let reader = SlowReader::start(&gateway, "/large.bin").await;
    let (mut page, _) = listen(&gateway, &cookie).await;
    read_until(&mut page, "tiles").await;
    let admin = gateway.admin;
    let stopping = tokio::spawn(gateway.stop());
    read_until(&mut page, "draining: 1 request left").await;
    let (mut late, status) = listen_to(admin, "now", &cookie).await;
    assert_eq!(status, 200);
    read_until(&mut late, "draining: 1 request left").await;
    assert!(!stopping.is_finished(), "a reader is still served");
    assert!(reader.rest().await > LARGE, "to its end");
    for io in [&mut page, &mut late] {
        read_until(io, "\r\n0\r\n\r\n").await;
    }
    let stopped = timeout(LONG, stopping).await.expect("in time");
    stopped.expect("it has stopped");
}
