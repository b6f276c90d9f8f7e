//! Changes of pins: effective in memory at once, and durable when the call returns.

use futures_core::future::BoxFuture;

use super::Meta;
use super::durable::await_durable;
use crate::pins::{Pin, PinError, PinRow, Pinning, Pins};
use tidegate_plan::OriginId;

impl Meta {
    /// Changes the pins, and writes the change down.
    fn change_pins(
        &self,
        change: impl FnOnce(&Pins) -> Result<Vec<PinRow>, PinError>,
    ) -> BoxFuture<'static, Result<(), PinError>> {
        let result = match &self.journal {
            None => change(&self.pins).map(|_| None),
            Some(journal) => {
                let mut queue = journal.lock();
                let rows = change(&self.pins);
                rows.map(|rows| {
                    queue.pins.extend(rows);
                    let result = journal.push_purges(&mut queue, Vec::new());
                    Some((result, journal.write_timeout()))
                })
            }
        };
        Box::pin(async move {
            match result? {
                None => Ok(()),
                Some((result, longest)) => await_durable(result, longest)
                    .await
                    .map_err(|error| PinError::NotDurable(error.0)),
            }
        })
    }
}

impl Pinning for Meta {
    fn pins(&self) -> Vec<Pin> {
        self.pins.list()
    }

    fn pin<'a>(
        &'a self,
        origin: OriginId,
        prefix: &'a str,
        limit: u64,
    ) -> BoxFuture<'a, Result<(), PinError>> {
        self.change_pins(|pins| pins.set(origin, prefix, limit))
    }

    fn unpin<'a>(
        &'a self,
        origin: OriginId,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<(), PinError>> {
        self.change_pins(|pins| pins.remove(origin, prefix))
    }
}
