//! Connections: by the rule for addresses, with TLS, within the time to connect.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tower::Service;

use crate::{Addresses, ClientError, ClientSettings};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Makes connections of a client.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<HttpConnector<Resolver>>,
    addresses: Addresses,
    limit: Duration,
}

impl Connector {
    /// Makes a connector; reads the authorities.
    pub(crate) fn new(settings: &ClientSettings) -> Result<Self, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(ClientError::Tls)?
            .with_root_certificates(settings.roots.read()?)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new_with_resolver(Resolver(settings.addresses));
        tcp.enforce_http(false);
        // The same time bounds one address of several, so that the next one may be tried.
        tcp.set_connect_timeout(Some(settings.connect));
        let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
        let builder = match settings.https_only {
            true => builder.https_only(),
            false => builder.https_or_http(),
        };
        Ok(Self {
            https: builder.enable_http1().wrap_connector(tcp),
            addresses: settings.addresses,
            limit: settings.connect,
        })
    }

    /// Returns whether the host of a URL may be asked, as far as it is an address. Names are judged when they are looked up.
    fn admits(&self, uri: &Uri) -> bool {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<IpAddr>();
        address.map_or(true, |address| self.addresses.admit(address))
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.https.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if !self.admits(&uri) {
            return async { Err(inward().into()) }.boxed();
        }
        let (connect, limit) = (self.https.call(uri), self.limit);
        let connect = async move {
            let connected = timeout(limit, connect).await;
            connected.unwrap_or_else(|_| Err("no connection came in time".into()))
        };
        connect.boxed()
    }
}

/// Looks up names, and leaves out the addresses that the rule does not admit.
#[derive(Debug, Clone)]
pub(crate) struct Resolver(Addresses);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, Result<Self::Response, io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let addresses = self.0;
        let look_up = async move {
            let found: Vec<_> = match addresses {
                Addresses::At(address) => vec![address],
                // The port is that of the URL.
                _ => lookup_host((name.as_str(), 0)).await?.collect(),
            };
            let admitted = found.into_iter().filter(|one| addresses.admit(one.ip()));
            let admitted: Vec<_> = admitted.collect();
            match admitted.is_empty() {
                true => Err(inward()),
                false => Ok(admitted.into_iter()),
            }
        };
        look_up.boxed()
    }
}

fn inward() -> io::Error {
    io::Error::other("the host has no address of the public internet")
}
