//! NATS: it carries events of a bucket, and the messages of a fleet.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::child::{Server, find_program, free_addr};

/// A running server.
#[derive(Debug)]
pub struct Nats {
    addr: SocketAddr,
    _server: Server,
}

impl Nats {
    /// Starts a server whose log lies in `dir`.
    ///
    /// # Errors
    /// If it is not installed or does not start.
    pub fn start(dir: &Path) -> Result<Self> {
        let program = find_program("TIDEGATE_NATS", &["nats-server"])
            .context("nats-server is missing; `loadtest setup` installs it")?;
        let addr = free_addr();
        let mut command = Command::new(program);
        command.args(["-a", &addr.ip().to_string()]);
        command.args(["-p", &addr.port().to_string()]);
        let server = Server::start(command, &dir.join("nats.log"), addr)?;
        Ok(Self {
            addr,
            _server: server,
        })
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}
