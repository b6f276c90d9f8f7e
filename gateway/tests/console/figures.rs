//! Figures of the console, measured. They are run by hand (`just figures`). Bytes and counts are judged; times are printed
//! with their targets, for a time on a shared machine proves nothing.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tidegate::app::Sockets;
use tidegate_socket::Listener;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, sleep};

use super::admission::log_in;
use super::{AUTH, Whole, World, api, ask, configuration, page_at, sample};

/// The targets: times, and bytes of a page over the wire.
const FIRST_SCREEN: Duration = Duration::from_millis(500);
const LISTING: Duration = Duration::from_millis(50);
const MAX_BYTES: usize = 100_000;

const KEYS: usize = 100_000;
const READERS: usize = 2000;

/// Answers a listing of a folder of so many keys after 20 ms, and every other request with 404. Counts the listings.
async fn bucket(
    request: Request<Incoming>,
    listings: Arc<AtomicUsize>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    sleep(Duration::from_millis(20)).await;
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("list-type=2") {
        let missing = Response::builder().status(404).body(Full::default());
        return Ok(missing.expect("an answer"));
    }
    listings.fetch_add(1, Ordering::Relaxed);
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
    let after = value("continuation-token=").or_else(|| value("start-after="));
    let digits = |text: &str| {
        text.chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
    };
    let first = after.map_or(0, |after| {
        digits(after.rsplit('k').next().unwrap_or_default())
            .parse()
            .map_or(0, |n: usize| n + 1)
    });
    let most = value("max-keys=")
        .and_then(|most| most.parse().ok())
        .unwrap_or(1000);
    let last = KEYS.min(first + most);
    let mut text = String::from("<?xml version=\"1.0\"?><ListBucketResult><Name>b</Name>");
    for n in first..last {
        let _ = write!(
            text,
            "<Contents><Key>o/k{n:06}</Key><LastModified>2026-11-01T00:00:00.000Z</LastModified>\
             <ETag>\"e{n}\"</ETag><Size>1000</Size></Contents>"
        );
    }
    let more = last < KEYS;
    let _ = write!(
        text,
        "<IsTruncated>{more}</IsTruncated><KeyCount>{}</KeyCount>",
        last - first
    );
    if more {
        let _ = write!(
            text,
            "<NextContinuationToken>k{:06}</NextContinuationToken>",
            last - 1
        );
    }
    text.push_str("</ListBucketResult>");
    Ok(Response::new(Full::from(text)))
}

/// Starts the bucket; returns its address and the count of its listings.
async fn slow_bucket() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let listings = Arc::<AtomicUsize>::default();
    let counted = listings.clone();
    tokio::spawn(async move {
        while let Ok((io, _)) = listener.accept().await {
            let listings = counted.clone();
            let service = service_fn(move |request| bucket(request, listings.clone()));
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(io), service));
        }
    });
    (address, listings)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: `just figures`"]
async fn figures_of_a_folder_of_100_000_keys() {
    let (address, listings) = slow_bucket().await;
    let gateway = Whole::start(&format!(
        "[admin]\ntoken = \"t0ken-of-the-tests\"\n[[origin]]\nname = \"media\"\nbucket = \"b\"\n\
         endpoint = \"http://{address}\"\npath_style = true\naccess_key_id = \"id\"\nsecret_access_key = \"secret\"\n"
    ))
    .await;
    let (cookie, _) = log_in(&gateway).await;
    let before = listings.load(Ordering::Relaxed);
    let listed = || listings.load(Ordering::Relaxed) - before;
    let begun = Instant::now();
    let page = page_at(gateway.admin, "/console/objects?path=/o/", &cookie).await;
    let first = begun.elapsed();
    assert_eq!(listed(), 1, "a screen costs one request to the bucket");
    assert!(
        page.contains("k000049") && page.contains("Next page"),
        "{page}"
    );
    let headers = [("cookie", &*cookie), ("accept-encoding", "gzip")];
    let path = "/console/objects?path=/o/";
    let bytes = ask(gateway.admin, Method::GET, path, &headers)
        .await
        .body
        .len();
    assert!(bytes <= MAX_BYTES, "{bytes} bytes");
    let of_screens = listed();
    let mut path = "/api/v1/objects?path=/o/&limit=500".to_owned();
    let begun = Instant::now();
    let mut seen = 0;
    for _ in 0..20 {
        let first = format!("k{seen:06}");
        let page = api(&gateway, &path).await;
        assert_eq!(page["names"][0]["name"], first, "no name is left out");
        seen += page["names"].as_array().map_or(0, Vec::len);
        let next = page["next"].as_str().expect("there is more");
        path = format!("/api/v1/objects?path=/o/&limit=500&page={next}");
    }
    println!(
        "first screen of {KEYS} keys over 20 ms: {first:?} (target {FIRST_SCREEN:?}), {bytes} bytes (target {MAX_BYTES}); \
         20 pages of 500: {:?}, {seen} names",
        begun.elapsed()
    );
    // A page is of one listing, so the last one of a listing may be short.
    assert!(seen > 9900, "{seen} names");
    let of_pages = listed() - of_screens;
    assert!(
        of_pages <= 20,
        "{of_pages} listings: one for each page at most"
    );
    gateway.stop().await;
}

