//! The operator's view of paths of the public listener: the same table that requests use.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::doctor::Origins;
use tidegate_admin::place::{FolderPath, Locate, LocatedObject, LocatedPrefix, Place, PlaceError};
use tidegate_admin::profile::{RouteProfile, Routes};
use tidegate_config::Config;
use tidegate_engine::ReadContext;
use tidegate_http::{Route, RouteSettings};
use tidegate_plan::key::encode_path;
use tidegate_plan::route::{RouteRule, RouteTable};
use tidegate_plan::{KeyError, OriginId, Profile};

/// The routes by their paths, as they are in force.
#[derive(Debug)]
pub(super) struct Locator(ArcSwap<LocatedRoutes>);

/// The routes of one moment.
#[derive(Debug)]
struct LocatedRoutes {
    table: RouteTable,
    routes: Vec<LocatedRoute>,
    origins: BTreeMap<OriginId, String>,
}

#[derive(Debug)]
struct LocatedRoute {
    settings: RouteSettings,
    origin: String,
    /// The name of its profile.
    profile: String,
    source: Arc<ReadContext>,
}

impl Locator {
    /// Makes a locator; `routes` are those of `config`, in its order.
    pub(super) fn new(config: &Config, routes: &[Route], origins: &Origins) -> Self {
        Self(ArcSwap::from_pointee(LocatedRoutes::new(
            config, routes, origins,
        )))
    }

    /// Takes other routes.
    pub(super) fn replace(&self, config: &Config, routes: &[Route], origins: &Origins) {
        let new = LocatedRoutes::new(config, routes, origins);
        self.0.store(Arc::new(new));
    }
}

impl Locate for Locator {
    fn objects(&self, place: &Place) -> Result<Vec<LocatedObject>, PlaceError> {
        self.0.load().objects(place)
    }

    fn below(&self, place: &Place) -> Result<LocatedPrefix, PlaceError> {
        self.0.load().below(place)
    }

    fn beginning(&self, place: &Place) -> Result<Vec<LocatedPrefix>, PlaceError> {
        self.0.load().beginning(place)
    }

    fn path(&self, below: &LocatedPrefix, key: &str) -> Option<String> {
        self.0.load().path(below, key)
    }

    fn folder_path(&self, below: &LocatedPrefix, prefix: &str) -> Option<FolderPath> {
        self.0.load().folder_path(below, prefix)
    }

    fn origin(&self, id: OriginId) -> Option<String> {
        self.0.load().origins.get(&id).cloned()
    }
}

impl Routes for Locator {
    fn list(&self) -> Vec<RouteProfile> {
        let profile = |route: &LocatedRoute| RouteProfile {
            host: route.settings.host.clone(),
            path: route.settings.path.clone(),
            origin: route.origin.clone(),
            name: route.profile.clone(),
            profile: Profile::clone(&route.source.profile.load()),
        };
        self.0.load().routes.iter().map(profile).collect()
    }
}

impl LocatedRoutes {
    fn new(config: &Config, routes: &[Route], origins: &Origins) -> Self {
        let rule = |route: &Route| RouteRule {
            host: route.settings.host.clone(),
            path: route.settings.path.clone(),
        };
        let known = |(own, route): (tidegate_config::Route, &Route)| LocatedRoute {
            settings: route.settings.clone(),
            origin: own.origin,
            profile: own.profile,
            source: route.source.clone(),
        };
        let ids = origins
            .iter()
            .map(|(name, origin)| (origin.id(), name.clone()));
        Self {
            table: RouteTable::new(routes.iter().map(rule)),
            routes: config.routes().into_iter().zip(routes).map(known).collect(),
            origins: ids.collect(),
        }
    }

    /// Returns the results of `look` for the named host, else for no host and for each host of a
    /// route.
    fn of_hosts<'p>(
        &self,
        place: &Place,
        look: impl Fn(&str) -> Vec<(usize, &'p str)>,
    ) -> Result<Vec<(usize, &'p str)>, PlaceError> {
        let mut hosts = match &place.host {
            Some(host) => vec![host.clone()],
            None => vec![String::new()],
        };
        if place.host.is_none() {
            let own = self.routes.iter();
            hosts.extend(own.filter_map(|route| route.settings.host.clone()));
        }
        let mut found: Vec<(usize, &str)> = Vec::new();
        for one in hosts.iter().flat_map(|host| look(host)) {
            if !found.contains(&one) {
                found.push(one);
            }
        }
        match found.is_empty() {
            true => Err(PlaceError::NoRoute),
            false => Ok(found),
        }
    }

