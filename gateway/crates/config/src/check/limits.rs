//! Limits, and the routes that name them.

use super::super::problem::{KeyPath, suggestion};
use super::super::{Config, LimitScope, Limits, Route};
use super::Check;

impl Check<'_, '_> {
    pub(super) fn all_limits(&mut self, config: &Config) {
        for (name, limits) in &config.limits {
            let path = KeyPath::of("limits", name);
            let is_named = |route: &Route| route.limits.0.contains(name);
            if !config.route.iter().any(is_named) {
                self.warn(&path, "no route names it");
            }
            self.limits_of(&path, limits);
        }
        for (index, route) in config.route.iter().enumerate() {
            self.limits_of_route(config, &KeyPath::nth("route", index), route);
        }
    }

    fn limits_of(&mut self, path: &KeyPath, limits: &Limits) {
        let is_written = |key: &&str| self.document.has(&path.key(key));
        if !["requests", "bytes", "connections"].iter().any(is_written) {
            let message = "is empty, and limits nothing: it needs requests, bytes or connections";
            self.error(path, message);
        }
        self.at_least(&path.key("burst"), limits.burst.unwrap_or(1), 1);
        self.at_least(&path.key("connections"), limits.connections.unwrap_or(1), 1);
        if let (Some(rate), Some(burst)) = (limits.requests, limits.burst)
            && burst > rate.0.max_burst()
        {
            let most = rate.0.max_burst();
            let message =
                format!("takes more than a year to come again at {rate}; must be at most {most}");
            self.error(&path.key("burst"), message);
        }
        if limits.burst.is_some() && !self.document.has(&path.key("requests")) {
            self.warn(&path.key("burst"), "does nothing without `requests`");
        }
    }

    fn limits_of_route(&mut self, config: &Config, path: &KeyPath, route: &Route) {
        let path = path.key("limits");
        for (nth, name) in route.limits.0.iter().enumerate() {
            let shown = name.escape_debug();
            if route.limits.0[..nth].contains(name) {
                self.error(&path, format!("names `{shown}` twice"));
                continue;
            }
            let Some(limits) = config.limits.get(name) else {
                let hint = suggestion(name, config.limits.keys().map(String::as_str));
                self.error(&path, format!("there are no limits `{shown}`{hint}"));
                continue;
            };
            if limits.per == LimitScope::Key && route.access.is_none() {
                let message = format!(
                    "`{shown}` counts by key, and the route has no `access`: each address counts for itself"
                );
                self.warn(&path, message);
            }
        }
    }
}
