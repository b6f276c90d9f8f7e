//! The profiles of the routes, as the admin listener shows them.

use std::sync::Arc;

use arc_swap::ArcSwap;

use tidegate_admin::profile::{RouteProfile, Routes};
use tidegate_config::Config;
use tidegate_engine::ReadContext;
use tidegate_http::Route;
use tidegate_plan::Profile;

/// Every route, as it is in force.
#[derive(Debug)]
pub(super) struct Profiles(ArcSwap<Vec<ShownRoute>>);

type ShownRoute = (tidegate_config::Route, Arc<ReadContext>);

impl Profiles {
    /// Makes them; `routes` are those of `config`, in its order.
    pub(super) fn new(config: &Config, routes: &[Route]) -> Self {
        Self(ArcSwap::from_pointee(shown(config, routes)))
    }

    /// Takes other routes.
    pub(super) fn replace(&self, config: &Config, routes: &[Route]) {
        self.0.store(Arc::new(shown(config, routes)));
    }
}

fn shown(config: &Config, routes: &[Route]) -> Vec<ShownRoute> {
    let sources = routes.iter().map(|route| route.source.clone());
    config.routes().into_iter().zip(sources).collect()
}

impl Routes for Profiles {
    fn list(&self) -> Vec<RouteProfile> {
        let all = self.0.load();
        let profile = |(route, source): &ShownRoute| RouteProfile {
            host: route.host.clone(),
            path: route.path.clone(),
            origin: route.origin.clone(),
            name: route.profile.clone(),
            profile: Profile::clone(&source.profile.load()),
        };
        all.iter().map(profile).collect()
    }
}
