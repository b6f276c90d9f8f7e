//! A proxy in front of a bucket that holds changes of names: copies and deletions. The gateway behind it then waits in the
//! middle of a rename for as long as a test needs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::bucket::Bucket;
use crate::desk::{LONG, behind};
use crate::minio::Minio;

/// A gate, open at first.
#[derive(Debug)]
pub(crate) struct Gate {
    address: SocketAddr,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Counts {
    /// The number of further changes that are passed on.
    left: AtomicU64,
    /// Whether uploads are held as well.
    holds_uploads: AtomicBool,
    /// Whether the first change that is held is made, and only its answer is held.
    makes_first: AtomicBool,
    /// The number of changes that are held.
    held: watch::Sender<u64>,
    is_open: watch::Sender<bool>,
}

impl Gate {
    /// Opens a gate to `server`.
    async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let counts = Arc::new(Counts {
            left: AtomicU64::new(u64::MAX),
            holds_uploads: AtomicBool::new(false),
            makes_first: AtomicBool::new(false),
            held: watch::channel(0).0,
            is_open: watch::channel(true).0,
        });
        let seen = counts.clone();
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.expect("accepts");
                tokio::spawn(pass(client, server, seen.clone()));
            }
        });
        Self {
            address,
            counts,
            task,
        }
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes `count` further changes on. Those after them are held until the gate opens; with `makes_first` the bucket makes
    /// the first of them, and its answer is held for good.
    pub(crate) fn hold_after(&self, count: u64, makes_first: bool) {
        self.counts.is_open.send_replace(false);
        self.counts.makes_first.store(makes_first, Ordering::SeqCst);
        self.counts.left.store(count, Ordering::SeqCst);
        self.counts.held.send_replace(0);
    }

    /// Holds all further changes, and uploads with them, until the gate opens.
    pub(crate) fn hold_uploads(&self) {
        self.counts.holds_uploads.store(true, Ordering::SeqCst);
        self.hold_after(0, false);
    }

    /// Waits until a change is held.
    pub(crate) async fn holds(&self) {
        let mut held = self.counts.held.subscribe();
        let one = held.wait_for(|held| *held > 0);
        let _ = timeout(LONG, one).await.expect("a change in time");
    }

    /// Passes all changes on from now on, also those that are held.
    pub(crate) fn open(&self) {
        self.counts.left.store(u64::MAX, Ordering::SeqCst);
        self.counts.is_open.send_replace(true);
    }
}

/// Starts a MinIO behind a gate.
pub(crate) async fn behind_a_gate() -> (Minio, Bucket, Gate, tidegate_origin::Settings) {
    behind(async |server| {
        let gate = Gate::to(server).await;
        (gate.address(), gate)
    })
    .await
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Counts {
    /// Returns whether a change is held.
    fn holds_one(&self) -> bool {
        let less = |left: u64| match left {
            u64::MAX => Some(left),
            left => left.checked_sub(1),
        };
        let counted = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        counted.is_err()
    }
}

/// Passes the requests of one connection on, over one connection to the server.
async fn pass(client: TcpStream, server: SocketAddr, counts: Arc<Counts>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let Ok((sender, connection)) = handshake(TokioIo::new(server)).await else {
        return;
    };
    let sender = Arc::new(Mutex::new(sender));
    let service = service_fn(|request| answer(sender.clone(), counts.clone(), request));
    let served = Builder::new().serve_connection(TokioIo::new(client), service);
    // The one that ends first ends the other.
    tokio::select! {
        _ = served => {}
        _ = connection => {}
    }
}

async fn answer(
    sender: Arc<Mutex<SendRequest<Incoming>>>,
    counts: Arc<Counts>,
    request: Request<Incoming>,
) -> hyper::Result<Response<Incoming>> {
    let copies = request.headers().contains_key("x-amz-copy-source");
    let uploads = request.method() == Method::PUT && counts.holds_uploads.load(Ordering::SeqCst);
    let is_change = copies || uploads || request.method() == Method::DELETE;
    if is_change && counts.holds_one() {
        if counts.makes_first.swap(false, Ordering::SeqCst) {
            sender.lock().await.send_request(request).await?;
            counts.held.send_modify(|held| *held += 1);
            return std::future::pending().await;
        }
        counts.held.send_modify(|held| *held += 1);
        let _ = counts.is_open.subscribe().wait_for(|open| *open).await;
    }
    sender.lock().await.send_request(request).await
}
