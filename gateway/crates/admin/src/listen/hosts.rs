//! The hosts that the listener answers to.
//!
//! A page in a browser can make its own name resolve to this listener (DNS rebinding), and would read keys and sizes
//! from it, though it is on loopback. Such a request names the page's host. So a request has to name an address,
//! `localhost`, this machine or one of `admin.hosts`; a request that a page of another origin sends is refused.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::events;

/// Paths that are answered under any name: probes and scrapers ask for them, and they name no object. So is the path of
/// a webhook, whose token no page has.
const EXEMPT_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The names that the listener answers to beside addresses and `localhost`, in lower case, without a dot at the end.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    machine: Option<String>,
    listed: Arc<[String]>,
}

/// The reason why a request is refused.
#[derive(Debug, PartialEq, Eq)]
enum ForeignRequest {
    Host,
    Origin,
}

impl Hosts {
    /// Takes the name of this machine, and further names from the operator (`listed`).
    #[must_use]
    pub fn new(machine: Option<&str>, listed: &[String]) -> Self {
        Self {
            machine: machine.map(plain),
            listed: listed.iter().map(|name| plain(name)).collect(),
        }
    }

    fn lists(&self, host: &str) -> bool {
        self.listed.iter().any(|listed| listed == host)
    }

    fn knows(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || host == "localhost"
            || self.machine.as_deref() == Some(host)
            || self.lists(host)
    }

    /// Returns whether a request with these headers is answered.
    #[must_use]
    pub fn admit(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        self.judge(uri, headers).is_ok()
    }

    /// Judges a request. A browser always names a host, so a request that names none comes from no browser.
    fn judge(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ForeignRequest> {
        let named = read(headers, &header::HOST, "").map_err(|()| ForeignRequest::Host)?;
        for authority in uri.authority().into_iter().chain(&named) {
            if !self.knows(&host_of(authority)) {
                return Err(ForeignRequest::Host);
            }
        }
        let origin = read(headers, &header::ORIGIN, "://").map_err(|()| ForeignRequest::Origin)?;
        let Some(origin) = origin else { return Ok(()) };
        let same = named.is_some_and(|named| named.as_str().eq_ignore_ascii_case(origin.as_str()));
        // Another port of a listed host may serve anything, such as the bucket's objects.
        let is_listed = origin.port().is_none() && self.lists(&host_of(&origin));
        match same || is_listed {
            true => Ok(()),
            false => Err(ForeignRequest::Origin),
        }
    }
}

/// Returns the host and port in a header, behind `mark`; an error if there are several, or none that can be read.
fn read(headers: &HeaderMap, name: &HeaderName, mark: &str) -> Result<Option<Authority>, ()> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().map_err(|_| ())?;
    let (_, text) = text.split_once(mark).ok_or(())?;
    let authority = text.parse().map_err(|_| ())?;
    match values.next() {
        None if is_host_and_port(&authority) => Ok(Some(authority)),
        _ => Err(()),
    }
}

/// Returns whether there is nothing but a host and perhaps the number of a port.
fn is_host_and_port(authority: &Authority) -> bool {
    let rest = authority.as_str().strip_prefix(authority.host());
    let is_port = |rest: &str| {
        let port = rest.strip_prefix(':');
        port.is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    rest.is_some_and(|rest| rest.is_empty() || is_port(rest))
}

fn host_of(authority: &Authority) -> String {
    plain(authority.host())
}

/// Returns a name in the form that is compared.
fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Passes a request on if it names one of the hosts and no page of another origin has sent it.
pub(crate) async fn require_host(
    State(hosts): State<Hosts>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if EXEMPT_PATHS.contains(&path) || path.starts_with(events::PATH) {
        return next.run(request).await;
    }
    let body = match hosts.judge(request.uri(), request.headers()) {
        Ok(()) => return next.run(request).await,
        Err(ForeignRequest::Host) => "this host is neither an address nor one of `admin.hosts`\n",
        Err(ForeignRequest::Origin) => "a page of another origin may not ask this\n",
    };
    (StatusCode::FORBIDDEN, body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(lines: &[(HeaderName, &str)]) -> Result<(), ForeignRequest> {
        let hosts = Hosts::new(Some("Gate.lan"), &["ops.example.".to_owned()]);
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, value.parse().expect("a value"));
        }
        hosts.judge(&Uri::from_static("/stat"), &headers)
    }

    #[test]
    fn a_request_names_a_host_of_ours() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:8081",
            "10.1.2.3:8081",
            "[::1]:8081",
            "localhost",
            "LocalHost:8081",
            "localhost.",
            "gate.lan:8081",
            "ops.example",
            "OPS.example.:443",
        ] {
            assert_eq!(judge(&[(header::HOST, host)]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8081",
            "evil.example@localhost",
            "localhost:8081evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "ops.example.evil.example",
            "0x7f000001",
            "2130706433",
            "",
            "a b",
        ] {
            let refused = judge(&[(header::HOST, host)]);
            assert_eq!(refused, Err(ForeignRequest::Host), "{host}");
        }
        let twice = [(header::HOST, "localhost"), (header::HOST, "localhost")];
        assert_eq!(judge(&twice), Err(ForeignRequest::Host));
        assert_eq!(judge(&[]), Ok(()), "no browser");
    }

    #[test]
    fn a_target_that_names_a_host_names_one_of_ours() {
        let hosts = Hosts::default();
        let judge = |uri: &'static str| hosts.judge(&Uri::from_static(uri), &HeaderMap::new());
        assert_eq!(judge("http://localhost/stat"), Ok(()));
        assert_eq!(judge("http://evil.example/stat"), Err(ForeignRequest::Host));
    }

    #[test]
    fn a_page_of_another_origin_is_refused() {
        let host = (header::HOST, "127.0.0.1:8081");
        let of = |origin| judge(&[host.clone(), (header::ORIGIN, origin)]);
        for origin in ["http://127.0.0.1:8081", "https://ops.example"] {
            assert_eq!(of(origin), Ok(()), "{origin}");
        }
        for origin in [
            "http://127.0.0.1:3000",
            "http://localhost:8081",
            "http://ops.example:3000",
            "https://evil.example",
            "null",
            "",
        ] {
            assert_eq!(of(origin), Err(ForeignRequest::Origin), "{origin}");
        }
    }
}
