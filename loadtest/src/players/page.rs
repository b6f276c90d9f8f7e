//! The page in which Chromium plays: served from an origin of its own, so that no server of media is favoured.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use bytes::Bytes;
use http::{Response, header};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const PAGE: &str = include_str!("page.html");

/// A server of one page.
#[derive(Debug)]
pub(super) struct Page {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Page {
    /// Starts the server.
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        let task = tokio::spawn(accept(listener));
        Ok(Self { addr, task })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let service = service_fn(async |_| {
                let mut answer = Response::new(Full::new(Bytes::from_static(PAGE.as_bytes())));
                let html = header::HeaderValue::from_static("text/html; charset=utf-8");
                answer.headers_mut().insert(header::CONTENT_TYPE, html);
                Ok::<_, Infallible>(answer)
            });
            // The browser may break its connection.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
