//! A start without its effects: each part is prepared as a start prepares it, and nothing is opened, bound or asked.

use std::sync::Arc;

use super::events::{fleet, source};
use super::routes::Accesses;
use super::traces::Traces;
use super::{hooks, settings};
use crate::doctor::Origins;
use crate::tls::PreparedTls;
use tidegate_config::{Config, Environment};

/// Returns for each part of a configuration the error that a start would end with. Reads files, and so may block.
pub(super) fn rehearse(config: &Config, env: &Environment) -> Vec<anyhow::Error> {
    let accesses = Accesses::new(&tidegate_auth::Metrics::default());
    let parts = [
        settings::admin_token(config, env).map(drop),
        PreparedTls::read(config, env, &Arc::default()).map(drop),
        settings::stores(config).and_then(|stores| Ok(tidegate_cache::check(&stores)?)),
        accesses.rebuild(config, env).map(drop),
        hooks::prepare(config, env, &Origins::new()).map(drop),
        Traces::check(&config.trace, env),
        fleet::check(config, env),
    ];
    let origins = config.origin.iter();
    let origins = origins.map(|one| settings::origin(one, env).map(drop));
    let events = config.events.iter().map(|one| source::check(one, env));
    let all = parts.into_iter().chain(origins).chain(events);
    all.filter_map(Result::err).collect()
}
