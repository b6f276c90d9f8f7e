//! The profiles of the routes, which may be exchanged while the gateway runs.

use std::sync::{Arc, Mutex};

use tidegate_admin::profile::{
    NewProfile, ProfileChange, ProfileChangeError, RouteProfile, Routes,
};
use tidegate_config::Config;
use tidegate_engine::ReadContext;
use tidegate_http::Route;
use tidegate_plan::Profile;
use tidegate_telemetry::locks::Recover as _;

/// Every route, and the configuration to read a profile for it. Held during a change, so that of two changes each sees
/// the other's result.
#[derive(Debug)]
pub(super) struct Profiles(Mutex<RouteProfiles>);

#[derive(Debug)]
struct RouteProfiles {
    config: Config,
    routes: Vec<(tidegate_config::Route, Arc<ReadContext>)>,
    /// The name of each route's profile, if it has one.
    names: Vec<Option<String>>,
}

impl Profiles {
    /// Makes them; `routes` are those of `config`, in its order.
    pub(super) fn new(config: &Config, routes: &[Route]) -> Self {
        Self(Mutex::new(RouteProfiles::new(config, routes)))
    }

    /// Takes other routes.
    pub(super) fn replace(&self, config: &Config, routes: &[Route]) {
        *self.0.lock().recover() = RouteProfiles::new(config, routes);
    }
}

impl RouteProfiles {
    fn new(config: &Config, routes: &[Route]) -> Self {
        let sources = routes.iter().map(|route| route.source.clone());
        let routes: Vec<_> = config.routes().into_iter().zip(sources).collect();
        let names = routes.iter().map(|(route, _)| Some(route.profile.clone()));
        Self {
            names: names.collect(),
            config: config.clone(),
            routes,
        }
    }

    fn route_profile(&self, index: usize) -> RouteProfile {
        let (route, source) = &self.routes[index];
        RouteProfile {
            host: route.host.clone(),
            path: route.path.clone(),
            origin: route.origin.clone(),
            name: self.names[index].clone(),
            profile: Profile::clone(&source.profile.load()),
        }
    }

    /// Finds the one route that is meant. Paths are compared as the configuration compares them,
    /// hosts without regard to case (RFC 9110, 4.2.3).
    fn find(&self, change: &ProfileChange) -> Result<usize, ProfileChangeError> {
        let bare = |path: &str| path.trim_end_matches('/').to_owned();
        let meant = |route: &tidegate_config::Route| {
            let host = match (&change.host, &route.host) {
                (Some(asked), Some(own)) => own.eq_ignore_ascii_case(asked),
                (Some(_), None) => false,
                (None, _) => true,
            };
            host && bare(&route.path) == bare(&change.path)
        };
        let all = self.routes.iter().enumerate();
        let mut found = all.filter(|(_, (route, _))| meant(route));
        match (found.next(), found.next()) {
            (None, _) => Err(ProfileChangeError::NoRoute),
            (Some((index, _)), None) => Ok(index),
            (Some(_), Some(_)) => Err(ProfileChangeError::Several),
        }
    }

    fn read(
        &self,
        to: &NewProfile,
        now: &Profile,
    ) -> Result<(Option<String>, Profile), ProfileChangeError> {
        let wrong =
            |problems: tidegate_config::Problems| ProfileChangeError::Wrong(problems.to_string());
        Ok(match to {
            NewProfile::Named(name) => {
                let profile = self.config.named_profile(name).map_err(wrong)?;
                (Some(name.clone()), profile)
            }
            NewProfile::Keys(keys) => (None, self.config.read_profile(keys, None).map_err(wrong)?),
            NewProfile::Over(keys) => {
                let profile = self.config.read_profile(keys, Some(now)).map_err(wrong)?;
                (None, profile)
            }
        })
    }
}

impl Routes for Profiles {
    fn list(&self) -> Vec<RouteProfile> {
        let all = self.0.lock().recover();
        (0..all.routes.len())
            .map(|index| all.route_profile(index))
            .collect()
    }

