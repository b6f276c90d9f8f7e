//! Logs: one line an event on standard error, as text or JSON.
//!
//! No key or header can forge a line or control a terminal. Text lines escape every control
//! character, whatever the type of the value, and JSON escapes those below U+0020 by itself.
//!
//! No line blocks or ends anything: see [`queue`].

mod queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::Subscriber;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::Directive;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{self, Writer};

use self::queue::LineQueue;

/// The target of access log events: one a request, at level `info`.
pub const ACCESS: &str = "tidegate::access";

/// The longest wait of the process's end for standard error.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The settings of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logging {
    /// The format of a line.
    pub format: Format,
    /// The lowest level that is logged: `error`, `warn`, `info`, `debug` or `trace`; also by
    /// module, as in `info,tidegate_engine=debug`.
    pub level: String,
    /// Whether each request is logged in one line, whatever `level` says.
    pub access: bool,
}

/// The format of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text for people: time, level, target, message, fields.
    Text,
    /// JSON for machines: one object, with the fields at its top level.
    Json,
}

/// The errors of setting up logging.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// `level` is not understood.
    #[error("`{level}` is no log level: {reason}")]
    Level {
        /// The configured level.
        level: String,
        /// The fault in it.
        reason: String,
    },
    /// The process has no log whose level could be changed.
    #[error("logging is not set up")]
    None,
    /// The process has a subscriber already.
    #[error("logging is set up already")]
    Twice,
    /// The system gives no thread to write the log.
    #[error("cannot start the thread of the log: {0}")]
    Thread(io::Error),
}

/// The target of the NATS library's lines.
const NATS: &str = "async_nats";

/// Replaces the filter of a subscriber.
type ReplaceFilter = Box<dyn Fn(EnvFilter) -> bool + Send + Sync>;

/// The log of this process.
static OF_PROCESS: OnceLock<ProcessLog> = OnceLock::new();

struct ProcessLog {
    replace_filter: ReplaceFilter,
    lines: LineQueue,
}

impl Logging {
    /// Sends the log of this process to standard error, coloured if that is a terminal. Panics are logged as well.
    ///
    /// # Errors
    /// `level` is not understood, logging was set up before, or the system gives no thread.
    pub fn init(&self) -> Result<(), LoggingError> {
        let colour = io::stderr().is_terminal();
        let lines = LineQueue::default();
        let (subscriber, replace_filter) = self.subscriber(lines.clone(), colour)?;
        tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Twice)?;
        let started = lines.start(io::stderr(), log_dropped);
        started.map_err(LoggingError::Thread)?;
        let log = ProcessLog {
            replace_filter,
            lines,
        };
        OF_PROCESS.set(log).map_err(|_| LoggingError::Twice)?;
        std::panic::set_hook(Box::new(log_panic));
        Ok(())
    }

    /// Gives the log of this process this level, and switches the log of requests on or off. The format stays.
    ///
    /// # Errors
    /// `level` is not understood, or logging was not set up.
    pub fn apply(&self) -> Result<(), LoggingError> {
        let filter = self.filter()?;
        let log = OF_PROCESS.get().ok_or(LoggingError::None)?;
        let replaced = (log.replace_filter)(filter);
        replaced.then_some(()).ok_or(LoggingError::None)
    }

    /// Checks whether `level` is understood: for `tidegate check`.
    ///
    /// # Errors
    /// [`LoggingError::Level`].
    pub fn check(&self) -> Result<(), LoggingError> {
        self.filter().map(drop)
    }

    fn subscriber<W>(
        &self,
        writer: W,
        colour: bool,
    ) -> Result<(Box<dyn Subscriber + Send + Sync>, ReplaceFilter), LoggingError>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let builder = tracing_subscriber::fmt()
            .with_env_filter(self.filter()?)
            .with_writer(writer)
            .log_internal_errors(false)
            .with_ansi(colour);
        Ok(match self.format {
            Format::Text => {
                let builder = builder
                    .fmt_fields(format::debug_fn(field).delimited(" "))
                    .with_filter_reloading();
                let handle = builder.reload_handle();
                let replace = move |filter| handle.reload(filter).is_ok();
                (Box::new(builder.finish()), Box::new(replace))
            }
            Format::Json => {
                let builder = builder
                    .json()
                    .flatten_event(true)
                    .with_current_span(false)
                    .with_filter_reloading();
                let handle = builder.reload_handle();
                let replace = move |filter| handle.reload(filter).is_ok();
                (Box::new(builder.finish()), Box::new(replace))
            }
        })
    }

    fn filter(&self) -> Result<EnvFilter, LoggingError> {
        let filter =
            EnvFilter::builder()
                .parse(&self.level)
                .map_err(|error| LoggingError::Level {
                    level: self.level.clone(),
                    reason: error.to_string(),
                })?;
        let level = if self.access { "info" } else { "off" };
        let access: Directive = format!("{ACCESS}={level}")
            .parse()
            .expect("a target and a level");
        let filter = filter.add_directive(access);
        // The events say the same, and its lines come with each attempt to connect.
        Ok(match self.level.contains(NATS) {
            true => filter,
            false => filter.add_directive(format!("{NATS}=off").parse().expect("a directive")),
        })
    }
}

