//! Reports the measurements and their results.

use std::fmt;
use std::io::{self, Write};

/// The doctor's progress: a line for each measurement, begun when that begins.
pub struct Progress(Box<dyn Write + Send>);

impl Progress {
    /// Writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self(Box::new(out))
    }

    /// Reports the begin of a measurement.
    pub(super) fn begin(&mut self, what: impl fmt::Display) {
        self.say(format_args!("{what} … "));
    }

    /// Reports the result of a measurement, and returns it.
    pub(super) fn end<T: fmt::Display, E: fmt::Display>(
        &mut self,
        result: Result<T, E>,
    ) -> Result<T, E> {
        match &result {
            Ok(value) => self.say(format_args!("{value}\n")),
            Err(error) => self.say(format_args!("failed: {error:#}\n")),
        }
        result
    }

    /// Writes text. A closed reader is ignored: the work goes on.
    fn say(&mut self, text: fmt::Arguments<'_>) {
        let written: io::Result<()> = self.0.write_fmt(text).and_then(|()| self.0.flush());
        drop(written);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}
