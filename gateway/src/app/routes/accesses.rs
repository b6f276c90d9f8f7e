//! Accesses: their rules with the secrets read, the sources of their keys, and the servers that they ask.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use http::Uri;

use crate::app::settings;
use tidegate_access::{Access, JwtKeys, JwtRules, KeySet};
use tidegate_auth::{AuthServer, AuthSettings, JwksLocation, KeySource, Metrics, PreparedKeys};
use tidegate_config::{Config, Environment, Jwt};
use tidegate_http::RouteAccess;

/// The accesses of a configuration, and what another configuration takes over.
#[derive(Debug, Clone, Default)]
pub(in crate::app) struct Accesses {
    by_name: HashMap<String, RouteAccess>,
    /// The sources of keys.
    sources: HashMap<String, Arc<KeySource>>,
    /// Their keys, which are not in force yet.
    prepared: Vec<(Arc<KeySource>, PreparedKeys)>,
    /// The accesses of before that had keys or a server, and have none now.
    gone: RemovedNames,
    metrics: Metrics,
}

/// The names of accesses whose keys or servers a configuration has no more.
#[derive(Debug, Clone, Default)]
struct RemovedNames {
    keys: Vec<String>,
    servers: Vec<String>,
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

    /// Puts keys and servers in force, and removes the metrics of those that have gone.
    pub(in crate::app) fn apply(&mut self) {
        for (source, keys) in self.prepared.drain(..) {
            source.apply(keys);
        }
        let servers = self.by_name.values().filter_map(|one| one.server.as_ref());
        servers.for_each(|server| server.apply());
        let RemovedNames { keys, servers } = std::mem::take(&mut self.gone);
        keys.iter().for_each(|name| self.metrics.forget_keys(name));
        servers
            .iter()
            .for_each(|name| self.metrics.forget_server(name));
    }

    /// Returns the accesses that have something which they do not have in `next`.
    fn gone(&self, next: &Self, has: impl Fn(&RouteAccess) -> bool) -> Vec<String> {
        let has_in = |all: &Self, name: &str| all.by_name.get(name).is_some_and(&has);
        let names = self.by_name.keys();
        let gone = names.filter(|name| has_in(self, name) && !has_in(next, name));
        gone.cloned().collect()
    }

    /// Returns the accesses of another configuration, whose keys are not in force before [`Accesses::apply`]. A key set
    /// whose URL and `refresh` stay is not fetched anew; files are read again, and the answers that servers have given are
    /// forgotten.
    pub(in crate::app) fn rebuild(
        &self,
        config: &Config,
        env: &Environment,
    ) -> anyhow::Result<Self> {
        let mut next = Self::new(&self.metrics);
        for (name, access) in &config.access {
            let hosts = config.hosts_of(name);
            let made = self.access((name.as_str(), access), hosts, env, &mut next);
            let made = made.with_context(|| format!("access `{name}`"))?;
            next.by_name.insert(name.clone(), made);
        }
        next.gone = RemovedNames {
            keys: self.gone(&next, |access| access.keys.is_some()),
            servers: self.gone(&next, |access| access.server.is_some()),
        };
        Ok(next)
    }

    fn access<'h>(
        &self,
        (name, access): (&str, &tidegate_config::Access),
        hosts: impl IntoIterator<Item = &'h str>,
        env: &Environment,
        next: &mut Self,
    ) -> anyhow::Result<RouteAccess> {
        let mut rules = settings::access_rules(access, hosts, env)?;
        let mut source = None;
        if let Some(jwt) = &access.jwt {
            let (keys, found) = self.keys(name, jwt, env, next).context("`jwt`")?;
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

    fn keys(
        &self,
        name: &str,
        jwt: &Jwt,
        env: &Environment,
        next: &mut Self,
    ) -> anyhow::Result<Keys> {
        let secret = jwt.secret.as_ref().map(|secret| {
            let secret = secret.resolve(env)?;
            Ok::<_, anyhow::Error>(KeySet::shared(&secret)?)
        });
        let secret = secret.transpose().context("`secret`")?;
        let Some(jwks) = jwt.jwks.as_deref() else {
            return Ok((Arc::new(JwtKeys::new(secret, false)), None));
        };
        let location = match jwt.is_fetched() {
            true => JwksLocation::Url(jwks.parse::<Uri>()?, jwt.refresh.into()),
            false => JwksLocation::File(jwks.into()),
        };
        let kept = self.sources.get(name);
        let source = match kept.filter(|source| source.is_at(&location)) {
            Some(kept) => kept.clone(),
            None => Arc::new(KeySource::new(name, location, &self.metrics).context("`jwks`")?),
        };
        let prepared = source.prepare(secret).context("`jwks`")?;
        next.prepared.push((source.clone(), prepared));
        next.sources.insert(name.to_owned(), source.clone());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_source_of_keys_stays_while_its_place_does() {
        let env = Environment::default();
        let config = |jwt: &str| {
            let text = format!(
                "[[origin]]\nname = \"o\"\nbucket = \"b\"\n[access.members.jwt]\n{jwt}\n\
                 issuer = \"i\"\naudience = \"a\"\n"
            );
            let loaded = tidegate_config::parse("t.toml", &text, &env);
            loaded.expect("it is right").config
        };
        let url = "jwks = \"http://127.0.0.1:9/keys\"";
        let secret = "a".repeat(32);
        let none = Accesses::default();
        let old = none.rebuild(&config(url), &env).expect("right");
        for (jwt, stays) in [
            (url.to_owned(), true),
            (format!("{url}\nskew = \"5s\"\ncookie = \"c\""), true),
            (format!("{url}\nsecret = \"{secret}\""), true),
            (format!("{url}\nrefresh = \"1m\""), false),
            (url.replace("keys", "others"), false),
        ] {
            let new = old.rebuild(&config(&jwt), &env).expect("right");
            let [before, now] = [&old, &new].map(|all| &all.sources["members"]);
            assert_eq!(Arc::ptr_eq(before, now), stays, "{jwt}");
        }
    }
}
