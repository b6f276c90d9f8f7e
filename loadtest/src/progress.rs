//! A progress bar on the standard error stream.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

const WIDTH: u64 = 30;
/// The redraw interval: short enough for the eye, too long to disturb the measurement.
const REDRAW: Duration = Duration::from_millis(200);

/// The progress of a task: a bar on a terminal; elsewhere one line at the end.
#[derive(Debug)]
pub struct Bar {
    label: String,
    total: u64,
    done: u64,
    since: Instant,
    drawn: Option<Instant>,
    terminal: bool,
}

impl Bar {
    /// Starts a bar; `total` and [`Bar::add`] use the same unit.
    #[must_use]
    pub fn new(label: impl Into<String>, total: u64) -> Self {
        Self {
            label: label.into(),
            total: total.max(1),
            done: 0,
            since: Instant::now(),
            drawn: None,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Adds `more` to the finished amount.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        let due = self.drawn.is_none_or(|drawn| drawn.elapsed() >= REDRAW);
        if self.terminal && due {
            self.drawn = Some(Instant::now());
            eprint!("\r   {}", self.line());
            let _ = std::io::stderr().flush();
        }
    }

    fn line(&self) -> String {
        let full = (self.done.min(self.total) * WIDTH / self.total) as usize;
        let percent = self.done.min(self.total) * 100 / self.total;
        let mut line = format!("{:<32} [", self.label);
        line.push_str(&"#".repeat(full));
        line.push_str(&" ".repeat(WIDTH as usize - full));
        let _ = write!(
            line,
            "] {percent:>3} %, {:.0} s",
            self.since.elapsed().as_secs_f64()
        );
        line
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        let start = if self.terminal { "\r" } else { "" };
        eprintln!("{start}   {}", self.line());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_and_does_not_overflow() {
        let mut bar = Bar::new("pages", 4);
        bar.add(1);
        assert!(bar.line().contains("[#######  "), "{}", bar.line());
        assert!(bar.line().contains(" 25 %"));
        bar.add(9);
        assert!(bar.line().contains("100 %"));
    }
}
