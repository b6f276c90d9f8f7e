//! Says what is being measured, and what came out.

use std::fmt;
use std::io::{self, Write};

/// Where the doctor says what it does: a line for each measurement, begun when that begins.
pub struct Progress(Box<dyn Write + Send>);

impl Progress {
    /// Writes to `out`.
    pub fn new(out: impl Write + Send + 'static) -> Self {
        Self(Box::new(out))
    }

    /// A measurement begins.
    pub(super) fn begin(&mut self, what: impl fmt::Display) {
        self.say(format_args!("{what} … "));
    }

    /// It has ended; gives back how.
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

    /// Nobody who reads along any more is no reason to stop.
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
