//! The bare handler of [`crate::bare`], in a process of its own.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::ValueEnum as _;

use super::Peer;
use crate::bare::disk::SendMethod;
use crate::child::{Server, free_addr};
use crate::measure::callgrind;

/// The name of the peer that has a runtime and a socket for each processor.
pub const PER_CORE: &str = "bare-per-core";

/// Serves the files of the folder `root`, as they are now, out of memory. `name` is `bare` or [`PER_CORE`].
///
/// # Errors
/// If it does not start.
pub fn start(name: &'static str, dir: &Path, root: &Path) -> Result<Peer> {
    let program = Command::new(std::env::current_exe()?);
    start_by(program, name, dir, root, &[])
}

/// Starts `bare` under callgrind.
///
/// # Errors
/// If Valgrind is missing, or it does not start.
pub fn start_under_callgrind(dir: &Path, root: &Path) -> Result<Peer> {
    let program = callgrind::command(&std::env::current_exe()?, dir)?;
    start_by(program, "bare", dir, root, &[])
}

/// Serves the files below the folder `root` from their disk, in that way.
///
/// # Errors
/// If it does not start.
pub fn on_disk(dir: &Path, root: &Path, method: SendMethod) -> Result<Peer> {
    let way = method.to_possible_value().context("a way with a name")?;
    let program = Command::new(std::env::current_exe()?);
    start_by(program, "bare-disk", dir, root, &[way.get_name()])
}

/// Starts it by a command that lacks its arguments.
fn start_by(
    mut command: Command,
    name: &'static str,
    dir: &Path,
    root: &Path,
    more: &[&str],
) -> Result<Peer> {
    let addr = free_addr();
    command.arg(name).arg(addr.to_string()).arg(root).args(more);
    let server = Server::start(command, &dir.join(format!("{name}.log")), addr)?;
    let config = format!(
        "loadtest {name} {addr} {} {}",
        root.display(),
        more.join(" ")
    );
    Ok(Peer::new(name, addr, config, server))
}