    fn change(&self, change: &ProfileChange) -> Result<RouteProfile, ProfileChangeError> {
        let mut all = self.0.lock().recover();
        let index = all.find(change)?;
        let source = all.routes[index].1.clone();
        let (name, profile) = all.read(&change.to, &source.profile.load())?;
        source.profile.store(Arc::new(profile));
        all.names[index] = name;
        Ok(all.route_profile(index))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::app::routes;
    use tidegate_config::{Environment, parse};
    use tidegate_origin::FakeOrigin;

    fn profiles() -> Profiles {
        let text = "[[origin]]\nname = \"o\"\nbucket = \"b\"\n\
                    [[route]]\npath = \"/books/\"\norigin = \"o\"\nprofile = \"stream\"\n\
                    [[route]]\npath = \"/books\"\nhost = \"A.example\"\norigin = \"o\"\n\
                    [[route]]\npath = \"/\"\norigin = \"o\"\n\
                    [profile.own]\nstreams = 2\n";
        let loaded = parse("t.toml", text, &Environment::default());
        let config = loaded.expect("it is right").config;
        let origin: Arc<dyn tidegate_origin::Origin> = Arc::new(FakeOrigin::new());
        let origins = [("o".to_owned(), origin)].into();
        let env = Environment::default();
        let routes = routes::routes(&config, &env, &origins).expect("routes");
        Profiles::new(&config, &routes.routes)
    }

    fn to(path: &str, host: Option<&str>, to: NewProfile) -> ProfileChange {
        ProfileChange {
            path: path.to_owned(),
            host: host.map(str::to_owned),
            to,
        }
    }

    #[test]
    fn one_route_reads_by_another_profile_from_then_on() {
        let profiles = profiles();
        let own = NewProfile::Named("own".to_owned());
        let now = profiles.change(&to("/books", Some("a.EXAMPLE"), own));
        assert_eq!(now.expect("changed").name.as_deref(), Some("own"));
        let more = NewProfile::Over(json!({ "read_ahead": "1MiB" }));
        profiles
            .change(&to("/books/", Some("a.example"), more))
            .expect("changed");

        let streams = |index: usize| {
            let all = profiles.0.lock().recover();
            let profile = all.routes[index].1.profile.load();
            (profile.streams, profile.read_ahead >> 20)
        };
        assert_eq!(
            [streams(0), streams(1), streams(2)],
            [(16, 128), (2, 1), (4, 8)]
        );
        let names = profiles.list().into_iter().map(|route| route.name);
        let names: Vec<_> = names.collect();
        assert_eq!(
            names,
            [Some("stream".to_owned()), None, Some("web".to_owned())]
        );

        let keys = NewProfile::Keys(json!({ "extends": "own" }));
        let now = profiles.change(&to("/", None, keys)).expect("changed");
        assert_eq!((now.name, now.profile.streams), (None, 2));
    }

    #[test]
    fn a_wrong_change_changes_nothing() {
        let profiles = profiles();
        let before = profiles.list();
        let web = || NewProfile::Named("web".to_owned());
        for (change, error) in [
            (to("/books", None, web()), ProfileChangeError::Several),
            (to("/films", None, web()), ProfileChangeError::NoRoute),
            (
                to("/", Some("a.example"), web()),
                ProfileChangeError::NoRoute,
            ),
            (
                to("/", None, NewProfile::Named("ovn".to_owned())),
                ProfileChangeError::Wrong(
                    "there is no profile `ovn`; did you mean `own`?".to_owned(),
                ),
            ),
            (
                to("/", None, NewProfile::Over(json!({ "streams": 0 }))),
                ProfileChangeError::Wrong("`streams`: must be at least 1".to_owned()),
            ),
        ] {
            assert_eq!(profiles.change(&change), Err(error), "{change:?}");
        }
        assert_eq!(profiles.list(), before);
    }
}
