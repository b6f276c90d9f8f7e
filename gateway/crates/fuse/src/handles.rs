//! Open files and folders, by number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tidegate_telemetry::locks::Recover as _;

/// A table of open things. Numbers are never given twice.
#[derive(Debug)]
pub(crate) struct Handles<T>(Mutex<Table<T>>);

#[derive(Debug)]
struct Table<T> {
    open: HashMap<u64, Arc<T>>,
    last: u64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self(Mutex::new(Table {
            open: HashMap::new(),
            last: 0,
        }))
    }
}

impl<T> Handles<T> {
    fn table(&self) -> MutexGuard<'_, Table<T>> {
        self.0.lock().recover()
    }

    pub(crate) fn open(&self, what: T) -> u64 {
        let mut table = self.table();
        table.last += 1;
        let number = table.last;
        table.open.insert(number, Arc::new(what));
        number
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<T>> {
        self.table().open.get(&number).cloned()
    }

    pub(crate) fn close(&self, number: u64) -> Option<Arc<T>> {
        self.table().open.remove(&number)
    }
}
