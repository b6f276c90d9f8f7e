//! The routes in force, which may be exchanged while requests are answered.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};

use crate::{Route, RouteState};
use tidegate_plan::route::{RouteRule, RouteTable};

/// The routes in force. A request that has begun ends on the routes that it began with.
pub struct Routes(ArcSwap<RouteSet>);

/// The routes of one moment.
#[derive(Debug)]
pub(crate) struct RouteSet {
    table: RouteTable,
    routes: Vec<Arc<RouteState>>,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Routes").field(&*self.0.load()).finish()
    }
}

impl Routes {
    /// Returns these routes, in force.
    #[must_use]
    pub fn new(routes: Vec<Route>) -> Self {
        Self(ArcSwap::from_pointee(RouteSet::new(routes, &[])))
    }

    /// Puts other routes in force for all requests from now on. A route that stays as it was keeps its cached headers.
    pub fn replace(&self, routes: Vec<Route>) {
        let present = self.0.load_full();
        self.0
            .store(Arc::new(RouteSet::new(routes, &present.routes)));
    }

    /// Returns the routes of this moment.
    pub(crate) fn load(&self) -> Guard<Arc<RouteSet>> {
        self.0.load()
    }
}

impl RouteSet {
    fn new(routes: Vec<Route>, before: &[Arc<RouteState>]) -> Self {
        let table = RouteTable::new(routes.iter().map(|route| RouteRule {
            host: route.settings.host.clone(),
            path: route.settings.path.clone(),
        }));
        let state = |route: Route| {
            let same = before.iter().find(|old| {
                Arc::ptr_eq(&old.source, &route.source) && old.settings == route.settings
            });
            let same = same.cloned();
            same.unwrap_or_else(|| Arc::new(RouteState::new(route)))
        };
        Self {
            table,
            routes: routes.into_iter().map(state).collect(),
        }
    }

    /// Returns the route of a path, and the rest of the path below it.
    pub(crate) fn find<'p>(&self, host: &str, path: &'p str) -> Option<(&RouteState, &'p str)> {
        let (index, below) = self.table.find(host, path)?;
        Some((&self.routes[index], below))
    }

    /// Returns whether a path below a route of these may belong to one with a longer path.
    pub(crate) fn has_longer(&self, route: &RouteState) -> bool {
        let mut routes = self.routes.iter();
        let index = routes.position(|own| std::ptr::eq(&**own, route));
        index.is_none_or(|index| self.table.has_longer(index))
    }

    /// Returns the routes of all paths that begin with this one, each with the rest of it below the route.
    pub(crate) fn under<'s, 'p>(
        &'s self,
        host: &str,
        path: &'p str,
    ) -> impl Iterator<Item = (&'s RouteState, &'p str)> {
        let found = self.table.routes_under(host, path).into_iter();
        found.map(|(index, rest)| (&*self.routes[index], rest))
    }
}
