//! Hooks: their settings from the configuration, and the changes that this process makes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tokio::runtime::Handle;

use crate::doctor::Origins;
use tidegate_config::{Config, Environment, Hook, HookEvent, HookGrouping, Secret};
use tidegate_engine::ChangeObserver;
use tidegate_hooks::{CallGrouping, HookSettings, Hooks, PreparedHooks};
use tidegate_plan::template::Template;
use tidegate_plan::{ChangeKind, KeyChange, ObjectKey, OriginId};

/// The time that a stop gives to the calls that wait.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepares the hooks of a configuration.
pub(super) fn prepare(
    config: &Config,
    env: &Environment,
    origins: &Origins,
) -> anyhow::Result<PreparedHooks> {
    let settings = |(index, hook): (usize, &Hook)| {
        let name = hook.name_at(index);
        settings(hook, name.clone(), env).with_context(|| format!("hook `{name}`"))
    };
    let settings: anyhow::Result<Vec<_>> = config.hook.iter().enumerate().map(settings).collect();
    PreparedHooks::new(settings?, aliases(origins)).context("hooks")
}

/// Starts the hooks of a configuration on a runtime.
pub(super) fn start(
    config: &Config,
    env: &Environment,
    origins: &Origins,
    runtime: Option<Handle>,
) -> anyhow::Result<Arc<Hooks>> {
    let prepared = prepare(config, env, origins)?;
    let runtime = runtime.unwrap_or_else(Handle::current);
    Ok(Arc::new(Hooks::start(prepared, &runtime)))
}

/// Returns for each origin the first name of its bucket.
fn aliases(origins: &Origins) -> HashMap<String, Arc<str>> {
    let alias = |(name, origin): (&String, &Arc<dyn tidegate_origin::Origin>)| {
        let mut all = origins.iter();
        let first = all.find(|(_, other)| other.bucket() == origin.bucket());
        let first = first.map_or(name, |(first, _)| first);
        (name.clone(), Arc::from(first.as_str()))
    };
    origins.iter().map(alias).collect()
}

fn settings(hook: &Hook, name: String, env: &Environment) -> anyhow::Result<HookSettings> {
    let kind = |event: &HookEvent| match event {
        HookEvent::Created => ChangeKind::Created,
        HookEvent::Removed => ChangeKind::Removed,
    };
    Ok(HookSettings {
        name,
        on: hook.on.iter().map(kind).collect(),
        origin: hook.origin.clone(),
        prefix: hook.prefix.clone(),
        each: match hook.each {
            HookGrouping::Window => CallGrouping::Window,
            HookGrouping::Folder => CallGrouping::Folder,
            HookGrouping::Key => CallGrouping::Key,
        },
        debounce: hook.debounce.into(),
        max_delay: hook.max_delay.into(),
        timeout: hook.timeout.into(),
        retries: hook.retries,
        method: Method::from_bytes(hook.method.as_bytes())?,
        url: Template::parse(&hook.url)?,
        headers: headers(hook, env)?,
        body: hook.body.as_deref().map(Template::parse).transpose()?,
        path_prefix: hook.path_prefix.clone().unwrap_or_default(),
        strip_prefix: hook.strip_prefix.clone(),
    })
}

/// Returns the headers, with their secrets read.
fn headers(hook: &Hook, env: &Environment) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let read = |secret: &Secret, before: &str| {
        let secret = secret.resolve(env)?;
        let value = HeaderValue::from_str(&format!("{before}{}", secret.trim()));
        // The error has no part of the value.
        let mut value = value.context("is no text that a header can carry")?;
        value.set_sensitive(true);
        anyhow::Ok(value)
    };
    for (name, value) in &hook.headers {
        let value = read(value, "").with_context(|| format!("the header `{name}`"))?;
        headers.insert(HeaderName::from_bytes(name.as_bytes())?, value);
    }
    if let Some(bearer) = &hook.bearer {
        let value = read(bearer, "Bearer ").context("`bearer`")?;
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

/// The names of an origin and its bucket.
type Names = (String, String);

/// Reports the keys that are written through this process to the hooks.
#[derive(Debug)]
pub(super) struct WrittenKeys {
    origins: ArcSwap<HashMap<OriginId, Names>>,
    hooks: Arc<Hooks>,
}

impl WrittenKeys {
    /// Returns an observer of the changes that are made through an engine.
    pub(super) fn new(hooks: &Arc<Hooks>, config: &Config, origins: &Origins) -> Arc<Self> {
        Arc::new(Self {
            origins: ArcSwap::from_pointee(names(config, origins)),
            hooks: hooks.clone(),
        })
    }

    /// Puts the hooks and origins of another configuration in force.
    pub(super) fn replace(&self, prepared: PreparedHooks, config: &Config, origins: &Origins) {
        self.origins.store(Arc::new(names(config, origins)));
        self.hooks.replace(prepared);
    }
}

fn names(config: &Config, origins: &Origins) -> HashMap<OriginId, Names> {
    let named = |origin: &tidegate_config::Origin| {
        let id = origins.get(&origin.name)?.id();
        Some((id, (origin.name.clone(), origin.bucket.clone())))
    };
    config.origin.iter().filter_map(named).collect()
}

impl ChangeObserver for WrittenKeys {
    fn changed(&self, origin: OriginId, key: &ObjectKey, kind: ChangeKind) {
        if self.hooks.is_empty() {
            return;
        }
        let origins = self.origins.load();
        let Some((origin, bucket)) = origins.get(&origin) else {
            return;
        };
        self.hooks
            .changed(origin, &[KeyChange::of(bucket, key, kind)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_become_headers_and_are_not_shown() {
        let env = Environment::from_iter([("TOKEN", "s3cret\n"), ("BAD", "a\nb")]);
        let mut hook = Hook {
            url: "http://r/".to_owned(),
            bearer: Some(Secret::Env("TOKEN".to_owned())),
            ..Hook::default()
        };
        let text = Secret::Literal("application/json".to_owned());
        hook.headers.insert("Content-Type".to_owned(), text);
        let made = headers(&hook, &env).expect("headers");
        assert_eq!(made[header::AUTHORIZATION], "Bearer s3cret");
        assert_eq!(made[header::CONTENT_TYPE], "application/json");
        assert!(!format!("{made:?}").contains("s3cret"));
        hook.bearer = Some(Secret::Env("BAD".to_owned()));
        let error = headers(&hook, &env).expect_err("a newline");
        assert_eq!(format!("{error:#}").matches("a\nb").count(), 0);
        hook.bearer = Some(Secret::Env("NONE".to_owned()));
        let error = headers(&hook, &env).expect_err("no such variable");
        assert!(format!("{error:#}").contains("NONE"), "{error:#}");
    }
}
