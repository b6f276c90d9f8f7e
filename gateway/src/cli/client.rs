//! A client of the admin listener of a running gateway, for the commands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::tls;
use tidegate_config::{Config, Environment};
use tidegate_plan::Listen;
use tidegate_tls::pinned::{self, OtherCertificate};

/// The time that one answer may take: a few writes to disk, or one request to an origin.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The gateway reads renewed certificates within this time.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause before the next try while the gateway shows another certificate.
const RENEWAL_PAUSE: Duration = Duration::from_millis(500);

/// The time that a piece of a streamed answer may take: as long as an object that is fetched slowly.
const PIECE_TIMEOUT: Duration = Duration::from_secs(300);

/// The longest answer: the gateway sends none that is longer.
const MAX_ANSWER: usize = 16 << 20;

/// The longest line of a streamed answer.
const MAX_LINE: usize = 64 << 10;

/// A client of the admin listener.
#[derive(Debug)]
pub(super) struct Client<'a> {
    listen: &'a Listen,
    /// The certificates that the gateway may show; `None`: its listener has no TLS.
    certificates: Option<Vec<PathBuf>>,
    bearer: Option<HeaderValue>,
    /// The action, as in "cannot … through".
    verb: &'static str,
}

/// A request.
#[derive(Debug)]
pub(super) struct AdminRequest {
    pub(super) method: Method,
    /// Path and query.
    pub(super) target: String,
    pub(super) body: Option<Value>,
}

impl<'a> Client<'a> {
    /// Returns a client that only reads.
    pub(super) fn new(config: &'a Config, verb: &'static str) -> Self {
        let listen = &config.admin.listen;
        Self {
            listen: &listen.address,
            certificates: listen.tls.then(|| tls::shown(config)),
            bearer: None,
            verb,
        }
    }

    /// Returns a client that may change things.
    ///
    /// # Errors
    /// If there is no token, or it cannot be read.
    pub(super) fn with_token(
        config: &'a Config,
        env: &Environment,
        verb: &'static str,
        what: &'static str,
    ) -> anyhow::Result<Self> {
        let Some(token) = &config.admin.token else {
            bail!("`admin.token` is not set, so nothing can be {what}");
        };
        let token = token.resolve(env).context("`admin.token`")?;
        let bearer = HeaderValue::from_str(&format!("Bearer {}", token.trim()));
        let mut bearer = bearer
            .ok()
            .context("`admin.token` is no text that a header can carry")?;
        bearer.set_sensitive(true);
        Ok(Self {
            bearer: Some(bearer),
            ..Self::new(config, verb)
        })
    }

    /// Sends a request, and returns the body of an answer that is 200.
    ///
    /// # Errors
    /// If there is no answer, or another one.
    pub(super) async fn send(&self, request: AdminRequest) -> anyhow::Result<String> {
        let asked = async {
            let answer = timeout(ANSWER_TIMEOUT, async {
                let (answer, connection) = self.start(&request).await?;
                let read = read_answer(answer).await;
                connection.abort();
                read
            });
            answer.await.context("no answer in time")?
        };
        let (status, body) = asked.await.with_context(|| self.failure())?;
        if status != StatusCode::OK {
            bail!("the gateway answers {status}: {}", reason(&body));
        }
        Ok(body)
    }

    /// Sends a request, and passes the lines of an answer that is 200 on as they come, until `take` has enough.
    ///
    /// # Errors
    /// If there is no answer, or another one. An answer that is cut off counts as ended.
    pub(super) async fn lines(
        &self,
        request: AdminRequest,
        mut take: impl FnMut(&str) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<()> {
        let sent = timeout(ANSWER_TIMEOUT, self.start(&request)).await;
        let sent = sent.context("no answer in time").flatten();
        let (answer, connection) = sent.with_context(|| self.failure())?;
        if answer.status() != StatusCode::OK {
            let (status, body) = read_answer(answer).await.with_context(|| self.failure())?;
            bail!("the gateway answers {status}: {}", reason(&body));
        }
        let mut body = answer.into_body();
        let mut rest = BytesMut::new();
        while let Ok(Some(Ok(frame))) = timeout(PIECE_TIMEOUT, body.frame()).await {
            let Ok(data) = frame.into_data() else {
                continue;
            };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = rest.split_to(end + 1);
                if take(String::from_utf8_lossy(&line).trim_end())?.is_break() {
                    connection.abort();
                    return Ok(());
                }
            }
            if rest.len() > MAX_LINE {
                bail!("the gateway answers what cannot be read");
            }
        }
        connection.abort();
        Ok(())
    }

    fn failure(&self) -> String {
        format!("cannot {} through {}", self.verb, self.listen)
    }

    fn request(&self, request: &AdminRequest) -> anyhow::Result<Request<Full<Bytes>>> {
        let body = request
            .body
            .as_ref()
            .map(Value::to_string)
            .unwrap_or_default();
        let mut request = Request::builder()
            .method(&request.method)
            .uri(&request.target)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(bearer) = &self.bearer {
            request = request.header(header::AUTHORIZATION, bearer);
        }
        Ok(request.body(Full::new(Bytes::from(body)))?)
    }

