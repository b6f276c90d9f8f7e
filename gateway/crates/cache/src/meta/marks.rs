//! Durable marks of keys that are being changed: a small file of blocks, beside the database.
//!
//! A mark is durable before the bucket is asked to change its key. A thread of its own writes all
//! waiting marks into free blocks, with one flush for all. A mark costs a flush of the disk, or its
//! share of one. Once the database has durably removed the old version of each key in a block, the
//! block is zeroed, without a flush. At the start, each complete block names keys whose version on
//! record may be older than the bucket's: their rows are removed. An incomplete block was never
//! confirmed to the writer, so the bucket was not asked.

mod block;
mod file;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use std::{io, mem, thread};

use tokio::sync::oneshot;
use tracing::{info, warn};

use self::block::{MarkBlock, pack};
pub(super) use self::file::MarkFile;
use crate::MetaError;
use tidegate_telemetry::locks::Recover as _;

/// The time that the owner waits for the thread at the end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The identity of a mark, from [`Marks::mark`] to [`Marks::release`].
pub(super) type MarkToken = u64;

/// The receiver of the result: whether a mark is durable.
pub(super) type MarkReceiver = oneshot::Receiver<Result<(), MetaError>>;

/// The marks, and the thread that writes them.
#[derive(Debug)]
pub(super) struct Marks {
    shared: Arc<MarksMonitor>,
    /// A flush that takes longer hangs.
    write_timeout: Duration,
    /// Disconnected when the thread has ended.
    writer: Mutex<Receiver<()>>,
}

#[derive(Debug, Default)]
struct MarksMonitor {
    state: Mutex<MarksState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct MarksState {
    next: MarkToken,
    waiting: VecDeque<WaitingMark>,
    /// Marks that are not released; the block of each written one.
    tokens: HashMap<MarkToken, Option<u32>>,
    /// Blocks with marks, and the number of unreleased marks in each.
    live: HashMap<u32, (MarkBlock, usize)>,
    /// Blocks without valid marks, to be zeroed.
    unused: Vec<u32>,
    /// The start of the flush under way.
    flushing_since: Option<Instant>,
    fails: bool,
    ended: bool,
}

/// A mark that is not written yet.
#[derive(Debug)]
struct WaitingMark {
    token: MarkToken,
    key: Vec<u8>,
    sender: oneshot::Sender<Result<(), MetaError>>,
}

impl Marks {
    /// Starts the thread over a file without valid marks.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(file: MarkFile, write_timeout: Duration) -> io::Result<Self> {
        let shared = Arc::new(MarksMonitor::default());
        let writing = Arc::clone(&shared);
        let (ended, writer) = channel();
        thread::Builder::new()
            .name("tidegate-marks".to_owned())
            .spawn(move || {
                let _ended: std::sync::mpsc::Sender<()> = ended;
                writing.run(file);
            })?;
        Ok(Self {
            shared,
            write_timeout,
            writer: Mutex::new(writer),
        })
    }

    /// Marks the row of a key. The mark counts until it is released, even if the caller has gone.
    pub(super) fn mark(&self, key: Vec<u8>) -> (MarkToken, MarkReceiver) {
        let (sender, result) = oneshot::channel();
        let mut state = self.shared.lock();
        state.next += 1;
        let token = state.next;
        let hangs = |since: Instant| since.elapsed() >= self.write_timeout;
        if state.flushing_since.is_some_and(hangs) {
            let _ = sender.send(Err(MetaError("the state disk hangs".to_owned())));
        } else {
            state.tokens.insert(token, None);
            state.waiting.push_back(WaitingMark { token, key, sender });
            self.shared.wake.notify_one();
        }
        (token, result)
    }

    /// Releases marks whose keys have no older version on disk any more.
    pub(super) fn release(&self, tokens: impl IntoIterator<Item = MarkToken>) {
        let mut state = self.shared.lock();
        for token in tokens {
            state.release(token);
        }
        if !state.unused.is_empty() {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.wake.notify_one();
        let writer = self.writer.lock().recover();
        if writer.recv_timeout(END_TIMEOUT) == Err(RecvTimeoutError::Timeout) {
            warn!("the marks of changed keys hang; their thread is left behind");
        }
    }
}

impl MarksState {
    fn release(&mut self, token: MarkToken) {
        match self.tokens.remove(&token) {
            Some(Some(block)) => self.leave(block),
            Some(None) => self.waiting.retain(|waiting| waiting.token != token),
            None => {}
        }
    }

