//! The measured programs: tidegate and common alternatives, each configured as its own users tune
//! it. Each is a process of its own that stops when it is dropped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::child::Server;
use crate::client::Connection;
use crate::measure::{ProcessTree, Usage};

pub mod aws;
pub mod bare;
pub mod cloud;
pub mod minio;
pub mod mounts;
pub mod nats;
pub mod nginx;
pub mod rclone;
pub mod tidegate;
pub mod varnish;

/// The bucket as its readers reach it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The address of the S3 server, or of the proxy in front of it.
    pub addr: SocketAddr,
    /// The bucket.
    pub bucket: String,
}

/// A running server that clients read objects from over HTTP.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    addr: SocketAddr,
    prefix: String,
    config: String,
    server: Option<Server>,
    admin: Option<SocketAddr>,
    socket: Option<PathBuf>,
    behind: Option<Box<Self>>,
}

impl Peer {
    /// Returns a server with its objects at `/KEY`.
    #[must_use]
    pub const fn new(name: &'static str, addr: SocketAddr, config: String, server: Server) -> Self {
        Self {
            name,
            addr,
            prefix: String::new(),
            config,
            server: Some(server),
            admin: None,
            socket: None,
            behind: None,
        }
    }

    /// Adds the Unix socket that it listens on beside its address.
    #[must_use]
    pub fn with_socket(mut self, socket: PathBuf) -> Self {
        self.socket = Some(socket);
        self
    }

    /// Adds the server that it asks, which then ends with it and is counted in its usage.
    #[must_use]
    pub fn in_front_of(mut self, other: Self) -> Self {
        self.behind = Some(Box::new(other));
        self
    }

    /// Adds the address of the admin listener, which serves the metrics.
    #[must_use]
    pub const fn with_admin(mut self, admin: SocketAddr) -> Self {
        self.admin = Some(admin);
        self
    }

    /// Returns the address of the admin listener; `None` for peers without one.
    #[must_use]
    pub const fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Renames it after the setting that was tuned.
    #[must_use]
    pub const fn called(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Returns the bucket itself, read directly: the reference for the others.
    #[must_use]
    pub fn direct(origin: &Origin) -> Self {
        let prefix = format!("/{}", origin.bucket);
        Self {
            name: "direct",
            addr: origin.addr,
            prefix,
            config: String::new(),
            server: None,
            admin: None,
            socket: None,
            behind: None,
        }
    }

    /// Returns its name in tables and in `--peers`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the Unix socket that it listens on beside its address; `None` if it has none.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// Returns its configuration, as its own users would write it.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// Returns the path of an object; `key` consists of characters that need no escaping.
    #[must_use]
    pub fn path(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }

    /// Returns the sum of one of tidegate's metrics over its labels; `None` for other peers.
    ///
    /// # Errors
    /// If its admin listener does not answer.
    pub async fn metric(&self, name: &str) -> Result<Option<f64>> {
        self.metric_where(name, "").await
    }

    /// Returns the same sum over the lines whose labels contain `label`, such as `state="up"`.
    ///
    /// # Errors
    /// If its admin listener does not answer.
    pub async fn metric_where(&self, name: &str, label: &str) -> Result<Option<f64>> {
        let Some(admin) = self.admin else {
            return Ok(None);
        };
        let metrics = told(admin, "/metrics").await?;
        Ok(Some(metric_sum(&metrics, name, label)))
    }

    /// Returns the admin listener's answer to `path`; `None` for other peers.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn tells(&self, path: &str) -> Result<Option<String>> {
        let Some(admin) = self.admin else {
            return Ok(None);
        };
        let (answer, _) = Connection::open(admin).await?.get(path, &[]).await?;
        Ok(Some(String::from_utf8_lossy(&answer.body).into_owned()))
    }

    /// Returns its process id; `None` for the bucket itself.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    /// Returns the last lines of its log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.server
            .as_ref()
            .map_or_else(String::new, Server::log_tail)
    }

    /// Ends it at once, by SIGKILL.
    ///
    /// # Errors
    /// If it cannot be waited for.
    pub fn kill(self) -> Result<()> {
        self.server.map_or(Ok(()), Server::kill)
    }

    /// Returns the usage so far of its processes, and of those behind it; zero for the bucket itself.
    ///
    /// # Errors
    /// If it has died.
    pub fn usage(&self) -> Result<Usage> {
        let Some(server) = &self.server else {
            return Ok(Usage::default());
        };
        let own = ProcessTree::new(server.pid())
            .usage()
            .with_context(|| format!("{} died:\n{}", self.name, server.log_tail()))?;
        match &self.behind {
            Some(other) => Ok(own + other.usage()?),
            None => Ok(own),
        }
    }
}

/// Returns the answer of an admin listener to `path`.
///
/// # Errors
/// If it does not answer, or not with 200.
pub async fn told(admin: SocketAddr, path: &str) -> Result<String> {
    let (answer, _) = Connection::open(admin).await?.get(path, &[]).await?;
    ensure!(answer.head.status == 200, "{path}: {}", answer.head.status);
    Ok(String::from_utf8_lossy(&answer.body).into_owned())
}

/// Returns the sum of a metric over the lines whose labels contain `label`, such as `state="up"`.
#[must_use]
pub fn metric_sum(metrics: &str, name: &str, label: &str) -> f64 {
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label)
    };
    let lines = metrics.lines().filter(is_it);
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}
