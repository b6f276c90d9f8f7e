//! Shows the progress of warming: a bar in place on a terminal, else a line now and then.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use anyhow::bail;

use super::{MAX_SHOWN_FAILURES, complaint};
use tidegate_plan::RoundedDuration;

/// The interval between updates, on a terminal and in a file.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(200);
const FILE_INTERVAL: Duration = Duration::from_secs(30);

/// Characters of the bar.
const BAR_WIDTH: u64 = 24;

#[derive(Debug)]
pub(super) struct WarmProgress {
    /// The number of objects, if it is known beforehand.
    known: Option<u64>,
    objects: u64,
    failed: u64,
    fetched: u64,
    cached: u64,
    left_out: u64,
    began: Instant,
    said: Instant,
    in_place: bool,
}

impl WarmProgress {
    pub(super) fn new(known: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            known,
            objects: 0,
            failed: 0,
            fetched: 0,
            cached: 0,
            left_out: 0,
            began: now,
            said: now,
            in_place: io::stderr().is_terminal(),
        }
    }

    pub(super) fn fetched_bytes(&self) -> u64 {
        self.fetched
    }

    /// Adds fetched bytes.
    pub(super) fn add_fetched(&mut self, bytes: u64) {
        self.fetched += bytes;
    }

    /// Counts a finished object.
    pub(super) fn record_object(&mut self, cached: u64, left_out: u64) {
        self.objects += 1;
        self.cached += cached;
        self.left_out += left_out;
    }

    /// Counts and shows an object that cannot be warmed.
    pub(super) fn record_failure(&mut self, path: &str, error: &str) {
        self.objects += 1;
        self.failed += 1;
        if self.failed <= MAX_SHOWN_FAILURES {
            self.wipe();
            say(&format!("{}\n", complaint(path, error)));
        }
    }

    /// Shows it, if it is due.
    pub(super) fn show(&mut self) {
        let pause = if self.in_place {
            TERMINAL_INTERVAL
        } else {
            FILE_INTERVAL
        };
        if self.said.elapsed() < pause {
            return;
        }
        self.said = Instant::now();
        let line = self.line();
        if self.in_place {
            say(&format!("\r\x1b[K{line}"));
        } else {
            say(&format!("{line}\n"));
        }
    }

    /// Ends with a summary; an error if any object failed.
    pub(super) fn end(self, notes: &[String]) -> anyhow::Result<String> {
        self.wipe();
        let mut text = format!("{}\n", self.line());
        if self.left_out > 0 {
            let bytes = size(self.left_out);
            text.push_str(&format!(
                "{bytes} were not kept: the profile, the object or a full tier does not allow it\n"
            ));
        }
        for note in notes {
            text.push_str(&format!("{note}\n"));
        }
        if self.failed > 0 {
            let (failed, all) = (self.failed, self.objects);
            bail!(
                "{failed} of {all} objects could not be warmed\n{}",
                text.trim_end()
            );
        }
        Ok(text)
    }

    fn line(&self) -> String {
        let secs = self.began.elapsed().as_secs_f64();
        let rate = (self.fetched as f64 / secs.max(0.001)) as u64;
        let objects = match self.known {
            Some(known) => format!(
                "{} {} of {known} objects",
                bar(self.objects, known),
                self.objects
            ),
            None => format!("{} objects", self.objects),
        };
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(" ({failed} failed)"),
        };
        format!(
            "{objects}{failed}, {} fetched, {} cached already, {}/s, {}",
            size(self.fetched),
            size(self.cached),
            size(rate),
            RoundedDuration(self.began.elapsed()),
        )
    }

    fn wipe(&self) {
        if self.in_place {
            say("\r\x1b[K");
        }
    }
}

fn bar(done: u64, all: u64) -> String {
    let full = (BAR_WIDTH * done.min(all))
        .checked_div(all)
        .unwrap_or(BAR_WIDTH);
    let repeat = |what: &str, times: u64| what.repeat(usize::try_from(times).unwrap_or(0));
    format!("[{}{}]", repeat("=", full), repeat(" ", BAR_WIDTH - full))
}

/// Returns a size for people, to a tenth of its unit.
fn size(bytes: u64) -> String {
    let units = [
        (1u64 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// Writes to standard error. A closed reader is ignored: the work goes on.
fn say(text: &str) {
    let mut err = io::stderr().lock();
    let written: io::Result<()> = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    drop(written);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sums_up_what_came_of_it() {
        let mut progress = WarmProgress::new(Some(4));
        progress.add_fetched(3 << 20);
        progress.record_object(1536, 0);
        let said = progress.line();
        let begin = "[======                  ] 1 of 4 objects, 3.0 MiB fetched, 1.5 KiB cached";
        assert!(said.starts_with(begin), "{said}");
        progress.record_object(0, 5);
        let said = progress.end(&["2 lines could not be read".to_owned()]);
        let said = said.expect("nothing failed");
        assert!(said.contains("\n5 B were not kept"), "{said}");
        assert!(said.ends_with("\n2 lines could not be read\n"), "{said}");
        let mut progress = WarmProgress::new(None);
        progress.record_failure("/a", "no such object");
        let why = progress.end(&[]).expect_err("one failed").to_string();
        assert!(
            why.starts_with("1 of 1 objects could not be warmed\n1 objects (1 failed), "),
            "{why}"
        );
        assert_eq!(bar(0, 0), format!("[{}]", "=".repeat(24)));
    }
}
