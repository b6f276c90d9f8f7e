//! Routes: the origin, profile, access and limits of each.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use http::{HeaderName, HeaderValue};

pub(super) use self::accesses::Accesses;
use super::events::Proofs;
use super::settings;
use crate::doctor::Origins;
use tidegate_access::limits::Limits;
use tidegate_config::{Config, Environment};
use tidegate_engine::{EventCoverage, ReadContext};
use tidegate_http::{Route, RouteLimits, RouteSettings};
use tidegate_plan::{Coding, Profile, Token};

mod accesses;

/// The routes as the frontend needs them, and what another configuration takes over.
#[derive(Debug, Clone)]
pub(super) struct RouteParts {
    /// In the configuration's order.
    pub(super) routes: Vec<Route>,
    /// The rules of each route, to be put in force.
    rules: Vec<(Profile, Option<EventCoverage>)>,
    limits: HashMap<String, (tidegate_config::Limits, RouteLimits)>,
    accesses: Accesses,
}

impl RouteParts {
    /// Puts the profiles and events of routes, and the keys of JWTs, in force.
    pub(super) fn apply(&mut self) {
        self.accesses.apply();
        for (route, (profile, events)) in self.routes.iter().zip(&self.rules) {
            let source = &route.source;
            if **source.profile.load() != *profile {
                source.profile.store(Arc::new(profile.clone()));
            }
            if source.events.load().as_deref() != events.as_ref() {
                source.events.store(events.clone().map(Arc::new));
            }
        }
    }
}

/// Returns the routes as the frontend needs them, in force. What their accesses ask of others is counted in `metrics`.
pub(super) fn routes(
    config: &Config,
    env: &Environment,
    (origins, proofs): (&Origins, &Proofs),
    metrics: &tidegate_auth::Metrics,
) -> anyhow::Result<RouteParts> {
    let none = RouteParts {
        routes: Vec::new(),
        rules: Vec::new(),
        limits: HashMap::new(),
        accesses: Accesses::new(metrics),
    };
    let mut routes = rebuild(config, env, (origins, proofs), &none)?;
    routes.apply();
    Ok(routes)
}

/// Returns the routes of another configuration. A route that stays keeps its [`ReadContext`], which mounts and readers
/// hold; limits that stay keep what they have counted. Changes nothing that is in force before [`RouteParts::apply`].
pub(super) fn rebuild(
    config: &Config,
    env: &Environment,
    (origins, proofs): (&Origins, &Proofs),
    old: &RouteParts,
) -> anyhow::Result<RouteParts> {
    let accesses = old.accesses.rebuild(config, env)?;
    let limits = all_limits(config, old);
    let (mut routes, mut rules) = (Vec::new(), Vec::new());
    for route in config.routes() {
        let origin = origins
            .get(&route.origin)
            .context("a route's origin was checked")?;
        let profile = config
            .profile(&route.profile)
            .context("a route's profile was checked")?;
        let access = route.access.as_ref().map(|name| {
            let found = accesses.get(name);
            found.context("a route's access was checked")
        });
        let limits = route.limits.0.iter().map(|name| {
            let found = limits.get(name).map(|(_, limits)| limits.clone());
            found.context("a route's limits were checked")
        });
        let limits: anyhow::Result<Vec<_>> = limits.collect();
        rules.push((profile.clone(), proofs.coverage(&route)?));
        let stays = |old: &&Route| {
            let own = &old.settings;
            own.host == route.host
                && own.path == route.path
                && own.key_prefix == route.key_prefix
                && Arc::ptr_eq(&old.source.origin, origin)
        };
        let source = old.routes.iter().find(stays).map(|old| old.source.clone());
        let new = || Arc::new(ReadContext::new(origin.clone(), profile));
        routes.push(Route {
            source: source.unwrap_or_else(new),
            settings: RouteSettings {
                access: access.transpose()?,
                limits: limits?,
                ..settings_of(route, env)?
            },
        });
    }
    Ok(RouteParts {
        routes,
        rules,
        limits,
        accesses,
    })
}

/// Returns the limits by name.
fn all_limits(
    config: &Config,
    old: &RouteParts,
) -> HashMap<String, (tidegate_config::Limits, RouteLimits)> {
    let limits = |(name, limits): (&String, &tidegate_config::Limits)| {
        let same = old.limits.get(name).filter(|(old, _)| old == limits);
        let new = || {
            let counted = Limits::new(settings::limit_rules(limits));
            (limits.clone(), RouteLimits(Arc::new(counted)))
        };
        (name.clone(), same.cloned().unwrap_or_else(new))
    };
    config.limits.iter().map(limits).collect()
}

fn settings_of(route: tidegate_config::Route, env: &Environment) -> anyhow::Result<RouteSettings> {
    let write_token = write_token(&route, env)?;
    let header = |(name, value): (String, String)| {
        Ok((HeaderName::try_from(name)?, HeaderValue::try_from(value)?))
    };
    let headers: anyhow::Result<Vec<_>> = route.headers.into_iter().map(header).collect();
    Ok(RouteSettings {
        host: route.host,
        path: route.path,
        key_prefix: route.key_prefix,
        access: None,
        limits: Vec::new(),
        cache_control: route.cache_control.map(HeaderValue::try_from).transpose()?,
        index: route.index,
        headers: headers?,
        cors: route.cors.as_ref().map(settings::cors),
        client_no_cache: route.client_no_cache,
        compress: route.compress,
        precompressed: route.precompressed.into_iter().map(coding).collect(),
        guess_types: route.guess_types,
        write_token,
    })
}

fn coding(stored: tidegate_config::StoredCoding) -> Coding {
    match stored {
        tidegate_config::StoredCoding::Br => Coding::Brotli,
        tidegate_config::StoredCoding::Gzip => Coding::Gzip,
        tidegate_config::StoredCoding::Zstd => Coding::Zstd,
    }
}

/// Returns the token that a change through this route must show.
fn write_token(route: &tidegate_config::Route, env: &Environment) -> anyhow::Result<Option<Token>> {
    let Some(token) = route.write_token.as_ref().filter(|_| route.writable) else {
        return Ok(None);
    };
    let named = || format!("`write_token` of the route `{}`", route.path);
    let token = token.resolve(env).with_context(named)?;
    let token = Token::from_setting(&token).with_context(named)?;
    Ok(Some(token))
}

#[cfg(test)]
mod tests;