/// Listens with small send buffers, so that answers wait in the gateway rather than in the kernel. The buffers that the kernel
/// would give to 2,000 readers are 2 GB: more than this machine's TCP may have, so that each of its connections would wait
/// for retransmissions (tcp(7), `tcp_mem`).
fn listen_with_small_buffers() -> Listener {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_send_buffer_size(64 << 10).expect("set");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(any).expect("a free port");
    let listener = socket.listen(1024).expect("it listens");
    let listener = listener.into_std().expect("a socket");
    Listener::from_std(listener).expect("a socket")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures: `just figures`"]
async fn figures_of_2_000_readers() {
    let world = World::new().await;
    world.put("large.bin", &sample(32 << 20, 1)).await;
    // Its readers take nothing meanwhile.
    let patient = format!("{}[http]\nwrite_timeout = \"10m\"\n", configuration(&world));
    let exchange = |sockets: &mut Sockets| sockets.http = vec![listen_with_small_buffers()];
    let gateway = Whole::try_start_with(&patient, exchange).await;
    let gateway = gateway.expect("it starts");
    gateway.ready().await;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("set");
        let mut io = socket.connect(gateway.http).await.expect("listening");
        io.write_all(b"GET /large.bin HTTP/1.1\r\nhost: t\r\n\r\n")
            .await
            .expect("sent");
        let mut first = [0; 100];
        io.read_exact(&mut first).await.expect("an answer");
        readers.push(io);
    }
    let alone = longest_gap(gateway.http, sleep(Duration::from_secs(4))).await;
    let times = Arc::new(Mutex::new(Vec::new()));
    let beside = longest_gap(gateway.http, listings(gateway.admin, times.clone())).await;
    let mut times = times.lock().expect("not poisoned").clone();
    times.sort();
    println!(
        "/api/v1/streams with {READERS} readers: median {:?}, at most {:?} (target {LISTING:?}); longest gap of one that takes 3 MB/s: \
         {alone:?} alone, {beside:?} beside it",
        times[10], times[19]
    );
    drop(readers);
    gateway.stop().await;
}

/// Lists the streams 20 times, five times a second, and notes the time of each.
async fn listings(admin: SocketAddr, times: Arc<Mutex<Vec<Duration>>>) {
    for _ in 0..20 {
        let begun = Instant::now();
        let got = ask(admin, Method::GET, "/api/v1/streams", &[AUTH]).await;
        times.lock().expect("not poisoned").push(begun.elapsed());
        let list: serde_json::Value = serde_json::from_slice(&got.body).expect("JSON");
        assert!(list["streams"].as_array().map(Vec::len) >= Some(READERS));
        sleep(Duration::from_millis(200)).await;
    }
}

/// Returns the longest time for which a reader that takes 64 KiB each 20 ms waited for bytes, until `end`.
async fn longest_gap(http: SocketAddr, end: impl Future<Output = ()>) -> Duration {
    let mut io = TcpStream::connect(http).await.expect("listening");
    io.write_all(b"GET /large.bin HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")
        .await
        .expect("sent");
    let mut longest = Duration::ZERO;
    let mut piece = vec![0; 64 << 10];
    let read = async {
        loop {
            let begun = Instant::now();
            io.read_exact(&mut piece).await.expect("more than it takes");
            longest = longest.max(begun.elapsed());
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = read => {}
        () = end => {}
    }
    longest
}
