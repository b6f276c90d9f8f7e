//! `tidegate top`: what a running gateway does now, in a terminal, over its admin listener.
//!
//! A thread asks the gateway ([`snapshot`]) and the terminal shows the last answer ([`terminal`], [`screen`]). The panes are
//! tables of text ([`panes`], [`table`]), which `--once` prints as they are. Folders of the bucket are asked for apart, when
//! the user goes there ([`walk`]).

mod figures;
mod panes;
mod screen;
mod snapshot;
mod table;
mod terminal;
mod walk;

use std::io::{IsTerminal as _, stdout};

use super::TopArgs;
use super::client::check_path;
use panes::Pane;
use snapshot::SnapshotSource;
use tidegate_config::{Config, Environment};
use walk::FolderPage;

/// Shows the gateway until the user leaves, or returns one look at it as text: for `--once`, `--json`, and where the
/// output is no terminal.
///
/// # Errors
/// If the gateway does not answer at the start, or the terminal cannot be used.
pub(super) fn top(config: &Config, env: &Environment, args: &TopArgs) -> anyhow::Result<String> {
    let folder = args.folder.as_deref();
    folder.map_or(Ok(()), check_path)?;
    let folder = folder.map(|path| FolderPage::first(path, args.host.as_deref()));
    let source = SnapshotSource::new(config, env)?;
    let mut first = source.take()?;
    let is_one_look = args.json || args.once || !stdout().is_terminal();
    if let (Some(folder), true) = (&folder, is_one_look) {
        first.set_folder(source.folder(folder));
    }
    if args.json {
        return Ok(format!("{}\n", first.json()));
    }
    if is_one_look {
        let panes = Pane::ALL.map(|pane| pane.table(&first).text());
        return Ok(panes.join("\n"));
    }
    terminal::run((config, env), first, folder, args.interval.into())?;
    Ok(String::new())
}

#[cfg(test)]
mod tests;
