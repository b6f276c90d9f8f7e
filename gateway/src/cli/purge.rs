//! `tidegate purge`: one request to the admin listener of a running gateway.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::PurgeArgs;
use crate::config::{Admin, Environment};
use crate::plan::Listen;

/// A purge is durable when it is answered: a few writes to disk.
const DEADLINE: Duration = Duration::from_secs(30);

/// More than this is no answer of ours.
const LONGEST_ANSWER: usize = 1 << 20;

/// Purges, and says what was purged.
pub(super) fn purge(admin: &Admin, env: &Environment, args: &PurgeArgs) -> anyhow::Result<String> {
    let Some(token) = &admin.token else {
        bail!("`admin.token` is not set, so nothing can be purged");
    };
    let token = token.resolve(env).context("`admin.token`")?;
    let request = request(args, &token)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let asked = async {
        let answer = tokio::time::timeout(DEADLINE, ask(&admin.listen, request));
        answer.await.context("no answer in time")?
    };
    let (status, body) = runtime
        .block_on(asked)
        .with_context(|| format!("cannot purge through {}", admin.listen))?;
    if status != StatusCode::OK {
        bail!("the gateway answers {status}: {}", body.trim());
    }
    Ok(body)
}

fn request(args: &PurgeArgs, token: &str) -> anyhow::Result<Request<Full<Bytes>>> {
    if !args.path.starts_with('/') {
        bail!(
            "`{}` does not begin with `/`: give the path as it stands in the URL",
            args.path
        );
    }
    let body = serde_json::json!({ "path": args.path, "prefix": args.prefix, "host": args.host });
    let bearer = header::HeaderValue::from_str(&format!("Bearer {token}"));
    let mut bearer = bearer
        .ok()
        .context("`admin.token` is no text that a header can carry")?;
    bearer.set_sensitive(true);
    let request = Request::builder()
        .method(Method::POST)
        .uri("/purge")
        .header(header::HOST, "tidegate")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::AUTHORIZATION, bearer)
        .body(Full::new(Bytes::from(body.to_string())))?;
    Ok(request)
}

async fn ask(
    listen: &Listen,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, String)> {
    match listen {
        Listen::Tcp(address) => {
            exchange(TcpStream::connect(reachable(*address)).await?, request).await
        }
        Listen::Unix(path) => exchange(UnixStream::connect(path).await?, request).await,
    }
}

/// An address that stands for all of a machine's is reached through loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
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
) -> anyhow::Result<(StatusCode, String)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), LONGEST_ANSWER)
        .collect()
        .await;
    let body = body.map_err(|error| anyhow::anyhow!("{error}"))?.to_bytes();
    connection.abort();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
