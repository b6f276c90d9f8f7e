//! The bare handler of [`crate::bare`], in a process of its own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Peer;
use crate::child::{Server, free_addr};

/// Serves the files of the folder `root`, as they are now, out of memory.
///
/// # Errors
/// If it does not start.
pub fn start(dir: &Path, root: &Path) -> Result<Peer> {
    let addr = free_addr();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare").arg(addr.to_string()).arg(root);
    let server = Server::start(command, &dir.join("bare.log"), addr)?;
    let config = format!("loadtest bare {addr} {}", root.display());
    Ok(Peer::new("bare", addr, config, server))
}
