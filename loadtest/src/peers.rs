//! Who is measured: tidegate and the tools that people use today, each configured as its own users
//! tune it. Every one is a process of its own, stopped when it is dropped.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};

use crate::child::Server;
use crate::client::Connection;
use crate::measure::{ProcessTree, Usage};

pub mod aws;
pub mod cloud;
pub mod minio;
pub mod mounts;
pub mod nginx;
pub mod rclone;
pub mod tidegate;
pub mod varnish;

/// The bucket as its readers reach it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Where the S3 server, or what stands before it, listens.
    pub addr: SocketAddr,
    /// The bucket.
    pub bucket: String,
}

/// A running server that objects are read from over HTTP.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    addr: SocketAddr,
    prefix: String,
    config: String,
    server: Option<Server>,
    admin: Option<SocketAddr>,
}

impl Peer {
    /// A server whose objects stand at `/KEY`.
    #[must_use]
    pub const fn new(name: &'static str, addr: SocketAddr, config: String, server: Server) -> Self {
        Self {
            name,
            addr,
            prefix: String::new(),
            config,
            server: Some(server),
            admin: None,
        }
    }

    /// The same, with a listener that tells its metrics.
    #[must_use]
    pub const fn with_admin(mut self, admin: SocketAddr) -> Self {
        self.admin = Some(admin);
        self
    }

    /// The same under the name of what was tuned.
    #[must_use]
    pub const fn called(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// The bucket itself, read without anything in between: what the others are held against.
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
        }
    }

    /// What it is called in tables and in `--peers`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The configuration it runs with, as its own users would write it.
    #[must_use]
    pub fn config(&self) -> &str {
        &self.config
    }

    /// The path of an object; `key` consists of characters that need no escaping.
    #[must_use]
    pub fn path(&self, key: &str) -> String {
        format!("{}/{key}", self.prefix)
    }

    /// The sum of a metric over its labels, as tidegate itself tells it; `None` of other peers.
    ///
    /// # Errors
    /// If its admin listener does not answer.
    pub async fn metric(&self, name: &str) -> Result<Option<f64>> {
        self.metric_where(name, "").await
    }

    /// The same over those lines whose labels contain `label`, such as `state="up"`.
    ///
    /// # Errors
    /// If its admin listener does not answer.
    pub async fn metric_where(&self, name: &str, label: &str) -> Result<Option<f64>> {
        let Some(admin) = self.admin else {
            return Ok(None);
        };
        let (answer, _) = Connection::open(admin).await?.get("/metrics", &[]).await?;
        let text = String::from_utf8_lossy(&answer.body);
        let values = text
            .lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .filter(|line| line.contains(label))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        Ok(Some(values.sum()))
    }

    /// What its admin listener answers to `path`; `None` of other peers.
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

    /// The id of its process, if it is one of ours.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.server.as_ref().map(Server::pid)
    }

    /// The end of what it wrote.
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

    /// What its processes have used so far; nothing, for the bucket itself.
    ///
    /// # Errors
    /// If it has died.
    pub fn usage(&self) -> Result<Usage> {
        match &self.server {
            Some(server) => ProcessTree::new(server.pid())
                .usage()
                .with_context(|| format!("{} died:\n{}", self.name, server.log_tail())),
            None => Ok(Usage::default()),
        }
    }
}
