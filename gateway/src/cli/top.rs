//! `tidegate top`: what a running gateway does now, in a terminal, over its admin listener.
//!
//! A thread asks the gateway ([`snapshot`]) and the terminal shows the last answer ([`screen`]). The panes are tables of
//! text ([`panes`], [`table`]), which `--once` prints as they are.

mod figures;
mod panes;
mod screen;
mod snapshot;
mod table;

use std::io::{IsTerminal as _, stdout};

use super::TopArgs;
use panes::Pane;
use snapshot::Source;
use tidegate_config::{Config, Environment};

/// Shows the gateway until the user leaves, or returns one look at it as text: for `--once`, `--json`, and where the
/// output is no terminal.
///
/// # Errors
/// If the gateway does not answer at the start, or the terminal cannot be used.
pub(super) fn top(config: &Config, env: &Environment, args: &TopArgs) -> anyhow::Result<String> {
    let first = Source::new(config, env)?.take()?;
    if args.json {
        return Ok(format!("{}\n", first.json()));
    }
    if args.once || !stdout().is_terminal() {
        let panes = Pane::ALL.map(|pane| pane.table(&first).text());
        return Ok(panes.join("\n"));
    }
    screen::run((config, env), first, args.interval.into())?;
    Ok(String::new())
}

#[cfg(test)]
mod tests;
