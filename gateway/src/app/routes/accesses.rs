//! Accesses: their rules with the secrets read, the sources of their keys, and the servers that they ask.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use http::Uri;

use crate::app::settings;
use tidegate_access::{Access, JwtKeys, JwtRules, KeySet};
use tidegate_auth::{AuthServer, AuthSettings, JwksLocation, KeySource, Metrics};
use tidegate_config::{Config, Environment, Jwt};
use tidegate_http::RouteAccess;

/// The accesses of a configuration, and what another configuration takes over.
#[derive(Debug, Clone, Default)]
pub(in crate::app) struct Accesses {
    by_name: HashMap<String, RouteAccess>,
    /// The sources of keys, with the settings that they were made for.
    sources: HashMap<String, (Jwt, Arc<KeySource>)>,
    metrics: Metrics,
}

/// The keys of an access's JWTs, and their source if they have one.
type Keys = (Arc<JwtKeys>, Option<Arc<KeySource>>);

impl Accesses {
    /// Returns no accesses, whose successors count in `metrics`.
    pub(in crate::app) fn new(metrics: &Metrics) -> Self {
        Self {
            metrics: metrics.clone(),
            ..Self::default()
        }
    }

    /// Returns the access of a name.
    pub(in crate::app) fn get(&self, name: &str) -> Option<RouteAccess> {
        self.by_name.get(name).cloned()
    }

    /// Returns the accesses of another configuration. A key set of a URL that stays is not fetched anew; files are read
    /// again, and the answers that servers have given are forgotten.
    pub(in crate::app) fn rebuild(
        &self,
        config: &Config,
        env: &Environment,
    ) -> anyhow::Result<Self> {
        let mut next = Self::new(&self.metrics);
        for (name, access) in &config.access {
            let made = self.access(name, access, env, &mut next.sources);
            let made = made.with_context(|| format!("access `{name}`"))?;
            next.by_name.insert(name.clone(), made);
        }
        Ok(next)
    }

    fn access(
        &self,
        name: &str,
        access: &tidegate_config::Access,
        env: &Environment,
        sources: &mut HashMap<String, (Jwt, Arc<KeySource>)>,
    ) -> anyhow::Result<RouteAccess> {
        let mut rules = settings::access_rules(access, env)?;
        let mut source = None;
        if let Some(jwt) = &access.jwt {
            let (keys, found) = self.keys(name, jwt, env).context("`jwt`")?;
            if let Some(found) = &found {
                sources.insert(name.to_owned(), (jwt.clone(), found.clone()));
            }
            rules.jwt = Some(jwt_rules(jwt, keys));
            source = found;
        }
        let server = access.auth_request.as_ref().map(|server| {
            let settings = AuthSettings {
                uri: server.url.parse()?,
                timeout: server.timeout.into(),
                entries: server.entries as usize,
            };
            let made = AuthServer::new(name, settings, &self.metrics);
            Ok::<_, anyhow::Error>(Arc::new(made.context("`auth_request`")?))
        });
        Ok(RouteAccess {
            keys: source,
            server: server.transpose()?,
            hide: access.hide,
            ..RouteAccess::new(Access::new(rules))
        })
    }

    fn keys(&self, name: &str, jwt: &Jwt, env: &Environment) -> anyhow::Result<Keys> {
        let secret = jwt.secret.as_ref().map(|secret| {
            let secret = secret.resolve(env)?;
            Ok::<_, anyhow::Error>(KeySet::shared(&secret)?)
        });
        let secret = secret.transpose().context("`secret`")?;
        let Some(jwks) = jwt.jwks.as_deref() else {
            return Ok((Arc::new(JwtKeys::new(secret, false)), None));
        };
        let kept = self.sources.get(name);
        let kept = kept.filter(|(old, _)| jwt.is_fetched() && jwt.secret.is_none() && old == jwt);
        let source = match kept {
            Some((_, source)) => source.clone(),
            None => {
                let location = match jwt.is_fetched() {
                    true => JwksLocation::Url(jwks.parse::<Uri>()?, jwt.refresh.into()),
                    false => JwksLocation::File(jwks.into()),
                };
                let started = KeySource::start(name, location, secret, &self.metrics);
                Arc::new(started.context("`jwks`")?)
            }
        };
        Ok((source.keys(), Some(source)))
    }
}

/// Returns the rules for JWTs that these keys verify.
fn jwt_rules(jwt: &Jwt, keys: Arc<JwtKeys>) -> JwtRules {
    JwtRules {
        keys,
        issuer: jwt.issuer.clone(),
        audience: jwt.audience.clone(),
        prefixes: jwt.prefixes.clone(),
        cookie: jwt.cookie.clone(),
        query: (!jwt.query.is_empty()).then(|| jwt.query.clone()),
        skew: jwt.skew.into(),
    }
}
