//! The proofs of subscriptions, which routes read and subscriptions write.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;

use crate::doctor::Origins;
use tidegate_config::{Config, Events, Route};
use tidegate_engine::{EventCoverage, SubscriptionProof};
use tidegate_plan::OriginId;

/// The proof of each subscription, by its name. Routes read it, receivers write it.
#[derive(Debug, Clone, Default)]
pub(in crate::app) struct Proofs(HashMap<String, (OriginId, Arc<SubscriptionProof>)>);

impl Proofs {
    /// Returns one for each subscription of a configuration. That of a name and bucket stays, for mounts keep it: a
    /// subscription that begins anew writes to it. For another bucket there is another one.
    pub(in crate::app) fn next(&self, config: &Config, origins: &Origins) -> Self {
        let proof = |events: &Events| {
            let id = origins.get(&events.origin)?.id();
            let old = self.0.get(&events.name).filter(|(old, _)| *old == id);
            let proof = old.cloned().unwrap_or_else(|| (id, Arc::default()));
            Some((events.name.clone(), proof))
        };
        Self(config.events.iter().filter_map(proof).collect())
    }

    /// Returns the proof of a subscription.
    pub(super) fn get(&self, name: &str) -> Option<Arc<SubscriptionProof>> {
        self.0.get(name).map(|(_, proof)| proof.clone())
    }

    /// Returns the coverage of a route, if it has events.
    pub(in crate::app) fn coverage(&self, route: &Route) -> anyhow::Result<Option<EventCoverage>> {
        let Some(name) = &route.events else {
            return Ok(None);
        };
        Ok(Some(EventCoverage {
            subscription: self.get(name).context("a route's events were checked")?,
            max_age: route.events_max_age.into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_config::{Environment, parse};
    use tidegate_origin::{FakeOrigin, Origin};

    #[test]
    fn a_proof_stays_with_its_name_and_bucket() {
        let config = |origin: &str| {
            let text = format!(
                "[[origin]]\nname = \"a\"\nbucket = \"a\"\n[[origin]]\nname = \"b\"\nbucket = \"b\"\n\
                 [[events]]\nname = \"e\"\norigin = \"{origin}\"\ntoken = \"t0ken-of-the-tests\"\n\
                 [[route]]\npath = \"/\"\norigin = \"{origin}\"\nevents = \"e\"\n"
            );
            let loaded = parse("t.toml", &text, &Environment::default());
            loaded.expect("it is right").config
        };
        let origin = |name: &'static str| -> (String, Arc<dyn Origin>) {
            (name.to_owned(), Arc::new(FakeOrigin::new().seen_by(name)))
        };
        let origins: Origins = [origin("a"), origin("b")].into();
        let first = Proofs::default().next(&config("a"), &origins);
        let coverage = |proofs: &Proofs, of: &str| {
            let route = config(of).routes().remove(0);
            proofs
                .coverage(&route)
                .expect("right")
                .expect("it has events")
        };
        let stays = first.next(&config("a"), &origins);
        assert!(coverage(&first, "a") == coverage(&stays, "a"));
        let other = stays.next(&config("b"), &origins);
        assert!(coverage(&stays, "a") != coverage(&other, "b"));
    }
}