    /// Sends a request. A listener that still shows the certificate of before a renewal is asked again.
    async fn start(
        &self,
        request: &AdminRequest,
    ) -> anyhow::Result<(Response<Incoming>, AbortHandle)> {
        let sent = after_renewal(RENEWAL_TIMEOUT, || self.start_once(request)).await;
        sent.map_err(|error| match is_other_certificate(&error) {
            true => error.context(STALE_CERTIFICATE),
            false => error,
        })
    }

    async fn start_once(
        &self,
        request: &AdminRequest,
    ) -> anyhow::Result<(Response<Incoming>, AbortHandle)> {
        let request = self.request(request)?;
        match self.listen {
            Listen::Tcp(address) => {
                let stream = TcpStream::connect(dialed_address(*address)).await?;
                self.exchange(stream, request).await
            }
            Listen::Unix(path) => {
                let stream = UnixStream::connect(path).await?;
                self.exchange(stream, request).await
            }
        }
    }

    /// Sends a request on a connection, after the handshake if the listener has TLS.
    async fn exchange<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(Response<Incoming>, AbortHandle)>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        match &self.certificates {
            None => exchange(stream, request).await,
            Some(files) => {
                let stream = pinned::connect(stream, files).await;
                let stream = stream.context("no TLS with the certificate of `tls.certificates`")?;
                exchange(stream, request).await
            }
        }
    }
}

const STALE_CERTIFICATE: &str = "the gateway does not show the certificate that is in the files of `tls.certificates` \
     now, and has not read it for 10 s: its log says why";

/// Tries again, for a bounded time, while the gateway shows another certificate than its files have: it looks for renewed
/// ones every few seconds.
async fn after_renewal<T>(
    patience: Duration,
    mut attempt: impl AsyncFnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let until = Instant::now() + patience;
    loop {
        match attempt().await {
            Err(error) if is_other_certificate(&error) && Instant::now() < until => {
                sleep(RENEWAL_PAUSE).await;
            }
            done => return done,
        }
    }
}

fn is_other_certificate(error: &anyhow::Error) -> bool {
    let of_system = |error: &(dyn std::error::Error + 'static)| {
        let error = error.downcast_ref::<std::io::Error>()?.get_ref()?;
        Some(error.is::<OtherCertificate>())
    };
    error.chain().any(|error| of_system(error) == Some(true))
}

/// Runs a future on a runtime of its own.
///
/// # Errors
/// As `work` does.
pub(super) fn run<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// Returns a path for a query to the admin listener, in which `&` would end it.
pub(super) fn escape_query(path: &str) -> String {
    path.replace('&', "%26")
}

/// Checks that a text is the path of a URL.
///
/// # Errors
/// If it is not, or has more than a path: what stands behind `?` or `#` is no part of it.
pub(super) fn check_path(path: &str) -> anyhow::Result<()> {
    if !path.starts_with('/') {
        bail!("`{path}` does not begin with `/`: give the path as it stands in the URL");
    }
    if path.contains(['?', '#']) {
        bail!("`{path}` has a `?` or a `#`: in the path of a URL they are written `%3F` and `%23`");
    }
    Ok(())
}

/// Replaces an unspecified address, which stands for all of a machine's, by loopback.
fn dialed_address(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(Response<Incoming>, AbortHandle)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection).abort_handle();
    let answer = sender.send_request(request).await?;
    Ok((answer, connection))
}

/// Returns the reason in the body of an answer that is no success: the API's is JSON, the others are text.
fn reason(body: &str) -> String {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let error = json.as_ref().and_then(|json| json["error"].as_str());
    error.unwrap_or(body.trim()).to_owned()
}

async fn read_answer(answer: Response<Incoming>) -> anyhow::Result<(StatusCode, String)> {
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other() -> anyhow::Error {
        let error: anyhow::Result<()> = Err(std::io::Error::other(OtherCertificate).into());
        error.context("no TLS").expect_err("an error")
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewed_certificate_is_waited_for_and_nothing_else() {
        let mut tries = 0;
        let asked = after_renewal(RENEWAL_TIMEOUT, async || {
            tries += 1;
            if tries < 10 { Err(other()) } else { Ok(tries) }
        });
        assert_eq!(asked.await.expect("it was read"), 10);

        let begun = Instant::now();
        let asked = after_renewal(RENEWAL_TIMEOUT, async || Err::<(), _>(other()));
        asked.await.expect_err("it never is");
        assert!(begun.elapsed() >= RENEWAL_TIMEOUT && begun.elapsed() < 2 * RENEWAL_TIMEOUT);

        let begun = Instant::now();
        let asked = after_renewal(RENEWAL_TIMEOUT, async || {
            Err::<(), _>(anyhow::anyhow!("refused"))
        });
        asked.await.expect_err("an error");
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
