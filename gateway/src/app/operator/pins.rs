//! The operator's view of the pins: those of the store, with the names of the configuration.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use crate::app::events::fleet::FleetLink;
use tidegate_admin::pins::{Pin, PinError, Pins};
use tidegate_admin::place::{Locate, LocatedPrefix};
use tidegate_cache::{Meta, Tiers, pins};
use tidegate_plan::ByteSize;

/// Implements [`Pins`] over the store.
#[derive(Debug)]
pub(in crate::app) struct OperatorPins<L> {
    pub(in crate::app) meta: Arc<Meta>,
    pub(in crate::app) tiers: Arc<Tiers>,
    pub(in crate::app) locate: Arc<L>,
    pub(in crate::app) fleet: Option<Arc<FleetLink>>,
}

impl<L> OperatorPins<L> {
    /// Sets or removes a pin, and tells the other gateways of it. It goes on if its caller leaves: a pin that is kept here
    /// must not be kept from the others.
    async fn change(&self, below: &LocatedPrefix, limit: Option<u64>) -> Result<(), PinError> {
        let (meta, fleet) = (self.meta.clone(), self.fleet.clone());
        let (origin, prefix) = (below.source.origin.id(), below.prefix.clone());
        let change = async move {
            let store = async {
                match limit {
                    Some(limit) => meta.pin(origin, &prefix, limit).await,
                    None => meta.unpin(origin, &prefix).await,
                }
            };
            match fleet {
                Some(fleet) => {
                    let pin = (origin, prefix.clone(), limit);
                    fleet.change_pin(pin, store).await
                }
                None => store.await,
            }
        };
        let ends = |_| PinError::NotDurable("the gateway ends".to_owned());
        let changed = tokio::spawn(change).await.map_err(ends)?;
        changed.map_err(store_error)
    }

    /// Checks that a limit makes sense here; returns a note for the operator, if there is one.
    fn check(&self, limit: u64) -> Result<Option<String>, PinError> {
        let disks = self.tiers.report().disks;
        if disks.is_empty() {
            let why = "there is no cache disk to keep anything on: memory cannot be pinned";
            return Err(PinError::Refused(why.to_owned()));
        }
        let most = disks.iter().map(|disk| disk.capacity / 2).sum();
        Ok((limit > most).then(|| {
            let most = ByteSize(most);
            format!("no more than half of the disks can be pinned in all, which is {most}")
        }))
    }
}

impl<L: Locate> Pins for OperatorPins<L> {
    fn list(&self) -> Vec<Pin> {
        let named = |pin: pins::Pin| Pin {
            origin: self.locate.origin(pin.origin),
            prefix: pin.prefix,
            limit: pin.limit,
            used: pin.used,
        };
        self.meta.pins().into_iter().map(named).collect()
    }

    fn pin<'a>(
        &'a self,
        below: &'a LocatedPrefix,
        limit: u64,
    ) -> BoxFuture<'a, Result<Option<String>, PinError>> {
        Box::pin(async move {
            let note = self.check(limit)?;
            self.change(below, Some(limit)).await?;
            Ok(note)
        })
    }

    fn unpin<'a>(&'a self, below: &'a LocatedPrefix) -> BoxFuture<'a, Result<(), PinError>> {
        Box::pin(self.change(below, None))
    }
}

fn store_error(error: pins::PinError) -> PinError {
    let words = error.to_string();
    match error {
        pins::PinError::NoSuch => PinError::NoSuch(words),
        pins::PinError::TooMany => PinError::Refused(words),
        pins::PinError::NotDurable(_) => PinError::NotDurable(words),
    }
}
