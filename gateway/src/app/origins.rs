//! The origins by name, and their way from one configuration to the next.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context as _;

use super::settings;
use crate::doctor::Origins;
use tidegate_config::{Config, Environment};
use tidegate_origin::{ConnectedOrigin, LiveOrigin, Metrics, Origin, SettingsReader};

/// The origins of a configuration. Each is connected to once, however many routes lead to it.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveOrigins(BTreeMap<String, Arc<LiveOrigin>>);

/// The origins of another configuration, not in force yet.
#[derive(Debug)]
pub(super) struct PreparedOrigins {
    pub(super) origins: LiveOrigins,
    /// The settings of origins that stay.
    exchanges: Vec<(Arc<LiveOrigin>, ConnectedOrigin)>,
}

impl LiveOrigins {
    /// Connects to the origins of a configuration.
    pub(super) async fn connect(
        config: &Config,
        env: &Environment,
        metrics: &Metrics,
    ) -> anyhow::Result<Self> {
        Ok(Self::default().prepare(config, env, metrics).await?.apply())
    }

    /// Returns the origins of a configuration. One of the same name, bucket and identity as before stays, with its
    /// cached objects, its readers and its mounts; if its settings or secrets have changed, [`PreparedOrigins::apply`]
    /// puts them in force.
    pub(super) async fn prepare(
        &self,
        config: &Config,
        env: &Environment,
        metrics: &Metrics,
    ) -> anyhow::Result<PreparedOrigins> {
        let (mut origins, mut exchanges) = (BTreeMap::new(), Vec::new());
        for section in &config.origin {
            let context = || format!("origin `{}`", section.name);
            let settings = settings::origin(section, env)?;
            let read_again = read_again(section, env);
            let old = self.0.get(&section.name);
            let origin = match old.filter(|old| old.id() == settings.id()) {
                Some(old) => {
                    let prepared = old.prepare(settings, read_again).await;
                    let prepared = prepared.with_context(context)?;
                    exchanges.extend(prepared.map(|prepared| (old.clone(), prepared)));
                    old.clone()
                }
                None => {
                    let new = LiveOrigin::connect(settings, metrics, read_again).await;
                    Arc::new(new.with_context(context)?)
                }
            };
            origins.insert(section.name.clone(), origin);
        }
        Ok(PreparedOrigins {
            origins: Self(origins),
            exchanges,
        })
    }

    /// Returns them as other parts take them.
    pub(super) fn all(&self) -> Origins {
        let one = |(name, origin): (&String, &Arc<LiveOrigin>)| {
            let origin: Arc<dyn Origin> = origin.clone();
            (name.clone(), origin)
        };
        self.0.iter().map(one).collect()
    }
}

impl PreparedOrigins {
    /// Puts them in force, and returns them.
    pub(super) fn apply(self) -> LiveOrigins {
        for (origin, settings) in self.exchanges {
            origin.exchange(settings);
        }
        self.origins
    }
}

/// Returns a reader of an origin's settings, with its secrets as their files have them by then.
fn read_again(section: &tidegate_config::Origin, env: &Environment) -> SettingsReader {
    let (section, env) = (section.clone(), env.clone());
    Arc::new(move || settings::origin(&section, &env).ok())
}