    fn leave(&mut self, number: u32) {
        if let Some((_, marks)) = self.live.get_mut(&number) {
            *marks -= 1;
            if *marks == 0 {
                self.live.remove(&number);
                self.unused.push(number);
            }
        }
    }

    /// Returns the first `count` numbers of empty blocks, or fewer if there are not so many.
    fn free(&self, count: usize) -> Vec<u32> {
        let unused: HashSet<u32> = self.unused.iter().copied().collect();
        let taken = |number: &u32| self.live.contains_key(number) || unused.contains(number);
        let numbers = (0..file::MAX_BLOCKS).filter(|number| !taken(number));
        numbers.take(count).collect()
    }
}

impl MarksMonitor {
    fn lock(&self) -> MutexGuard<'_, MarksState> {
        self.state.lock().recover()
    }

    fn run(&self, mut file: MarkFile) {
        loop {
            let (waiting, unused) = {
                let idle = |state: &mut MarksState| {
                    state.waiting.is_empty() && state.unused.is_empty() && !state.ended
                };
                let state = self.wake.wait_while(self.lock(), idle);
                let mut state = state.recover();
                if state.ended {
                    return;
                }
                (mem::take(&mut state.waiting), mem::take(&mut state.unused))
            };
            // A block that cannot be zeroed names its keys once more at the next start, which does no
            // harm.
            for number in unused {
                let _ = file.clear(number);
            }
            if !waiting.is_empty() {
                self.flush(&mut file, waiting);
            }
        }
    }

    /// Writes marks, and tells the waiters the result.
    fn flush(&self, file: &mut MarkFile, waiting: VecDeque<WaitingMark>) {
        let blocks = pack(waiting.iter().map(|waiting| waiting.key.as_slice()));
        self.lock().flushing_since = Some(Instant::now());
        let is_there = file.is_there();
        let (numbers, live) = {
            let state = self.lock();
            let numbers = state.free(blocks.len());
            let live = |(number, (block, _)): (&u32, &(MarkBlock, usize))| (*number, block.clone());
            // The content of a deleted file.
            let live: Vec<_> = match is_there {
                true => Vec::new(),
                false => state.live.iter().map(live).collect(),
            };
            (numbers, live)
        };
        let written = match numbers.len() == blocks.len() {
            true => file.write(numbers.iter().copied().zip(&blocks), &live),
            false => Err(io::Error::other("too many keys are being changed")),
        };
        let result = written.map_err(|error| MetaError(error.to_string()));
        self.lock()
            .settle(numbers, blocks, &waiting, result.is_ok());
        self.tell_operator(&result);
        for WaitingMark { sender, .. } in waiting {
            let _ = sender.send(result.clone());
        }
    }

    fn tell_operator(&self, result: &Result<(), MetaError>) {
        let failed = mem::replace(&mut self.lock().fails, result.is_err());
        match result {
            Err(reason) if !failed => {
                warn!(%reason, "the state disk takes no marks of changed keys; writes are refused");
            }
            Ok(()) if failed => info!("the state disk takes marks again; writes are taken again"),
            _ => {}
        }
    }
}

impl MarksState {
    /// Enters the written marks; one that was released meanwhile, or failed, no longer counts.
    fn settle(
        &mut self,
        numbers: Vec<u32>,
        blocks: Vec<MarkBlock>,
        waiting: &VecDeque<WaitingMark>,
        written: bool,
    ) {
        self.flushing_since = None;
        let mut waiting = waiting.iter();
        for (number, block) in numbers.into_iter().zip(blocks) {
            let mut marks = 0;
            for waiting in waiting.by_ref().take(block.marks) {
                if let Some(place) = self.tokens.get_mut(&waiting.token).filter(|_| written) {
                    *place = Some(number);
                    marks += 1;
                }
            }
            match marks {
                0 => self.unused.push(number),
                marks => drop(self.live.insert(number, (block, marks))),
            }
        }
    }
}

#[cfg(test)]
mod tests;
