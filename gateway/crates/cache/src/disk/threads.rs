//! The two threads of a disk: the writer and the monitor.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tracing::error;

use super::log::Log;
use super::monitor::{CHECK_INTERVAL, DiskMonitor};
use super::queue::QueuePhase;
use super::writer::load::Load;
use super::writer::{NextStep, Writer};

use tidegate_telemetry::locks::Recover as _;

/// The time that the end of a disk waits for its threads: enough to write a batch, unless the disk
/// hangs.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause after a panic, so that a repeated one does not keep a core busy.
const PANIC_PAUSE: Duration = Duration::from_secs(1);

/// The pause before a disk that could not be read at the start is tried again.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// The threads, until they end.
#[derive(Debug)]
pub(super) struct DiskThreads {
    /// Dropped to end the monitor. The queue tells the writer.
    stop: Option<Sender<()>>,
    /// Both threads hold a sender; it is disconnected once both have ended.
    ended: Mutex<Receiver<()>>,
}

impl DiskThreads {
    /// Starts both threads.
    pub(super) fn start(log: &Arc<Log>, monitor: DiskMonitor) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let (end, ended) = channel::<()>();
        let (log, writers_end) = (Arc::clone(log), end.clone());
        thread::Builder::new()
            .name("tidegate-write".to_owned())
            .spawn(move || {
                run_writer(&log);
                drop((log, writers_end));
            })?;
        thread::Builder::new()
            .name("tidegate-watch".to_owned())
            .spawn(move || {
                run_monitor(monitor, &stopped);
                drop(end);
            })?;
        Ok(Self {
            stop: Some(stop),
            ended: Mutex::new(ended),
        })
    }

    /// Waits for their end, after the queue was told to end. `false`: at least one hangs.
    pub(super) fn end(&mut self) -> bool {
        self.stop = None;
        let ended = self.ended.lock().recover();
        ended.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Disconnected)
    }
}

fn run_writer(log: &Arc<Log>) {
    let mut writer = Writer::new(Arc::clone(log));
    load_index(&mut writer, log);
    loop {
        match catch_unwind(AssertUnwindSafe(|| writer.step(Instant::now()))) {
            Ok(NextStep::Now) => {}
            Ok(NextStep::After(time)) => log.queue.wait(Some(time)),
            Ok(NextStep::OnWake) => log.queue.wait(None),
            Ok(NextStep::Ended) => return,
            Err(_) => {
                error!(path = %log.dir.display(), "the writer of the cache disk panicked; it starts again");
                log.health.record_write_failure(&"the writer panicked");
                writer.recover();
                thread::sleep(PANIC_PAUSE);
            }
        }
    }
}

/// Loads the index; tries again for as long as the disk cannot be read and the log is open.
fn load_index(writer: &mut Writer, log: &Log) {
    let mut load = Load::default();
    loop {
        match catch_unwind(AssertUnwindSafe(|| writer.load(&mut load))) {
            Ok(true) => return,
            Ok(false) if log.queue.phase() == QueuePhase::Open => log.queue.wait(Some(LOAD_PAUSE)),
            Ok(false) => break,
            Err(_) => {
                error!(path = %log.dir.display(), "loading the index of the cache disk panicked; what is loaded counts");
                break;
            }
        }
    }
    writer.finish_load();
}

fn run_monitor(mut monitor: DiskMonitor, stopped: &Receiver<()>) {
    while stopped.recv_timeout(CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        // A check that panics counts as one that saw nothing.
        let checked = catch_unwind(AssertUnwindSafe(|| monitor.check(Instant::now())));
        if checked.is_err() {
            error!("looking after the cache disk panicked");
        }
    }
}
