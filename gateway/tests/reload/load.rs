//! The load under which a gateway is reloaded: readers with a connection for each request, with connections that they keep,
//! over TLS with HTTP/2, and of a mount, if there is one. Each compares every answer, and none may fail.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::fs::{Advice, fadvise};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::authority::connect;
use crate::world::sample;
use crate::{LONG, SIZE, read_on};

/// The objects that are read, `o/0` and so on.
pub(super) const OBJECTS: usize = 4;

/// The requests of one connection that is kept: reloads have it live under several configurations.
const OF_CONNECTION: usize = 200;

/// The requests of a connection of HTTP/2 that are under way at once.
const STREAMS: usize = 4;

/// The places at which the objects are read.
pub(super) struct Places {
    /// The listener without TLS.
    pub(super) plain: SocketAddr,
    /// The listener with TLS.
    pub(super) encrypted: SocketAddr,
    /// The folder of the objects on the mount, if there is one.
    pub(super) folder: Option<PathBuf>,
    /// A client that trusts the certificates, and speaks HTTP/2 alone.
    pub(super) client: Arc<ClientConfig>,
}

/// Readers that go on until they are stopped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    readers: Vec<(&'static str, JoinHandle<usize>)>,
}

impl Load {
    pub(super) fn start(places: Places) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut readers = Vec::new();
        for reader in 0..2 {
            let one = read_on(places.plain, stop.clone(), reader);
            readers.push(("connections of one request", tokio::spawn(one)));
            let kept = read_kept(places.plain, stop.clone());
            readers.push(("connections that are kept", tokio::spawn(kept)));
            let place = (places.encrypted, places.client.clone());
            let encrypted = read_encrypted(place, stop.clone());
            readers.push(("TLS with HTTP/2", tokio::spawn(encrypted)));
        }
        if let Some(folder) = places.folder {
            let told = stop.clone();
            let mounted = tokio::task::spawn_blocking(move || read_mount(&folder, &told));
            readers.push(("files of the mount", mounted));
        }
        Self { stop, readers }
    }

    /// Stops the readers, and returns the number of answers of each kind: none has failed.
    pub(super) async fn stop(mut self) -> BTreeMap<&'static str, usize> {
        self.stop.store(true, Ordering::Relaxed);
        let mut read = BTreeMap::new();
        for (kind, reader) in std::mem::take(&mut self.readers) {
            let own = reader.await.expect(kind);
            assert!(own > 0, "{kind}");
            *read.entry(kind).or_default() += own;
        }
        read
    }
}

impl Drop for Load {
    /// Also where a test has failed: its threads end with it.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn is_told(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

fn request(host: &str, n: usize) -> Request<Empty<Bytes>> {
    let request = Request::get(format!("{host}/o/{n}"));
    let request = match host {
        "" => request.header("host", "a.example"),
        _ => request,
    };
    request.body(Empty::new()).expect("a request")
}

/// Waits for an answer, which is the whole object.
async fn is_right<B>(answer: impl Future<Output = hyper::Result<http::Response<B>>>, n: usize)
where
    B: http_body::Body<Data = Bytes, Error = hyper::Error>,
{
    let answered = async {
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect().await.expect("a whole body");
        assert!(body.to_bytes() == sample(SIZE, n), "{n}: wrong bytes");
    };
    timeout(LONG, answered).await.expect("in time");
}

/// Reads over connections of HTTP/1.1 for many requests each.
async fn read_kept(address: SocketAddr, stop: Arc<AtomicBool>) -> usize {
    let mut read = 0;
    while !is_told(&stop) {
        let stream = TcpStream::connect(address).await.expect("listening");
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.expect("a connection");
        let connection = tokio::spawn(connection);
        let until = read + OF_CONNECTION;
        while read < until && !is_told(&stop) {
            sender.ready().await.expect("the connection stays");
            let n = read % OBJECTS;
            is_right(sender.send_request(request("", n)), n).await;
            read += 1;
        }
        connection.abort();
    }
    read
}

/// Reads over connections of HTTP/2 with TLS, some objects of each at once.
async fn read_encrypted(
    (address, client): (SocketAddr, Arc<ClientConfig>),
    stop: Arc<AtomicBool>,
) -> usize {
    let mut read = 0;
    while !is_told(&stop) {
        let stream = connect(address, &client, "a.example").await.expect("TLS");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.expect("a connection");
        let connection = tokio::spawn(connection);
        let until = read + OF_CONNECTION;
        while read < until && !is_told(&stop) {
            let streams = (0..STREAMS).map(|stream| {
                let (mut sender, n) = (sender.clone(), (read + stream) % OBJECTS);
                let answer = sender.send_request(request("https://a.example", n));
                is_right(answer, n)
            });
            join_all(streams).await;
            read += STREAMS;
        }
        connection.abort();
    }
    read
}

/// Reads the files of a mount, past what the kernel has of them.
fn read_mount(folder: &Path, stop: &AtomicBool) -> usize {
    let mut read = 0;
    while !is_told(stop) {
        let n = read % OBJECTS;
        let mut file = File::open(folder.join(n.to_string())).expect("it opens");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("read to its end");
        assert!(bytes == sample(SIZE, n), "{n}: wrong bytes");
        fadvise(&file, 0, None, Advice::DontNeed).expect("a file");
        read += 1;
    }
    read
}
