//! The numbers of files and folders that were renamed here.
//!
//! A number follows from bucket and key, so that a restart and a replaced object keep it. A file that is renamed would
//! get another number as soon as the kernel forgets it. Library servers find a moved book by its number, hours later or
//! after a restart. So the table keeps the number of each renamed key, and a file keeps the table across
//! restarts. A number that the table has given to one key is never given to another. ADR 0053 has the reasons.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use tidegate_engine::table_log::TableLog;
use tidegate_engine::table_log::rows::{Row, RowFile};
use tidegate_plan::OriginId;
use tidegate_telemetry::locks::Recover as _;

/// The maximum number of keys in a generation; there are two. The keys that were renamed longest ago are forgotten, and
/// get the number of their key.
const MAX_GENERATION: usize = 1 << 17;

/// The hash by which the table knows a key.
type Address = u128;

/// No file has this number: a row with it says that the key has no number of its own any more.
const NO_NUMBER: u64 = 0;

/// The numbers that are not those of their keys, for all mounts of a process.
#[derive(Debug, Default)]
pub struct NumberTable {
    state: Mutex<TableState>,
}

#[derive(Debug)]
struct TableState {
    young: Generation,
    old: Generation,
    log: TableLog<RowFile<NumberRow>>,
}

impl Default for TableState {
    fn default() -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
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
            state: Mutex::new(state),
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

    /// Writes new rows to the file, and waits for that a bounded time.
    pub(crate) async fn write_out(self: &Arc<Self>) {
        let (log, table) = (self.lock().log.clone(), self.clone());
        log.write_out(move || table.lock().all()).await;
    }
}

fn address(origin: OriginId, key: &str) -> Address {
    xxh3_128_with_seed(key.as_bytes(), origin.0)
}

#[cfg(test)]
mod tests;
