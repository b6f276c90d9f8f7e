//! The lines that wait for standard error. A thread of its own writes them, so that no request waits for their reader.
//!
//! Lines that find no room, or cannot be written, are dropped and counted. A line tells of them once others are written.
//! If only the beginning of a line was written, the next one begins behind a line's end of its own.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

use crate::locks::Recover as _;

/// The most bytes of lines that wait. The thread has as many again while it writes.
const MAX_WAITING: usize = 1 << 20;

/// The lines of a log that wait to be written.
#[derive(Debug, Clone, Default)]
pub(super) struct LineQueue(Arc<QueueMonitor>);

#[derive(Debug, Default)]
struct QueueMonitor {
    state: Mutex<State>,
    /// Notified when a line comes that finds the queue empty.
    filled: Condvar,
    /// Notified when lines were written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The lines, each with its end.
    waiting: Vec<u8>,
    /// Counts the bytes that were taken in.
    taken: u64,
    /// Counts the bytes of those that the thread is done with.
    done: u64,
    /// Counts the lines that were dropped.
    dropped: u64,
    /// Counts those of them that no line has told of.
    untold: u64,
}

impl State {
    fn drop_lines(&mut self, lines: u64) {
        self.dropped += lines;
        self.untold += lines;
    }
}

impl LineQueue {
    /// Has a thread write the lines to `out`, and call `tell` with the number of lines that were dropped before.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        &self,
        out: impl Write + Send + 'static,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<()> {
        let queue = self.clone();
        let thread = std::thread::Builder::new().name("log".to_owned());
        thread.spawn(move || queue.write_all(out, tell)).map(drop)
    }

    /// Adds a line. It is dropped if there is no room.
    pub(super) fn put(&self, line: &[u8]) {
        let mut state = self.0.state.lock().recover();
        let was_empty = state.waiting.is_empty();
        if state.waiting.len() + line.len() <= MAX_WAITING {
            state.waiting.extend_from_slice(line);
            state.taken += line.len() as u64;
        } else {
            state.drop_lines(1);
        }
        drop(state);
        if was_empty {
            self.0.filled.notify_one();
        }
    }

    /// Waits until the lines so far are written, no longer than `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let state = self.0.state.lock().recover();
        let taken = state.taken;
        let waits = |state: &mut State| state.done < taken;
        let wait = self.0.written.wait_timeout_while(state, timeout, waits);
        drop(wait.recover());
    }

    /// Returns how many lines were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.0.state.lock().recover().dropped
    }

    /// The thread's work; it has no end.
    fn write_all(&self, mut out: impl Write, tell: impl Fn(u64)) {
        let (mut lines, mut takes_lines, mut is_torn) = (Vec::new(), true, false);
        loop {
            let untold = self.wait(&mut lines, takes_lines);
            if untold > 0 {
                // The queue is empty just now, so this line has room, but for a flood of others.
                tell(untold);
            }
            let mut failed = 0;
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                takes_lines = write_line(&mut out, line, &mut is_torn);
                failed += u64::from(!takes_lines);
            }
            let mut state = self.0.state.lock().recover();
            state.done += lines.len() as u64;
            state.drop_lines(failed);
            drop(state);
            lines.clear();
            self.0.written.notify_all();
        }
    }

    /// Waits for lines, and takes them. Returns the number of dropped ones that are to be told of: none while the reader
    /// `takes_lines` not.
    fn wait(&self, lines: &mut Vec<u8>, takes_lines: bool) -> u64 {
        let waits =
            |state: &mut State| state.waiting.is_empty() && (state.untold == 0 || !takes_lines);
        let state = self.0.state.lock().recover();
        let mut state = self.0.filled.wait_while(state, waits).recover();
        std::mem::swap(&mut state.waiting, lines);
        if takes_lines {
            std::mem::take(&mut state.untold)
        } else {
            0
        }
    }
}

/// Writes a line, behind the end of the one before it if that `is_torn`. Returns whether the reader took it.
fn write_line(out: &mut impl Write, line: &[u8], is_torn: &mut bool) -> bool {
    if *is_torn && out.write_all(b"\n").is_err() {
        return false;
    }
    *is_torn = false;
    let mut left = line;
    while !left.is_empty() {
        match out.write(left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                *is_torn = left.len() < line.len();
                return false;
            }
            Ok(taken) => left = &left[taken..],
        }
    }
    true
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter(self)
    }
}

/// Takes each write as one line: so the subscriber writes them.
#[derive(Debug)]
pub(super) struct LineWriter<'a>(&'a LineQueue);

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