/// Writes a message to standard error, behind the lines of the log so far. It is lost if standard error takes nothing.
pub fn print(message: &str) {
    let text = format!("{message}\n");
    match OF_PROCESS.get() {
        Some(log) => log.lines.put(text.as_bytes()),
        None => drop(io::stderr().write_all(text.as_bytes())),
    }
}

/// Waits a bounded time until the lines of the log are written. Called at the end of the process.
pub fn flush() {
    if let Some(log) = OF_PROCESS.get() {
        log.lines.flush(END_TIMEOUT);
    }
}

/// Returns how many lines of this process's log were dropped.
#[must_use]
pub fn dropped_lines() -> u64 {
    OF_PROCESS.get().map_or(0, |log| log.lines.dropped())
}

fn log_dropped(lines: u64) {
    tracing::warn!(lines, "lines of the log were dropped");
}

/// Logs a panic, and has it written: the process may end over it.
fn log_panic(panic: &PanicHookInfo<'_>) {
    if !tracing::enabled!(tracing::Level::ERROR) {
        print(&panic.to_string());
        return flush();
    }
    let backtrace = Backtrace::capture();
    let is_wanted = backtrace.status() == BacktraceStatus::Captured;
    tracing::error!(
        reason = panic.payload_as_str(),
        at = panic.location().map(tracing::field::display),
        thread = std::thread::current().name(),
        backtrace = is_wanted.then(|| tracing::field::display(backtrace)),
        "a thread panicked"
    );
    flush();
}

/// Writes one field of a text line; control characters are escaped whatever the type of the value.
fn field(out: &mut Writer<'_>, field: &Field, value: &dyn std::fmt::Debug) -> std::fmt::Result {
    if field.name() != "message" {
        write!(out, "{}=", field.name())?;
    }
    write!(EscapingWriter(out), "{value:?}")
}

struct EscapingWriter<'a, 'w>(&'a mut Writer<'w>);

impl std::fmt::Write for EscapingWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            if c.is_control() {
                write!(self.0, "{}", c.escape_default())?;
            } else {
                self.0.write_char(c)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `events` writes under this configuration.
    fn logged(logging: &Logging, events: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let (subscriber, _) = logging
            .subscriber(move || writer.clone(), false)
            .expect("a valid level");
        tracing::subscriber::with_default(subscriber, events);
        let bytes = lines.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("text")
    }

    fn with(format: Format, level: &str, access: bool) -> Logging {
        Logging {
            format,
            level: level.to_owned(),
            access,
        }
    }

    #[test]
    fn no_value_can_forge_a_line_or_drive_a_terminal() {
        let evil = "a\nERROR forged\r\u{1b}[31m\u{9b}";
        for format in [Format::Text, Format::Json] {
            let text = logged(&with(format, "info", false), || {
                tracing::info!(plain = evil, shown = %evil, "message {evil}");
            });
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            let inner = text.trim_end_matches('\n');
            // JSON may leave U+0080 to U+009F as they are (RFC 8259, 7).
            let harmful = |c: char| c.is_control() && (c < ' ' || format == Format::Text);
            assert!(!inner.contains(harmful), "{inner:?}");
            assert!(inner.contains("ERROR forged"));
        }
    }

    #[test]
    fn json_lines_are_objects_with_the_fields_on_top() {
        let text = logged(&with(Format::Json, "info", true), || {
            tracing::info!(target: ACCESS, key = "a \"b\"", bytes = 7u64, "request");
        });
        let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(line["target"], ACCESS);
        assert_eq!(line["key"], "a \"b\"");
        assert_eq!(line["bytes"], 7);
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["message"], "request");
    }

    #[test]
    fn the_access_log_has_a_switch_of_its_own() {
        let events = || {
            tracing::info!(target: ACCESS, status = 200, "request");
            tracing::info!("other");
            tracing::warn!("trouble");
        };
        let rows = [
            ("info", true, [true, true, true]),
            ("info", false, [false, true, true]),
            ("warn", true, [true, false, true]),
            ("off", true, [true, false, false]),
            ("tidegate::access=info", false, [false, false, false]),
        ];
        for (level, access, expected) in rows {
            let text = logged(&with(Format::Text, level, access), events);
            let seen = ["request", "other", "trouble"].map(|word| text.contains(word));
            assert_eq!(seen, expected, "{level} {access}: {text}");
        }
    }

    #[test]
    fn the_level_changes_while_it_is_in_use() {
        for format in [Format::Text, Format::Json] {
            let lines = Lines::default();
            let writer = lines.clone();
            let before = with(format, "warn", false);
            let (subscriber, replace) = before
                .subscriber(move || writer.clone(), false)
                .expect("a valid level");
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!("one");
                let after = with(format, "info", true).filter().expect("a valid level");
                assert!(replace(after));
                tracing::info!("two");
                tracing::info!(target: ACCESS, "three");
            });
            let bytes = lines.0.lock().expect("not poisoned").clone();
            let text = String::from_utf8(bytes).expect("text");
            let seen = ["one", "two", "three"].map(|word| text.contains(word));
            assert_eq!(seen, [false, true, true], "{text}");
        }
    }

    #[test]
    fn a_wrong_level_is_named() {
        let error = with(Format::Text, "info,tidegate=loud", false)
            .check()
            .expect_err("no such level");
        assert!(error.to_string().contains("tidegate=loud"), "{error}");
    }
}
