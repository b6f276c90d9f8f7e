//! Instructions that a process has run in user mode, and its calls of functions, counted by Valgrind's callgrind.
//!
//! Unlike a time, the counts are the same on a busy machine. They leave out the kernel.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::child::find_program;

/// The name of the files of counts; callgrind adds a number to those that [`Calls::take`] asks for.
const COUNTS: &str = "callgrind";

/// Returns a command that runs `program` under callgrind, some fifty times slower than by itself. It writes its counts into
/// the folder `dir`.
///
/// # Errors
/// If Valgrind is missing.
pub fn command(program: &Path, dir: &Path) -> Result<Command> {
    let mut command = Command::new(tool("valgrind")?);
    let counts = dir.join(COUNTS);
    command.arg("--tool=callgrind");
    command.arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(program);
    Ok(command)
}

/// Returns the instructions that a process under callgrind has run so far, in all of its threads.
///
/// # Errors
/// If Valgrind is missing, or the process does not run under callgrind.
pub fn instructions(pid: u32) -> Result<u64> {
    let text = ask(pid, &["status", "internal"])?;
    total(&text).with_context(|| format!("vgdb said something else:\n{text}"))
}

/// The calls of each function, by its name. A program without symbols has no names.
#[derive(Debug, Default)]
pub struct Calls(HashMap<String, u64>);

impl Calls {
    /// Returns the calls since the last one took them, and begins both counts anew.
    ///
    /// # Errors
    /// If the process does not run under callgrind with `dir` as its folder, or its counts cannot be read.
    pub fn take(pid: u32, dir: &Path) -> Result<Self> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if is_dump(&path) {
                fs::remove_file(path)?;
            }
        }
        ask(pid, &["dump"])?;
        let (mut calls, mut dumps) = (Self::default(), 0);
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if is_dump(&path) {
                calls.read(&fs::read_to_string(path)?);
                dumps += 1;
            }
        }
        ensure!(
            dumps > 0,
            "callgrind wrote no counts into {}",
            dir.display()
        );
        Ok(calls)
    }

    /// Returns the calls of all functions whose names have this form.
    pub fn of(&self, is_it: impl Fn(&str) -> bool) -> u64 {
        let found = self.0.iter().filter(|(name, _)| is_it(name));
        found.map(|(_, calls)| calls).sum()
    }

    /// Adds the calls of a file in callgrind's format: a function is named at its first mention, `(7) name`, and has its number
    /// alone from then on.
    fn read(&mut self, counts: &str) {
        let (mut names, mut called) = (HashMap::new(), "");
        for line in counts.lines() {
            if let Some(calls) = line.strip_prefix("calls=") {
                let calls = calls.split(' ').next().and_then(|calls| calls.parse().ok());
                *self.0.entry(called.to_owned()).or_default() += calls.unwrap_or(0);
            } else if let Some((is_called, function)) = function_of(line) {
                let (number, name) = function.split_once(' ').unwrap_or((function, ""));
                if !name.is_empty() {
                    names.insert(number, name);
                }
                if is_called {
                    called = names.get(number).copied().unwrap_or_default();
                }
            }
        }
    }
}

/// Returns the function that a line names, and whether it is a called one.
fn function_of(line: &str) -> Option<(bool, &str)> {
    let of = |prefix| line.strip_prefix(prefix);
    of("cfn=")
        .map(|name| (true, name))
        .or_else(|| of("fn=").map(|name| (false, name)))
}

fn is_dump(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_prefix(COUNTS)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// Sends a command to callgrind, and returns its answer.
fn ask(pid: u32, words: &[&str]) -> Result<String> {
    let mut command = Command::new(tool("vgdb")?);
    let output = command.arg(format!("--pid={pid}")).args(words).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "vgdb: {text}");
    Ok(text)
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

    #[test]
    fn calls_are_summed_by_function_over_all_callers_and_files() {
        let counts = "fn=(1) main\n1 10\ncfi=(2) a.rs\ncfn=(2) malloc\ncalls=3 0\n1 99\nfn=(3) other\ncfn=(2)\n\
            calls=4 +5\n1 1\ncfn=(1)\ncalls=1 0\n";
        let mut calls = Calls::default();
        calls.read(counts);
        calls.read(counts);
        assert_eq!(calls.of(|name| name == "malloc"), 14);
        assert_eq!(calls.of(|name| name == "main"), 2);
        assert_eq!(calls.of(|name| name == "other"), 0);
    }
}
