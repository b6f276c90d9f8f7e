//! The two threads of a disk: the writer and the watch.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tracing::error;

use super::log::Log;
use super::monitor::{LOOK, Watch};
use super::writer::{Wake, Writer};

use tidegate_plan::locks::Recover as _;

/// The time that the end of a disk waits for its threads: enough to write a batch, unless the disk
/// hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The pause after a panic, so that a repeated one does not keep a core busy.
const PAUSE: Duration = Duration::from_secs(1);

/// The threads, until they end.
#[derive(Debug)]
pub(super) struct Threads {
    /// Dropped to end the watch. The queue tells the writer.
    stop: Option<Sender<()>>,
    /// Both threads hold a sender; it is disconnected once both have ended.
    ended: Mutex<Receiver<()>>,
}

impl Threads {
    /// Starts both threads.
    pub(super) fn start(log: &Arc<Log>, watch: Watch) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let (end, ended) = channel::<()>();
        let (log, writers_end) = (Arc::clone(log), end.clone());
        thread::Builder::new()
            .name("tidegate-write".to_owned())
            .spawn(move || {
                write(&log);
                drop((log, writers_end));
            })?;
        thread::Builder::new()
            .name("tidegate-watch".to_owned())
            .spawn(move || {
                look(watch, &stopped);
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
        ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Disconnected)
    }
}

fn write(log: &Arc<Log>) {
    let mut writer = Writer::new(Arc::clone(log));
    if catch_unwind(AssertUnwindSafe(|| writer.load())).is_err() {
        error!(path = %log.dir.display(), "loading the index of the cache disk panicked; what is loaded counts");
        writer.finish_load();
    }
    loop {
        match catch_unwind(AssertUnwindSafe(|| writer.step(Instant::now()))) {
            Ok(Wake::Now) => {}
            Ok(Wake::After(time)) => log.queue.wait(Some(time)),
            Ok(Wake::Asked) => log.queue.wait(None),
            Ok(Wake::Ended) => return,
            Err(_) => {
                error!(path = %log.dir.display(), "the writer of the cache disk panicked; it starts again");
                log.health.writes_failed(&"the writer panicked");
                writer.recover();
                thread::sleep(PAUSE);
            }
        }
    }
}

fn look(mut watch: Watch, stopped: &Receiver<()>) {
    while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        // A check that panics counts as one that saw nothing.
        let looked = catch_unwind(AssertUnwindSafe(|| watch.look(Instant::now())));
        if looked.is_err() {
            error!("looking after the cache disk panicked");
        }
    }
}
