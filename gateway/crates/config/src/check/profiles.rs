//! Profiles: the profiles that they extend, and their demands on the budget.

use super::super::Config;
use super::super::problem::{KeyPath, suggestion};
use super::super::section::profile::{ProfileError, resolve};
use super::Check;
use tidegate_plan::{ByteSize, Profile};

/// Returns the names that a route can choose from.
pub(super) fn names(config: &Config) -> impl Iterator<Item = &str> {
    let own = config.profile.keys().map(String::as_str);
    own.chain(Profile::BUILT_IN)
}

impl Check<'_, '_> {
    pub(super) fn profiles(&mut self, config: &Config) {
        for (name, overlay) in &config.profile {
            let path = KeyPath::of("profile", name);
            if let Some(parent) = &overlay.extends {
                self.parent(config, name, parent);
            }
            if overlay.streams == Some(0) {
                self.error(&path.key("streams"), "must be at least 1");
            }
            self.written_window(config, &path, overlay.read_ahead);
        }
        self.inherited_windows(config);
    }

    fn parent(&mut self, config: &Config, name: &str, parent: &str) {
        let path = KeyPath::of("profile", name).key("extends");
        match resolve(&config.profile, name) {
            Err(ProfileError::Unknown(unknown)) if unknown == parent => {
                let hint = suggestion(parent, names(config).filter(|other| *other != name));
                self.error(&path, format!("there is no profile `{parent}`{hint}"));
            }
            // Reported once: at the profile from which the circle was followed.
            Err(ProfileError::Cycle(chain)) if chain.last().is_some_and(|last| last == name) => {
                self.error(
                    &path,
                    format!("goes round in a circle: {}", chain.join(" -> ")),
                );
            }
            _ => {}
        }
    }

    /// Checks a written window against the budget. If both are written down, one of them is a
    /// mistake.
    fn written_window(&mut self, config: &Config, path: &KeyPath, window: Option<ByteSize>) {
        let budget = config.cache.budget;
        let Some(window) = window.filter(|window| *window > budget) else {
            return;
        };
        let path = path.key("read_ahead");
        if self.document.has(&KeyPath::of("cache", "budget")) {
            self.error(
                &path,
                format!("`{window}` is larger than `cache.budget` ({budget})"),
            );
        } else {
            let message =
                format!("`{window}` is cut to `cache.budget` ({budget}); raise that to use more");
            self.warn(&path, message);
        }
    }

    /// Warns of windows that are not written down and are cut.
    fn inherited_windows(&mut self, config: &Config) {
        for (index, route) in config.routes().iter().enumerate() {
            let Ok(profile) = resolve(&config.profile, &route.profile) else {
                continue;
            };
            let (window, budget) = (ByteSize(profile.read_ahead), config.cache.budget);
            let written = |size: &ByteSize| {
                let all = config.profile.values();
                all.filter_map(|one| one.read_ahead).any(|one| one == *size)
            };
            if window > budget && !written(&window) {
                let message = format!(
                    "the read-ahead of profile `{}` ({window}) is cut to `cache.budget` ({budget})",
                    route.profile
                );
                self.warn(&KeyPath::nth("route", index), message);
            }
        }
    }
}
