//! A plain HTTP/1.1 client: one connection, one request at a time, every byte handed to the caller.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpSocket, TcpStream};

use crate::pattern::Pattern;

/// The longest wait within an answer, also on a slow machine: a server that hangs is a failure, not a long run.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The buffer size of a slow client, in bytes: more than one TCP segment, less than a chunk.
const THIN_BUFFER: u32 = 32 * 1024;

/// One connection, kept alive between requests.
#[derive(Debug)]
pub struct Connection {
    addr: SocketAddr,
    /// The `Host` of its requests.
    host: String,
    sender: SendRequest<Empty<Bytes>>,
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields.
    pub headers: HeaderMap,
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Status and header fields.
    pub head: Head,
    /// The body, unless it was checked while it arrived.
    pub body: Bytes,
}

/// Arrival times of an answer, counted from the request.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// The first byte of the body, or the end of an answer without one.
    pub first_byte: Duration,
    /// The last byte.
    pub total: Duration,
}

impl Connection {
    /// Opens a connection.
    ///
    /// # Errors
    /// If nothing answers there.
    pub async fn open(addr: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(addr)
            .await
            .with_context(|| format!("no one at {addr}"))?;
        Self::over(stream, addr, &Builder::new()).await
    }

    /// Connects with small buffers, as a slow client does: bytes that it does not read soon wait at
    /// the server.
    ///
    /// # Errors
    /// If nothing answers there.
    pub async fn open_thin(addr: SocketAddr) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(THIN_BUFFER)?;
        let stream = socket
            .connect(addr)
            .await
            .with_context(|| format!("no one at {addr}"))?;
        Self::over(
            stream,
            addr,
            Builder::new().max_buf_size(THIN_BUFFER as usize),
        )
        .await
    }

    async fn over(stream: TcpStream, addr: SocketAddr, builder: &Builder) -> Result<Self> {
        stream.set_nodelay(true)?;
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self {
            addr,
            host: addr.to_string(),
            sender,
        })
    }

    /// Returns the same connection, whose requests are for `host`: one of the servers of a site.
    #[must_use]
    pub fn to_host(self, host: String) -> Self {
        Self { host, ..self }
    }

    /// Returns whether the server has not closed the connection.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Connects again if the server has closed the idle connection.
    ///
    /// # Errors
    /// If nothing answers there any more.
    pub async fn revive(&mut self) -> Result<()> {
        if self.sender.is_closed() {
            let host = self.host.clone();
            *self = Self::open(self.addr).await?.to_host(host);
        }
        Ok(())
    }

    /// Requests `path` and returns the head of the answer and its body, to be read with
    /// [`next_piece`]. Dropping the body before its end breaks the connection.
    ///
    /// # Errors
    /// If the connection breaks, or nothing answers in time.
    pub async fn ask(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<(Head, Incoming)> {
        let request = self.request(path, headers)?;
        self.sender.ready().await?;
        let answer = tokio::time::timeout(TIMEOUT, self.sender.send_request(request))
            .await
            .context("no answer in time")??;
        let (parts, body) = answer.into_parts();
        let head = Head {
            status: parts.status,
            headers: parts.headers,
        };
        Ok((head, body))
    }

    /// Requests `path` and hands on each piece of the body as it arrives.
    ///
    /// # Errors
    /// If the connection breaks, the answer ends before its announced length, or `piece` fails.
    pub async fn stream(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        mut piece: impl FnMut(&Head, Bytes) -> Result<()>,
    ) -> Result<(Head, Timing)> {
        let asked = Instant::now();
        let (head, mut body) = self.ask(path, headers).await?;
        let mut first_byte = None;
        while let Some(data) = next_piece(&mut body).await? {
            first_byte.get_or_insert_with(|| asked.elapsed());
            piece(&head, data)?;
        }
        let total = asked.elapsed();
        Ok((
            head,
            Timing {
                first_byte: first_byte.unwrap_or(total),
                total,
            },
        ))
    }

    /// Requests `path` and waits for all of the answer.
    ///
    /// # Errors
    /// As [`Connection::stream`].
    pub async fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> Result<(Answer, Timing)> {
        let mut body = vec![];
        let (head, timing) = self
            .stream(path, headers, |_, piece| {
                body.extend_from_slice(&piece);
                Ok(())
            })
            .await?;
        Ok((
            Answer {
                head,
                body: body.into(),
            },
            timing,
        ))
    }

    /// Reads the whole object at `path` and checks every byte as it arrives.
    ///
    /// # Errors
    /// As [`Connection::stream`]; and if the status is not 200, or a byte is wrong or missing.
    pub async fn verify(&mut self, path: &str, pattern: Pattern) -> Result<Timing> {
        self.verify_with(path, &[], pattern).await
    }

    /// Does the same with more headers in the request.
    ///
    /// # Errors
    /// As [`Connection::verify`].
    pub async fn verify_with(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        pattern: Pattern,
    ) -> Result<Timing> {
        let mut at = 0;
        let (head, timing) = self
            .stream(path, headers, |head, piece| {
                ensure!(
                    head.status == StatusCode::OK,
                    "{path}: status {}",
                    head.status
                );
                ensure!(
                    pattern.matches(at, &piece),
                    "{path}: wrong bytes from offset {at} on"
                );
                at += piece.len() as u64;
                Ok(())
            })
            .await?;
        ensure!(
            head.status == StatusCode::OK,
            "{path}: status {}",
            head.status
        );
        ensure!(
            at == pattern.len,
            "{path}: {at} bytes instead of {}",
            pattern.len
        );
        Ok(timing)
    }

    fn request(&self, path: &str, headers: &[(&str, &str)]) -> Result<Request<Empty<Bytes>>> {
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .header(header::HOST, &self.host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Ok(request.body(Empty::new())?)
    }
}

/// Returns the next piece of a body; `None` after the last.
///
/// # Errors
/// If the connection breaks, the body ends before its announced length, or nothing comes in time.
pub async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>> {
    loop {
        let frame = tokio::time::timeout(TIMEOUT, body.frame())
            .await
            .context("the body stalled")?;
        match frame {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame?.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
