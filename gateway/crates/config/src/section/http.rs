//! `[http]`: the public listener.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Listeners;
use tidegate_plan::{ByteSize, Listen, Network, Period};

/// The public listener: its addresses, and the limits of a client.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Address and port, or `unix:/path`; `{ address = "0.0.0.0:443", tls = true }` encrypts; a list for several.
    pub listen: Listeners,
    /// Scheme and host by which clients reach it: links that the console and `sign` make begin with them.
    #[schemars(extend("examples" = ["https://media.example.org"]))]
    pub public_url: Option<String>,
    /// Connections at once, and never more than one for each 32 KiB of `cache.budget`; more wait to be accepted.
    ///
    /// Connections that are idle for a second end for those that wait.
    /// If an address has TLS, never more than one for each 80 KiB.
    pub max_connections: u32,
    /// The time for a client to send a request's headers.
    pub header_timeout: Period,
    /// The time that a connection stays open between requests.
    ///
    /// Longer than nginx keeps one to its upstream (60 s), so that nginx is the one that closes it and never sends a
    /// request into a connection that is going away.
    pub idle_timeout: Period,
    /// The time that a client may take none of the bytes that wait for it.
    pub write_timeout: Period,
    /// Bytes of a request's headers; larger ones are answered with 431.
    pub max_header: ByteSize,
    /// Bytes of a request's target; longer ones are answered with 414.
    pub max_uri: ByteSize,
    /// The time for answers to end after SIGTERM.
    pub drain: Period,
    /// Proxies whose `X-Forwarded-For` is believed, addresses or networks; over a socket it always is.
    #[schemars(extend("examples" = [["127.0.0.1", "10.0.0.0/8"]]))]
    pub trusted_proxies: Vec<Network>,
    /// Clients whose `PURGE /path` is obeyed, addresses or networks: of a web server whose plugins purge.
    ///
    /// The client is the peer, or the one that a proxy of `trusted_proxies` names. A proxy that names none would lend
    /// its own address to all its clients: it must send `X-Forwarded-For`.
    #[schemars(extend("examples" = [["127.0.0.1"]]))]
    pub purge_networks: Vec<Network>,
    /// Answer `Server-Timing` to requests that ask for it.
    pub server_timing: bool,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: Listeners(vec![Listen::Tcp(([127, 0, 0, 1], 8080).into()).into()]),
            public_url: None,
            max_connections: 8192,
            header_timeout: Period::secs(10),
            idle_timeout: Period::secs(75),
            write_timeout: Period::secs(30),
            max_header: ByteSize(16 << 10),
            max_uri: ByteSize(8 << 10),
            drain: Period::secs(30),
            trusted_proxies: Vec::new(),
            purge_networks: Vec::new(),
            server_timing: true,
        }
    }
}
