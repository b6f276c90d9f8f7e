//! The numbers of files and folders that were renamed here.
//!
//! A number follows from bucket and key, so that a restart and a replaced object keep it. A file that is renamed would
//! get another number as soon as the kernel forgets it. Library servers find a moved book by its number, hours later or
//! after a restart. So the table keeps the number of each renamed key, and a file keeps the table across
//! restarts. A number that the table has given to one key is never given to another. ADR 0053 has the reasons.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::future::BoxFuture;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

use super::ROOT_INO;
use tidegate_engine::table_log::TableLog;
use tidegate_engine::table_log::rows::{Row, RowFile};
use tidegate_engine::{Engine, InvalidationSubscriber, RenamedFolder, Scope};
use tidegate_plan::OriginId;
use tidegate_telemetry::locks::Recover as _;

/// The maximum number of keys in a generation; there are two. The keys that were renamed longest ago are forgotten, and
/// get the number of their key.
const MAX_GENERATION: usize = 1 << 17;

/// The renames of folders that are told apart: each mount of the process reports one.
const MAX_RENAMES: usize = 64;

/// The hash by which the table knows a key.
type Address = u128;

/// No file has this number: a row with it says that the key has no number of its own any more.
const NO_NUMBER: u64 = 0;

/// The numbers that are not those of their keys, for all mounts of a process.
#[derive(Debug, Default)]
pub struct NumberTable {
    state: Arc<Mutex<TableState>>,
}

#[derive(Debug)]
struct TableState {
    young: Generation,
    old: Generation,
    /// The latest renames of folders whose numbers were moved.
    renames: VecDeque<(OriginId, String)>,
    log: TableLog<RowFile<NumberRow>>,
}

impl Default for TableState {
    fn default() -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
            renames: VecDeque::new(),
            log: TableLog::new(
                "the inode numbers of files that are renamed here do not outlive this process",
            ),
        }
    }
}

/// The number of a key, as the file has it.
#[derive(Debug, Clone, Copy)]
struct NumberRow {
    address: Address,
    number: u64,
}

impl Row for NumberRow {
    const FILE_NAME: &'static str = "numbers-1";
    const BYTES: usize = 16 + 8;
    const MAX_ROWS: u64 = 4 * MAX_GENERATION as u64;
    const SEED: u64 = 0x6e75_6d62;

    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.address.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (address, number) = bytes.split_first_chunk()?;
        Some(Self {
            address: u128::from_le_bytes(*address),
            number: u64::from_le_bytes(number.try_into().ok()?),
        })
    }
}

#[derive(Debug, Default)]
struct Generation {
    numbers: HashMap<Address, u64>,
    addresses: HashMap<u64, Address>,
}

impl Generation {
    fn remove(&mut self, address: Address) -> bool {
        let number = self.numbers.remove(&address);
        number.is_some_and(|number| self.addresses.remove(&number).is_some())
    }

    fn remove_number(&mut self, number: u64) {
        if let Some(address) = self.addresses.remove(&number) {
            self.numbers.remove(&address);
        }
    }
}

impl TableState {
    fn get(&self, address: Address) -> Option<u64> {
        let young = self.young.numbers.get(&address);
        young.or_else(|| self.old.numbers.get(&address)).copied()
    }

    fn owner(&self, number: u64) -> Option<Address> {
        let young = self.young.addresses.get(&number);
        young.or_else(|| self.old.addresses.get(&number)).copied()
    }

    /// Gives a number to a key. Another key that had it loses it.
    fn insert(&mut self, address: Address, number: u64) {
        for generation in [&mut self.young, &mut self.old] {
            generation.remove(address);
            generation.remove_number(number);
        }
        if number == NO_NUMBER {
            return;
        }
        if self.young.numbers.len() >= MAX_GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.numbers.insert(address, number);
        self.young.addresses.insert(number, address);
    }

    /// Returns the number of a key that has no node: the one that was given to it, or the first from its own on that no
    /// other key was given.
    fn number_of(&self, origin: OriginId, key: &str) -> u64 {
        let address = address(origin, key);
        let mut number = self
            .get(address)
            .unwrap_or_else(|| hashed_number(origin, key));
        while self.owner(number).is_some_and(|owner| owner != address) {
            number = next(number);
        }
        number
    }

    fn keep(&mut self, address: Address, number: u64) {
        self.insert(address, number);
        self.log.push(NumberRow { address, number });
    }

