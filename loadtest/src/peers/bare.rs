//! The bare handler of [`crate::bare`], in a process of its own.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::Peer;
use crate::child::{Server, free_addr};

/// The name of the peer that has a runtime and a socket for each processor.
pub const PER_CORE: &str = "bare-per-core";

/// Serves the files of the folder `root`, as they are now, out of memory. `name` is `bare` or [`PER_CORE`].
///
/// # Errors
/// If it does not start.
pub fn start(name: &'static str, dir: &Path, root: &Path) -> Result<Peer> {
    let addr = free_addr();
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(name).arg(addr.to_string()).arg(root);
    let server = Server::start(command, &dir.join(format!("{name}.log")), addr)?;
    let config = format!("loadtest {name} {addr} {}", root.display());
    Ok(Peer::new(name, addr, config, server))
}
