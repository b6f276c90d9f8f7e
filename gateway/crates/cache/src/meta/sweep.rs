//! Bounds the database file: the rows that were confirmed longest ago are removed for new ones.
//!
//! redb writes into the pages of removed rows, and never gives them back to the file system. So a file at
//! its limit stays within it if at least as many rows are removed as are added. They are removed in the
//! batch that adds the others: a sweep costs no commit of its own. It looks at a stretch of rows in key
//! order, from where the last one stopped, and removes the half that was confirmed longest ago. If the
//! row of a key is gone, its next reader costs one request; after it, the key's cached chunks are found
//! again.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use prometheus_client::metrics::counter::Counter;
use redb::{ReadableTable as _, Table};

use super::db::failure::DbFailure;
use super::record::{decode, unseal};

/// Rows removed in addition to as many as were added: the space of removed rows is not used to the last
/// byte.
const EXTRA_ROWS: usize = 64;

/// A unit of [`std::os::unix::fs::MetadataExt::blocks`].
const BLOCK_UNIT: u64 = 512;

/// The limit of the file, and the point where the last sweep stopped.
#[derive(Debug)]
pub(super) struct Sweep {
    limit: u64,
    swept: Counter,
    /// The key at which the next sweep begins.
    from: Vec<u8>,
}

impl Default for Sweep {
    fn default() -> Self {
        Self::new(u64::MAX, Counter::default())
    }
}

impl Sweep {
    /// Creates the sweep of a file that may take `limit` bytes. `swept` counts the removed rows.
    pub(super) fn new(limit: u64, swept: Counter) -> Self {
        Self {
            limit,
            swept,
            from: Vec::new(),
        }
    }

    /// Returns whether the file has reached its limit, by its bytes on disk without holes. Blocks.
    pub(super) fn is_due(&self, path: &Path) -> io::Result<bool> {
        let taken = path.metadata()?.blocks() * BLOCK_UNIT;
        Ok(taken >= self.limit)
    }

    /// Removes rows after `new` ones were added. Blocks.
    pub(super) fn run(
        &mut self,
        rows: &mut Table<'_, &'static [u8], &'static [u8]>,
        new: usize,
    ) -> Result<(), DbFailure> {
        if new == 0 {
            return Ok(());
        }
        let most = 2 * (new + EXTRA_ROWS);
        let mut stretch = self.stretch(rows, most)?;
        self.from = match stretch.last() {
            // The smallest key after the last one.
            Some((_, last)) if stretch.len() == most => [&**last, &[0]].concat(),
            _ => Vec::new(),
        };
        stretch.sort_unstable();
        let half = stretch.len() / 2;
        for (_, key) in &stretch[..half] {
            rows.remove(&**key)?;
        }
        self.swept.inc_by(half as u64);
        Ok(())
    }

    /// Reads the next rows, at most `most`: the time of confirmation and the key of each.
    fn stretch(
        &self,
        rows: &Table<'_, &'static [u8], &'static [u8]>,
        most: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, DbFailure> {
        let mut stretch = Vec::new();
        for row in rows.range::<&[u8]>(&*self.from..)?.take(most) {
            let (key, row) = row?;
            let record = unseal(key.value(), row.value()).and_then(decode);
            // A row that cannot be read goes first.
            let confirmed = record.map_or(0, |(record, _)| record.confirmed.0);
            stretch.push((confirmed, key.value().to_vec()));
        }
        Ok(stretch)
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;
    use tempfile::TempDir;

    use super::*;
    use crate::meta::tests::{PATIENT, put_version};
    use crate::meta::{DATABASE_FILE, Meta};
    use crate::{MetaStore as _, Settings};
    use tidegate_plan::{ObjectId, ObjectKey, OriginId};

    const FILE_LIMIT: u64 = 4 << 20;

    fn id(number: u64) -> ObjectId {
        // The order of keys is independent of their age.
        let key = format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        ObjectId {
            origin: OriginId(7),
            key: ObjectKey::new(&key).expect("a valid key"),
        }
    }

    async fn put(store: &Meta, number: u64) {
        let tag = format!("{number:0400}");
        put_version(store, &id(number), &tag, number).await;
    }

    #[tokio::test]
    async fn the_file_keeps_its_size_and_what_was_used_lately_is_found() {
        let dir = TempDir::new().expect("a folder");
        let settings = |state_size| Settings {
            state: Some(dir.path().to_path_buf()),
            state_size,
            state_timeouts: PATIENT,
            ..Settings::default()
        };
        let store = Meta::open(&settings(FILE_LIMIT), &mut Registry::default()).expect("opens");
        let (rounds, each) = (60, 500);
        for number in 0..rounds * each {
            put(&store, number).await;
            if number % each == each - 1 {
                store.journal.as_ref().expect("on disk").flush().await;
            }
        }
        let swept = store.metrics.swept.get();
        store.close().await;
        drop(store);
        let taken = dir
            .path()
            .join(DATABASE_FILE)
            .metadata()
            .expect("there")
            .blocks()
            * BLOCK_UNIT;
        assert!(taken < FILE_LIMIT + FILE_LIMIT / 2, "{taken} bytes");
        assert!(swept > rounds * each / 2, "{swept} rows");
        let store = Meta::open(&settings(FILE_LIMIT), &mut Registry::default()).expect("opens");
        let mut found = [0, 0];
        for (at, from) in [0, (rounds - 1) * each].into_iter().enumerate() {
            for number in from..from + each {
                found[at] += u64::from(store.load(&id(number)).await.is_some());
            }
        }
        assert_eq!(found[1], each, "the last ones");
        assert!(found[0] < each / 4, "the first ones: {found:?}");
    }
}
