//! A bare handler: hyper with bodies in memory, and nothing else. It is the floor of what an answer costs in Tidegate's
//! process model, which is a shared runtime of one thread a processor; and of the other model that ADR 0007 weighs, a
//! runtime and a socket for each processor.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime;

pub mod disk;

type Files = HashMap<String, Bytes>;

/// Connections that wait to be accepted, as tokio has them.
const BACKLOG: u32 = 1024;

/// Serves the files of the folder `root`, read at the start, until the process ends.
///
/// # Errors
/// If a file cannot be read, or `addr` is taken.
pub async fn serve(addr: SocketAddr, root: &Path) -> Result<()> {
    accept(TcpListener::bind(addr).await?, Arc::new(read(root)?)).await
}

/// Does the same with a runtime of one thread for each processor, each with a socket of its own.
///
/// # Errors
/// Those of [`serve`], and if a thread or a runtime does not start.
pub fn serve_per_core(addr: SocketAddr, root: &Path) -> Result<()> {
    let files = Arc::new(read(root)?);
    let mut threads = Vec::new();
    for _ in 0..thread::available_parallelism()?.get() {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let files = files.clone();
        let serve = async move {
            let socket = TcpSocket::new_v4()?;
            socket.set_reuseaddr(true)?;
            socket.set_reuseport(true)?;
            socket.bind(addr)?;
            accept(socket.listen(BACKLOG)?, files).await
        };
        threads.push(thread::Builder::new().spawn(move || runtime.block_on(serve))?);
    }
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow!("a thread has panicked"))??;
    }
    Ok(())
}

async fn accept(listener: TcpListener, files: Arc<Files>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let files = files.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request: Request<Incoming>| {
                let answer = answer(&files, request.uri().path());
                async { Ok::<_, Infallible>(answer) }
            });
            // A client that leaves ends its connection with an error.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}

fn read(root: &Path) -> Result<Files> {
    let mut files = Files::new();
    for entry in std::fs::read_dir(root)? {
        let file = entry?.path();
        let name = file.file_name().context("an entry has a name")?;
        let path = format!("/{}", name.to_string_lossy());
        files.insert(path, std::fs::read(&file)?.into());
    }
    Ok(files)
}

fn answer(files: &Files, path: &str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    if let Some(body) = files.get(path) {
        let kind = HeaderValue::from_static("application/octet-stream");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        *answer.body_mut() = Full::new(body.clone());
    } else {
        *answer.status_mut() = StatusCode::NOT_FOUND;
    }
    answer
}
