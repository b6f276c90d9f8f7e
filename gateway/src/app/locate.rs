//! The operator's view of paths of the public listener: the same table that requests use.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::doctor::Origins;
use tidegate_admin::place::{Below, FolderPath, Locate, Located, Place, PlaceError};
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
    fn objects(&self, place: &Place) -> Result<Vec<Located>, PlaceError> {
        self.0.load().objects(place)
    }

    fn below(&self, place: &Place) -> Result<Below, PlaceError> {
        self.0.load().below(place)
    }

    fn beginning(&self, place: &Place) -> Result<Vec<Below>, PlaceError> {
        self.0.load().beginning(place)
    }

    fn path(&self, below: &Below, key: &str) -> Option<String> {
        self.0.load().path(below, key)
    }

    fn folder_path(&self, below: &Below, prefix: &str) -> Option<FolderPath> {
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
    fn places(&self, place: &Place, found: Vec<(usize, &str)>) -> Result<Vec<Below>, PlaceError> {
        let mut all: Vec<Below> = Vec::new();
        for (index, rest) in found {
            let LocatedRoute {
                settings,
                origin,
                source,
                ..
            } = &self.routes[index];
            let prefix = settings.prefix(rest).map_err(bad)?;
            let is_same = |other: &Below| {
                other.source.origin.id() == source.origin.id() && other.prefix == prefix
            };
            if !all.iter().any(is_same) {
                all.push(Below {
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

    fn objects(&self, place: &Place) -> Result<Vec<Located>, PlaceError> {
        let mut all: Vec<Located> = Vec::new();
        for (index, below) in self.find(place)? {
            let route = &self.routes[index];
            let key = route.settings.key(below).map_err(bad)?;
            let siblings: Vec<_> = route.settings.siblings(&key).collect();
            let is_same = |other: &&mut Located| {
                other.source.origin.id() == route.source.origin.id() && other.key == key
            };
            match all.iter_mut().find(is_same) {
                Some(other) => other.siblings.extend(siblings),
                None => all.push(Located {
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

    fn below(&self, place: &Place) -> Result<Below, PlaceError> {
        let mut all = self.places(place, self.find(place)?)?;
        match (all.pop(), all.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(_), false) => Err(PlaceError::Several),
            (None, _) => Err(PlaceError::NoRoute),
        }
    }

    fn beginning(&self, place: &Place) -> Result<Vec<Below>, PlaceError> {
        let found = self.of_hosts(place, |host| self.table.routes_under(host, &place.path));
        self.places(place, found?)
    }

    fn path(&self, below: &Below, key: &str) -> Option<String> {
        let path = path_below(&self.routes.get(below.route)?.settings, key)?;
        // A request for it must come to this object: no other route, and no index, may have it.
        let (index, rest) = self.find_beside(below, &path)?;
        let back = self.routes[index].settings.key(rest).ok()?;
        (index == below.route && back.as_str() == key).then_some(path)
    }

    fn folder_path(&self, below: &Below, prefix: &str) -> Option<FolderPath> {
        let path = path_below(&self.routes.get(below.route)?.settings, prefix)?;
        let (index, rest) = self.find_beside(below, &path)?;
        let settings = &self.routes[index].settings;
        let back = settings.prefix(rest).ok()?;
        let governed_by = (index != below.route).then(|| settings.path.clone());
        let is_right = governed_by.is_some() || back == prefix;
        is_right.then_some(FolderPath { path, governed_by })
    }

    /// Returns the route that has a path for the host that was asked for, with the rest of the path.
    fn find_beside<'p>(&self, below: &Below, path: &'p str) -> Option<(usize, &'p str)> {
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
mod tests {
    use super::*;
    use crate::app::events::Proofs;
    use crate::app::routes;
    use tidegate_config::{Environment, parse};
    use tidegate_origin::{FakeOrigin, Origin};

    fn locator() -> Locator {
        let text = "[[origin]]\nname = \"o\"\nbucket = \"b\"\n\
                    [[route]]\npath = \"/books/\"\norigin = \"o\"\nkey_prefix = \"p/\"\n\
                    [[route]]\npath = \"/books\"\nhost = \"A.example\"\norigin = \"o\"\n\
                    [[route]]\npath = \"/\"\norigin = \"o\"\nindex = \"index.html\"\n\
                    [[route]]\npath = \"/only/\"\nhost = \"h\"\norigin = \"o\"\n\
                    [[route]]\npath = \"/\"\nhost = \"zipped\"\norigin = \"o\"\nindex = \"index.html\"\nprecompressed = [\"br\", \"gzip\"]\n";
        let loaded = parse("t.toml", text, &Environment::default());
        let config = loaded.expect("it is right").config;
        let origin: Arc<dyn Origin> = Arc::new(FakeOrigin::new());
        let origins: Origins = [("o".to_owned(), origin)].into();
        let routes = routes::routes(
            &config,
            &Environment::default(),
            (&origins, &Proofs::default()),
            &tidegate_auth::Metrics::default(),
        )
        .expect("routes");
        Locator::new(&config, &routes.routes, &origins)
    }

    fn place(path: &str, host: Option<&str>) -> Place {
        Place {
            path: path.to_owned(),
            host: host.map(str::to_owned),
        }
    }

    #[test]
    fn a_path_leads_where_a_request_for_it_would() {
        let locator = locator();
        let keys = |path: &str, host: Option<&str>| {
            let found = locator.objects(&place(path, host)).expect("somewhere");
            let keys = found.into_iter().map(|one| one.key.as_str().to_owned());
            keys.collect::<Vec<_>>()
        };
        assert_eq!(keys("/books/a%20b", Some("b.example")), ["p/a b"]);
        assert_eq!(keys("/books/a%20b", Some("a.EXAMPLE:80")), ["a b"]);
        assert_eq!(keys("/books/a%20b", None), ["p/a b", "a b"]);
        assert_eq!(keys("/x/", None), ["x/index.html"]);
        let dots = locator.objects(&place("/../x", None)).map(drop);
        assert!(matches!(dots, Err(PlaceError::BadPath(_))), "{dots:?}");
    }

    #[test]
    fn an_object_has_the_siblings_of_all_its_routes() {
        let locator = locator();
        let siblings = |host: Option<&str>| {
            let found = locator.objects(&place("/app.js", host)).expect("somewhere");
            let keys = found.into_iter().flat_map(|one| one.siblings);
            keys.map(|key| key.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(siblings(None), ["app.js.br", "app.js.gz"]);
        assert_eq!(siblings(Some("zipped")), ["app.js.br", "app.js.gz"]);
        assert!(siblings(Some("plain")).is_empty());
    }

    #[test]
    fn below_a_path_lies_one_place_or_it_is_said() {
        let locator = locator();
        let below = |path: &str, host| locator.below(&place(path, host)).map(|one| one.prefix);
        assert_eq!(below("/books/fant", Some("b")), Ok("p/fant".to_owned()));
        assert_eq!(below("/books/", Some("b")), Ok("p/".to_owned()));
        assert_eq!(below("/", None), Ok(String::new()));
        assert_eq!(below("/books/", None), Err(PlaceError::Several));
    }

    #[test]
    fn what_begins_like_a_path_lies_in_all_of_these() {
        let locator = locator();
        let beginning = |path: &str, host: Option<&str>| {
            let found = locator.beginning(&place(path, host)).expect("somewhere");
            let prefixes = found.into_iter().map(|one| one.prefix);
            prefixes.collect::<Vec<_>>()
        };
        assert_eq!(beginning("/books/fant", Some("b")), ["p/fant"]);
        assert_eq!(beginning("/books/fant", None), ["p/fant", "fant"]);
        assert_eq!(beginning("/book", Some("b")), ["p/", "book"]);
        assert_eq!(beginning("/", None), ["p/", ""]);
        assert_eq!(beginning("/bookshelf", None), ["bookshelf"]);
        let dots = locator.beginning(&place("/../x", None)).map(drop);
        assert!(matches!(dots, Err(PlaceError::BadPath(_))), "{dots:?}");
    }

    #[test]
    fn a_key_has_the_path_that_leads_back_to_it() {
        let locator = locator();
        let root = locator.below(&place("/", None)).expect("a route");
        let path = |key: &str| locator.path(&root, key);
        assert_eq!(path("a b&c+d/ü").as_deref(), Some("/a%20b%26c%2Bd/%C3%BC"));
        assert_eq!(path("x//y").as_deref(), Some("/x//y"));
        assert_eq!(path("books/x"), None, "another route has it");
        assert_eq!(path("x/"), None, "the index answers for it");
        assert_eq!(path("x/../y"), None);
        let books = locator.below(&place("/books/", Some("b"))).expect("one");
        assert_eq!(locator.path(&books, "p/x").as_deref(), Some("/books/x"));
        assert_eq!(locator.path(&books, "q/x"), None);
    }

    #[test]
    fn what_lies_below_is_judged_for_the_host_that_was_asked_for() {
        let locator = locator();
        let paths = |host: Option<&str>| {
            let below = locator.below(&place("/", host)).expect("one");
            let folder = locator.folder_path(&below, "only/");
            let governed_by = folder.expect("there").governed_by;
            (locator.path(&below, "only/x"), governed_by)
        };
        assert_eq!(paths(None), (Some("/only/x".to_owned()), None));
        assert_eq!(paths(Some("h")), (None, Some("/only/".to_owned())));
    }

    #[test]
    fn a_folder_has_its_path_also_where_an_index_answers_for_it() {
        let locator = locator();
        let root = locator.below(&place("/", None)).expect("a route");
        let folder = |prefix: &str| {
            let found = locator.folder_path(&root, prefix)?;
            let other = found.governed_by.unwrap_or_default();
            Some((found.path, other))
        };
        let own = |path: &str| Some((path.to_owned(), String::new()));
        assert_eq!(folder("x/"), own("/x/"));
        assert_eq!(folder("a b&c/ü/"), own("/a%20b%26c/%C3%BC/"));
        assert_eq!(folder("x//"), own("/x//"));
        assert_eq!(folder("x/../y/"), None, "no request can have it");
        let other = Some(("/books/".to_owned(), "/books/".to_owned()));
        assert_eq!(folder("books/"), other, "another route governs it");
        let books = locator.below(&place("/books/", Some("b"))).expect("one");
        let own = locator.folder_path(&books, "p/new/").expect("a path");
        assert_eq!((&*own.path, own.governed_by), ("/books/new/", None));
        assert_eq!(locator.folder_path(&books, "q/"), None);
    }
}
