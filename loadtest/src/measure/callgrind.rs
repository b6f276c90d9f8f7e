//! Instructions that a process has run in user mode, counted by Valgrind's callgrind.
//!
//! Unlike a time, the count is the same on a busy machine. It leaves out the kernel.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::child::find_program;

/// Returns a command that runs `program` under callgrind, some fifty times slower than by itself.
///
/// # Errors
/// If Valgrind is missing.
pub fn command(program: &Path) -> Result<Command> {
    let mut command = Command::new(tool("valgrind")?);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program);
    Ok(command)
}

/// Returns the instructions that a process under callgrind has run so far, in all of its threads.
///
/// # Errors
/// If Valgrind is missing, or the process does not run under callgrind.
pub fn instructions(pid: u32) -> Result<u64> {
    let mut command = Command::new(tool("vgdb")?);
    command.arg(format!("--pid={pid}"));
    let output = command.args(["status", "internal"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "vgdb: {text}");
    total(&text).with_context(|| format!("vgdb said something else:\n{text}"))
}

fn tool(name: &str) -> Result<std::path::PathBuf> {
    find_program(&format!("TIDEGATE_{}", name.to_uppercase()), &[name])
        .with_context(|| format!("{name} is missing; Debian: valgrind"))
}

/// Sums the lines `events-THREAD: COUNT`; those of a thread's functions have two numbers in their names.
fn total(status: &str) -> Option<u64> {
    let mut counts = status.lines().filter_map(|line| {
        let (thread, count) = line.strip_prefix("events-")?.split_once(": ")?;
        thread.parse::<u32>().ok()?;
        count.parse::<u64>().ok()
    });
    let first = counts.next()?;
    Some(first + counts.sum::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_threads_are_summed_and_those_of_functions_are_not() {
        let status = "events: Ir\npart: 0\nthreads: 2\nevents-1: 100\nframes-1: 1\nfunction-1-0: main\n\
            events-1-0: 99\nevents-2: 20\n";
        assert_eq!(total(status), Some(120));
        assert_eq!(total("no such process\n"), None);
    }
}