    /// Returns the routes that have the path, each with the rest of it.
    fn find<'p>(&self, place: &'p Place) -> Result<Vec<(usize, &'p str)>, PlaceError> {
        self.of_hosts(place, |host| {
            let found = self.table.find(host, &place.path);
            found.into_iter().collect()
        })
    }

    /// Returns the prefixes in buckets for paths below routes.
    fn places(
        &self,
        place: &Place,
        found: Vec<(usize, &str)>,
    ) -> Result<Vec<LocatedPrefix>, PlaceError> {
        let mut all: Vec<LocatedPrefix> = Vec::new();
        for (index, rest) in found {
            let LocatedRoute {
                settings,
                origin,
                source,
                ..
            } = &self.routes[index];
            let prefix = settings.prefix(rest).map_err(bad)?;
            let is_same = |other: &LocatedPrefix| {
                other.source.origin.id() == source.origin.id() && other.prefix == prefix
            };
            if !all.iter().any(is_same) {
                all.push(LocatedPrefix {
                    origin: origin.clone(),
                    source: source.clone(),
                    prefix,
                    route: index,
                    host: place.host.clone(),
                });
            }
        }
        Ok(all)
    }

    fn objects(&self, place: &Place) -> Result<Vec<LocatedObject>, PlaceError> {
        let mut all: Vec<LocatedObject> = Vec::new();
        for (index, below) in self.find(place)? {
            let route = &self.routes[index];
            let key = route.settings.key(below).map_err(bad)?;
            let siblings: Vec<_> = route.settings.siblings(&key).collect();
            let is_same = |other: &&mut LocatedObject| {
                other.source.origin.id() == route.source.origin.id() && other.key == key
            };
            match all.iter_mut().find(is_same) {
                Some(other) => other.siblings.extend(siblings),
                None => all.push(LocatedObject {
                    host: route.settings.host.clone(),
                    origin: route.origin.clone(),
                    source: route.source.clone(),
                    key,
                    siblings,
                }),
            }
        }
        Ok(all)
    }

    fn below(&self, place: &Place) -> Result<LocatedPrefix, PlaceError> {
        let mut all = self.places(place, self.find(place)?)?;
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(PlaceError::Several),
            (None, _) => Err(PlaceError::NoRoute),
        }
    }

    fn beginning(&self, place: &Place) -> Result<Vec<LocatedPrefix>, PlaceError> {
        let found = self.of_hosts(place, |host| self.table.routes_under(host, &place.path));
        self.places(place, found?)
    }

    fn path(&self, below: &LocatedPrefix, key: &str) -> Option<String> {
        let path = path_below(&self.routes.get(below.route)?.settings, key)?;
        // A request for it must come to this object: no other route, and no index, may have it.
        let (index, rest) = self.find_beside(below, &path)?;
        let back = self.routes[index].settings.key(rest).ok()?;
        (index == below.route && back.as_str() == key).then_some(path)
    }

    fn folder_path(&self, below: &LocatedPrefix, prefix: &str) -> Option<FolderPath> {
        let path = path_below(&self.routes.get(below.route)?.settings, prefix)?;
        let (index, rest) = self.find_beside(below, &path)?;
        let settings = &self.routes[index].settings;
        let back = settings.prefix(rest).ok()?;
        let governed_by = (index != below.route).then(|| settings.path.clone());
        let is_right = governed_by.is_some() || back == prefix;
        is_right.then_some(FolderPath { path, governed_by })
    }

    /// Returns the route that has a path for the host that was asked for, with the rest of the path.
    fn find_beside<'p>(&self, below: &LocatedPrefix, path: &'p str) -> Option<(usize, &'p str)> {
        let own = self.routes.get(below.route)?.settings.host.as_deref();
        let host = below.host.as_deref().or(own);
        self.table.find(host.unwrap_or_default(), path)
    }
}

/// Returns the path of a key, or of a prefix of keys, below a route.
fn path_below(settings: &RouteSettings, key: &str) -> Option<String> {
    let rest = key.strip_prefix(&settings.key_prefix)?;
    let route = settings.path.trim_end_matches('/');
    Some(format!("{route}/{}", encode_path(rest)))
}

fn bad(error: KeyError) -> PlaceError {
    PlaceError::BadPath(error.to_string())
}

#[cfg(test)]
mod tests;
