//! Routes: the origin, profile, access and limits of each.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use http::{HeaderName, HeaderValue};

use super::settings;
use crate::doctor::Origins;
use tidegate_access::Access;
use tidegate_access::limits::Limits;
use tidegate_config::{Config, Environment};
use tidegate_engine::ReadContext;
use tidegate_http::{Route, RouteAccess, RouteLimits, RouteSettings};
use tidegate_plan::{Coding, Token};

/// Connects to each origin once, however many routes lead to it.
pub(super) async fn connect(
    config: &Config,
    env: &Environment,
    metrics: &tidegate_origin::Metrics,
) -> anyhow::Result<Origins> {
    let mut origins = Origins::new();
    for origin in &config.origin {
        let settings = settings::origin(origin, env)?;
        let connected = tidegate_origin::connect(&settings, metrics).await;
        let connected = connected.with_context(|| format!("origin `{}`", origin.name))?;
        origins.insert(origin.name.clone(), connected);
    }
    Ok(origins)
}

/// Returns the routes as the frontend needs them.
pub(super) fn routes(
    config: &Config,
    env: &Environment,
    origins: &Origins,
) -> anyhow::Result<Vec<Route>> {
    let accesses = accesses(config, env)?;
    let all_limits: HashMap<_, _> = config.limits.iter().map(limits).collect();
    let route = |route: tidegate_config::Route| {
        let access = route
            .access
            .as_ref()
            .map(|name| accesses.get(name).cloned());
        let access = access.map(|found| found.context("a route's access was checked"));
        let limits = route
            .limits
            .as_ref()
            .map(|name| all_limits.get(name).cloned());
        let limits = limits.map(|found| found.context("a route's limits were checked"));
        let origin = origins
            .get(&route.origin)
            .context("a route's origin was checked")?;
        let profile = config
            .profile(&route.profile)
            .context("a route's profile was checked")?;
        let source = ReadContext {
            origin: origin.clone(),
            profile: ArcSwap::from_pointee(profile),
        };
        Ok(Route {
            settings: RouteSettings {
                access: access.transpose()?,
                limits: limits.transpose()?,
                ..settings_of(route, env)?
            },
            source: Arc::new(source),
        })
    };
    config.routes().into_iter().map(route).collect()
}

/// Returns the accesses by name, with their secrets read.
fn accesses(config: &Config, env: &Environment) -> anyhow::Result<HashMap<String, RouteAccess>> {
    let access = |(name, access): (&String, &tidegate_config::Access)| {
        let rules = settings::access_rules(access, env);
        let rules = rules.with_context(|| format!("access `{name}`"))?;
        let access = RouteAccess {
            rules: Arc::new(Access::new(rules)),
            hide: access.hide,
        };
        Ok((name.clone(), access))
    };
    config.access.iter().map(access).collect()
}

fn limits((name, limits): (&String, &tidegate_config::Limits)) -> (String, RouteLimits) {
    let limits = Limits::new(settings::limit_rules(limits));
    (name.clone(), RouteLimits(Arc::new(limits)))
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
        limits: None,
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

fn coding(stored: tidegate_config::Precompressed) -> Coding {
    match stored {
        tidegate_config::Precompressed::Br => Coding::Brotli,
        tidegate_config::Precompressed::Gzip => Coding::Gzip,
        tidegate_config::Precompressed::Zstd => Coding::Zstd,
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
