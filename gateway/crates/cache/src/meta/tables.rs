//! The tables of the database, and its two transactions: reading all but the records at start, and
//! writing a batch. Every row is sealed.

use redb::{Database, ReadableTable, TableDefinition};
use tracing::warn;

use super::batch::{Batch, Run, now_micros};
use super::db::failure::DbFailure;
use super::purges::{PurgeEdit, PurgeSet};
use super::record::{seal, unseal};
use super::sweep::Sweep;

pub(super) type RowTable = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Records, by `row_key`.
pub(super) const RECORDS_TABLE: RowTable = TableDefinition::new("records");
/// Purges, as [`PurgeSet::restore`] reads them.
const PURGES_TABLE: RowTable = TableDefinition::new("purges");
/// Pins, as [`crate::pins`] encodes them.
const PINS_TABLE: RowTable = TableDefinition::new("pins");
const STATE_TABLE: RowTable = TableDefinition::new("state");

/// The one row of [`STATE_TABLE`].
const RUN_KEY: &[u8] = b"run";

/// Keys and values of rows, unsealed.
pub(super) type PinRows = Vec<(Vec<u8>, Vec<u8>)>;

/// The content of the file beside the records.
pub(super) struct StoredState {
    pub(super) purges: PurgeSet,
    /// The rows of the pins.
    pub(super) pins: PinRows,
    /// The changes to write if purges were damaged.
    pub(super) mended: Vec<PurgeEdit>,
    /// The last run, and whether it ended in order; `None` for a new file.
    pub(super) before: Option<(Run, bool)>,
}

/// Reads all but the records. Blocks.
pub(super) fn read_state(database: &Database) -> Result<StoredState, DbFailure> {
    // A write transaction, because reading a table that does not exist is an error.
    let transaction = database.begin_write()?;
    let mut purges = PurgeSet::default();
    let mut damaged = false;
    for row in transaction.open_table(PURGES_TABLE)?.iter()? {
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
    for row in transaction.open_table(PINS_TABLE)?.iter()? {
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
    let before = transaction
        .open_table(STATE_TABLE)?
        .get(RUN_KEY)?
        .map(|row| {
            unseal(RUN_KEY, row.value())
                .and_then(decode_run)
                .unwrap_or((unknown, false))
        });
    transaction.abort()?;
    Ok(StoredState {
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
) -> Result<(), DbFailure> {
    let mut transaction = database.begin_write()?;
    // Commits by two phases, and saves the data that a repair would need: opening after a crash then
    // does not walk the whole file.
    transaction.set_quick_repair(true);
    {
        let mut records = transaction.open_table(RECORDS_TABLE)?;
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
        let mut purges = transaction.open_table(PURGES_TABLE)?;
        for edit in &batch.purges {
            match edit {
                PurgeEdit::Clear => purges.retain(|_, _| false)?,
                PurgeEdit::Set(key, number) => {
                    let row = seal(key, &number.to_le_bytes());
                    purges.insert(&**key, &*row)?;
                }
                PurgeEdit::Remove(key) => drop(purges.remove(&**key)?),
            }
        }
        let mut pins = transaction.open_table(PINS_TABLE)?;
        if batch.all_pins {
            pins.retain(|_, _| false)?;
        }
        for (key, row) in &batch.pins {
            match row {
                Some(row) => drop(pins.insert(&**key, &*seal(key, row))?),
                None => drop(pins.remove(&**key)?),
            }
        }
        let mut state = transaction.open_table(STATE_TABLE)?;
        let row = seal(RUN_KEY, &encode_run(run, batch.last));
        state.insert(RUN_KEY, &*row)?;
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
