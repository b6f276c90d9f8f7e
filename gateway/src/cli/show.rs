//! Output to standard output.

use std::io::{self, ErrorKind, Write};

use clap_complete::Shell;

/// Writes text out. A reader that stops early (`tidegate man | head`) is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    bytes(text.as_bytes())
}

/// Writes completions for a shell.
pub(super) fn completions(shell: Shell, mut command: clap::Command) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "tidegate", &mut script);
    bytes(&script)
}

/// Writes the manual page, in roff.
pub(super) fn manual(command: clap::Command) -> anyhow::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    bytes(&page)
}

fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
