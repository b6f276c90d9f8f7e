//! Changes of pins: effective in memory at once, and durable when the call returns.

use super::Meta;
use super::durable::await_durable;
use crate::pins::{Pin, PinError, PinRow, Pins};
use tidegate_plan::OriginId;

impl Meta {
    /// Changes the pins, and writes the change down.
    async fn change_pins(
        &self,
        change: impl FnOnce(&Pins) -> Result<Vec<PinRow>, PinError>,
    ) -> Result<(), PinError> {
        let result = match &self.journal {
            None => {
                change(&self.pins)?;
                let kept = self.check_kept();
                return kept.map_err(|error| PinError::NotDurable(error.0));
            }
            Some(journal) => {
                let mut queue = journal.lock();
                let rows = change(&self.pins);
                queue.pins.extend(rows?);
                let result = journal.push_purges(&mut queue, Vec::new());
                await_durable(result, journal.write_timeout())
            }
        };
        result.await.map_err(|error| PinError::NotDurable(error.0))
    }

    /// Returns all pins, by origin and prefix.
    #[must_use]
    pub fn pins(&self) -> Vec<Pin> {
        self.pins.list()
    }

    /// Keeps objects whose key begins with `prefix`, up to `limit` bytes. For an existing pin, changes the limit. Durable
    /// when it returns.
    ///
    /// # Errors
    /// There are too many pins, or the change may not outlive the process.
    pub async fn pin(&self, origin: OriginId, prefix: &str, limit: u64) -> Result<(), PinError> {
        self.change_pins(|pins| pins.set(origin, prefix, limit))
            .await
    }

    /// Removes a pin. Durable when it returns.
    ///
    /// # Errors
    /// There is no such pin, or its removal may not outlive the process.
    pub async fn unpin(&self, origin: OriginId, prefix: &str) -> Result<(), PinError> {
        self.change_pins(|pins| pins.remove(origin, prefix)).await
    }
}
