//! A real ACME authority, Pebble, started for one test and stopped with it, and the name server that it asks: every name
//! leads to 127.0.0.1.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::process::Process;

/// The name for which Pebble refuses orders.
pub(crate) const REFUSED: &str = "refused.example";

/// The settings of a Pebble.
#[derive(Debug)]
pub(crate) struct PebbleSettings<'a> {
    /// The folder with `pebble.pem` and `pebble.key`, its certificate for `localhost`.
    pub(crate) folder: &'a Path,
    /// The address of its directory.
    pub(crate) directory: SocketAddr,
    /// The address at which its root can be had.
    pub(crate) management: SocketAddr,
    /// The port of each name on which it looks for the answer to a challenge.
    pub(crate) tls_port: u16,
    /// The lifetime of its certificates.
    pub(crate) lifetime: Duration,
    /// The share of requests that it refuses for their nonce, in percent.
    pub(crate) bad_nonces: u32,
    /// The accounts that it has made for operators, with their keys. If there is one, a new account must be bound to it.
    pub(crate) external_accounts: &'a [(&'a str, &'a str)],
}

/// A running authority. It forgets its accounts when it ends, and has another root when it starts again.
#[derive(Debug)]
pub(crate) struct Pebble {
    _authority: Process,
    _names: Process,
}

impl Pebble {
    /// Starts `pebble` and `pebble-challtestsrv` from the path, and waits until both listen. Panics without them: the
    /// feature `real-parts` requires them.
    pub(crate) fn start(settings: &PebbleSettings<'_>, name_server: SocketAddr) -> Self {
        let folder = settings.folder;
        let external = settings.external_accounts.iter().copied();
        let external: std::collections::BTreeMap<_, _> = external.collect();
        let config = json!({ "pebble": {
            "externalAccountBindingRequired": !external.is_empty(),
            "externalAccountMACKeys": external,
            "listenAddress": settings.directory.to_string(),
            "managementListenAddress": settings.management.to_string(),
            "certificate": folder.join("pebble.pem"),
            "privateKey": folder.join("pebble.key"),
            "httpPort": 1,
            "tlsPort": settings.tls_port,
            "domainBlocklist": [REFUSED],
            "retryAfter": { "authz": 1, "order": 1 },
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": {
                "description": "of the tests",
                "validityPeriod": settings.lifetime.as_secs(),
            } },
        } });
        let path = folder.join("pebble.json");
        std::fs::write(&path, config.to_string()).expect("written");
        let none = ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""];
        let mut names = Command::new("pebble-challtestsrv");
        names
            .args(none)
            .args(["-management", "", "-defaultIPv6", "", "-dnsserver"])
            .arg(name_server.to_string());
        let mut authority = Command::new("pebble");
        authority
            .arg("-config")
            .arg(&path)
            .arg("-dnsserver")
            .arg(name_server.to_string())
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0")
            .env("PEBBLE_WFE_NONCEREJECT", settings.bad_nonces.to_string());
        Self {
            _names: Process::start(names, &folder.join("names.log"), name_server),
            _authority: Process::start(authority, &folder.join("pebble.log"), settings.directory),
        }
    }
}
