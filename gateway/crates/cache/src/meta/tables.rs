//! The tables of the database, and its two transactions: reading all but the records at start, and
//! writing a batch. Every row is sealed.

use redb::{Database, ReadableTable, TableDefinition};
use tracing::warn;

use super::batch::{Batch, Run, now_micros};
use super::failure::Failure;
use super::purges::{Edit, Purges};
use super::record::{seal, unseal};
use super::sweep::Sweep;

pub(super) type Rows = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Records, by `row_key`.
pub(super) const RECORDS: Rows = TableDefinition::new("records");
/// Purges, as [`Purges::restore`] reads them.
const PURGES: Rows = TableDefinition::new("purges");
/// Pins, as [`crate::pins`] encodes them.
const PINS: Rows = TableDefinition::new("pins");
const STATE: Rows = TableDefinition::new("state");

/// The one row of [`STATE`].
const RUN: &[u8] = b"run";

/// Keys and values of rows, unsealed.
pub(super) type PinRows = Vec<(Vec<u8>, Vec<u8>)>;

/// The content of the file beside the records.
pub(super) struct Found {
    pub(super) purges: Purges,
    /// The rows of the pins.
    pub(super) pins: PinRows,
    /// The changes to write if purges were damaged.
    pub(super) mended: Vec<Edit>,
    /// The last run, and whether it ended in order; `None` for a new file.
    pub(super) before: Option<(Run, bool)>,
}

/// Reads all but the records. Blocks.
pub(super) fn read_state(database: &Database) -> Result<Found, Failure> {
    // A write transaction, because reading a table that does not exist is an error.
    let transaction = database.begin_write()?;
    let mut purges = Purges::default();
    let mut damaged = false;
    for row in transaction.open_table(PURGES)?.iter()? {
        let (key, row) = row?;
        let number = unseal(key.value(), row.value())
            .and_then(|payload| payload.try_into().ok())
            .map(u64::from_le_bytes);
        let restored = number.and_then(|number| purges.restore(key.value(), number));
        damaged |= restored.is_none();
    }
    let mended = if damaged {
        warn!("a purge on record is damaged: everything cached counts as purged");
        purges.purge_everything(now_micros())
    } else {
        Vec::new()
    };
    let mut pins = PinRows::new();
    for row in transaction.open_table(PINS)?.iter()? {
        let (key, row) = row?;
        match unseal(key.value(), row.value()) {
            Some(payload) => pins.push((key.value().to_vec(), payload.to_vec())),
            None => warn!("a pin on record is damaged: it is forgotten"),
        }
    }
    // An unreadable state means no orderly end, and removals may have been lost.
    let unknown = Run {
        number: 0,
        trusted: 0,
        sound: u64::MAX,
    };
    let before = transaction.open_table(STATE)?.get(RUN)?.map(|row| {
        unseal(RUN, row.value())
            .and_then(decode_run)
            .unwrap_or((unknown, false))
    });
    transaction.abort()?;
    Ok(Found {
        purges,
        pins,
        mended,
        before,
    })
}

/// Writes a batch durably, and the run that wrote it; `sweep` makes room for its new rows. Blocks.
pub(super) fn write(
    database: &Database,
    batch: &Batch,
    run: Run,
    sweep: Option<&mut Sweep>,
) -> Result<(), Failure> {
    let mut transaction = database.begin_write()?;
    // Commits by two phases, and saves the data that a repair would need: opening after a crash then
    // does not walk the whole file.
    transaction.set_quick_repair(true);
    {
        let mut records = transaction.open_table(RECORDS)?;
        let mut new = 0;
        for (key, row) in &batch.records {
            match row {
                Some(row) => new += usize::from(records.insert(&**key, &**row)?.is_none()),
                None => drop(records.remove(&**key)?),
            }
        }
        if let Some(sweep) = sweep {
            sweep.run(&mut records, new)?;
        }
        let mut purges = transaction.open_table(PURGES)?;
        for edit in &batch.purges {
            match edit {
                Edit::Clear => purges.retain(|_, _| false)?,
                Edit::Set(key, number) => {
                    let row = seal(key, &number.to_le_bytes());
                    purges.insert(&**key, &*row)?;
                }
                Edit::Remove(key) => drop(purges.remove(&**key)?),
            }
        }
        let mut pins = transaction.open_table(PINS)?;
        if batch.all_pins {
            pins.retain(|_, _| false)?;
        }
        for (key, row) in &batch.pins {
            match row {
                Some(row) => drop(pins.insert(&**key, &*seal(key, row))?),
                None => drop(pins.remove(&**key)?),
            }
        }
        let mut state = transaction.open_table(STATE)?;
        let row = seal(RUN, &encode_run(run, batch.last));
        state.insert(RUN, &*row)?;
    }
    transaction.commit()?;
    Ok(())
}

fn encode_run(run: Run, ended: bool) -> Vec<u8> {
    let numbers = [run.number, run.trusted, run.sound].map(u64::to_le_bytes);
    [numbers.as_flattened(), &[u8::from(ended)]].concat()
}

fn decode_run(payload: &[u8]) -> Option<(Run, bool)> {
    let (number, rest) = payload.split_first_chunk()?;
    let (trusted, rest) = rest.split_first_chunk()?;
    // A database from before `sound` existed has two numbers.
    let (sound, rest) = rest.split_first_chunk().unwrap_or((&[0; 8], rest));
    let run = Run {
        number: u64::from_le_bytes(*number),
        trusted: u64::from_le_bytes(*trusted),
        sound: u64::from_le_bytes(*sound),
    };
    Some((run, rest == [1]))
}