    /// Returns all numbers, the oldest first.
    fn all(&self) -> Vec<NumberRow> {
        let all = self.old.numbers.iter().chain(&self.young.numbers);
        let row = |(&address, &number)| NumberRow { address, number };
        all.map(row).collect()
    }
}

impl NumberTable {
    /// Reads the numbers of an earlier process from `directory`, and keeps all new ones there. If that fails, they are
    /// kept in memory only. Blocks.
    #[must_use]
    pub fn open(directory: &Path) -> Self {
        let mut state = TableState::default();
        let opened = RowFile::open(directory, |row: NumberRow| {
            state.insert(row.address, row.number);
        });
        state.log.attach(opened);
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().recover()
    }

    /// Returns the number that was given to a key.
    pub(super) fn get(&self, origin: OriginId, key: &str) -> Option<u64> {
        self.lock().get(address(origin, key))
    }

    /// Returns whether the number was given to another key.
    pub(super) fn is_taken(&self, origin: OriginId, key: &str, number: u64) -> bool {
        let owner = self.lock().owner(number);
        owner.is_some_and(|owner| owner != address(origin, key))
    }

    /// Gives a number to a key.
    pub(super) fn keep(&self, origin: OriginId, key: &str, number: u64) {
        self.lock().keep(address(origin, key), number);
    }

    /// Takes its number from a key that is gone, or has the number that follows from it.
    pub(super) fn forget(&self, origin: OriginId, key: &str) {
        let (mut state, address) = (self.lock(), address(origin, key));
        if state.get(address).is_some() {
            state.keep(address, NO_NUMBER);
        }
    }

    /// Moves the numbers of renamed folders from now on, also of those that no mount shows. Call it before the first mount.
    pub fn subscribe_to(self: &Arc<Self>, engine: &Engine) {
        let subscriber: Arc<dyn InvalidationSubscriber> = self.clone();
        engine.subscribe(Arc::downgrade(&subscriber));
    }

    /// Gives the numbers of a renamed folder, of its objects and of the folders between to their new keys, once. Each row
    /// gives a number to the new key and takes it from the old one, so that a rename that is reported again after a crash
    /// moves those that were not moved then.
    pub(super) fn move_folder(&self, origin: OriginId, folder: &RenamedFolder) {
        let mut rests = BTreeSet::from([""]);
        for object in &folder.objects {
            let rest = object.rest.as_str();
            rests.extend(rest.match_indices('/').map(|(at, _)| &rest[..=at]));
            rests.insert(rest);
        }
        let mut state = self.lock();
        let rename = (origin, folder.id.clone());
        if state.renames.contains(&rename) {
            return;
        }
        state.renames.truncate(MAX_RENAMES - 1);
        state.renames.push_front(rename);
        for rest in rests {
            let (old, new) = (
                format!("{}{rest}", folder.from),
                format!("{}{rest}", folder.to),
            );
            let is_there = |key: &str| state.get(address(origin, key)).is_some();
            if folder.is_resumed && is_there(&new) && !is_there(&old) {
                continue;
            }
            let number = state.number_of(origin, &old);
            state.keep(address(origin, &new), number);
        }
    }

    /// Writes new rows to the file, and waits for that a bounded time.
    pub(crate) async fn write_out(&self) {
        let (log, state) = (self.lock().log.clone(), self.state.clone());
        log.write_out(move || state.lock().recover().all()).await;
    }
}

impl InvalidationSubscriber for NumberTable {
    /// A number outlives what was cached.
    fn purged<'a>(&'a self, _: OriginId, _: &'a Scope) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn renamed<'a>(&'a self, origin: OriginId, folder: &'a RenamedFolder) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.move_folder(origin, folder);
            self.write_out().await;
        })
    }
}

/// Returns the number that follows from bucket and key.
pub(super) fn hashed_number(origin: OriginId, key: &str) -> u64 {
    free(xxh3_64_with_seed(key.as_bytes(), origin.0))
}

/// Returns the number that a key gets if another one has this.
pub(super) fn next(ino: u64) -> u64 {
    free(ino.wrapping_add(1))
}

/// Replaces the numbers 0 (none) and 1 (the root).
fn free(ino: u64) -> u64 {
    if ino > ROOT_INO { ino } else { ROOT_INO + 1 }
}

fn address(origin: OriginId, key: &str) -> Address {
    xxh3_128_with_seed(key.as_bytes(), origin.0)
}

#[cfg(test)]
mod tests;
