//! `tidegate check`: what the configuration comes to, in a few lines.

use std::fmt::Write;

use crate::config::{CommitName, Config, Environment, Loaded, Mount, Problems, Secret};

/// The summary of a configuration that is right.
///
/// # Errors
/// There is nothing to serve.
pub(super) fn summary(loaded: &Loaded, env: &Environment) -> Result<String, Problems> {
    let config = &loaded.config;
    config.require_origin()?;
    let mut text = String::new();
    let mut line = |what: String| writeln!(text, "{what}").expect("a string takes everything");
    for warning in &loaded.warnings {
        line(format!("warning: {warning}"));
    }
    for missing in missing_secrets(config, env) {
        line(format!("warning: {missing}"));
    }
    let file = loaded
        .file
        .as_ref()
        .map_or("no file".to_owned(), |file| file.display().to_string());
    line(format!("ok: {file}: {}", counts(config)));
    let listen: Vec<_> = config
        .http
        .listen
        .0
        .iter()
        .map(ToString::to_string)
        .collect();
    line(format!(
        "http   {}, admin {}",
        listen.join(", "),
        config.admin.listen
    ));
    line(format!(
        "cache  {} of memory, {} of budget",
        config.cache.memory, config.cache.budget
    ));
    for disk in &config.cache.disk {
        line(format!(
            "disk   {} up to {}",
            disk.path.display(),
            disk.capacity
        ));
    }
    let state = config.state_path();
    line(format!(
        "state  {}",
        state.map_or("in memory".into(), |path| path.display().to_string())
    ));
    for route in config.routes() {
        let host = route.host.as_deref().unwrap_or_default();
        line(format!(
            "route  {host}{} -> {}/{}, {}",
            route.path, route.origin, route.key_prefix, route.profile
        ));
    }
    mounts(config, env).into_iter().for_each(line);
    Ok(text)
}

/// The mounts, and where lies what is written through them.
fn mounts(config: &Config, env: &Environment) -> Vec<String> {
    let mount = |mount: &Mount| {
        let host = mount.host.as_deref().unwrap_or_default();
        let how = match (mount.writable, mount.commit) {
            (false, _) => "read-only",
            (true, CommitName::Close) => "writable, committed at the close",
            (true, CommitName::Background) => "writable, committed in the background",
        };
        format!(
            "mount  {} <- {host}{}, {how}",
            mount.path.display(),
            mount.route
        )
    };
    let mut lines: Vec<_> = config.mount.iter().map(mount).collect();
    if config.mount.iter().any(|mount| mount.writable) {
        let place = config.spool_path(env);
        let place = place.map_or("nowhere: set `spool.path`".into(), |path| {
            path.display().to_string()
        });
        lines.push(format!("spool  {place}, up to {}", config.spool.size));
    }
    if let Some(place) = config.passthrough_path() {
        let (place, size) = (place.display(), config.passthrough.size);
        lines.push(format!(
            "plain  {place}, up to {size}, read by the kernel itself"
        ));
    }
    lines
}

fn counts(config: &Config) -> String {
    let count = |number: usize, what: &str| {
        format!("{number} {what}{}", if number == 1 { "" } else { "s" })
    };
    [
        count(config.origin.len(), "origin"),
        count(config.routes().len(), "route"),
        count(config.cache.disk.len(), "disk"),
    ]
    .join(", ")
}

/// Secrets that are not there now: on the machine that serves, `serve` would end over them.
fn missing_secrets(config: &Config, env: &Environment) -> Vec<String> {
    let mut secrets: Vec<(String, &Secret)> = Vec::new();
    secrets.extend(
        config
            .admin
            .token
            .iter()
            .map(|token| ("admin.token".to_owned(), token)),
    );
    for (index, origin) in config.origin.iter().enumerate() {
        let named = |key: &str| format!("origin[{index}].{key}");
        let key = origin.secret_access_key.iter();
        secrets.extend(key.map(|secret| (named("secret_access_key"), secret)));
        let token = origin.session_token.iter();
        secrets.extend(token.map(|secret| (named("session_token"), secret)));
    }
    for (index, route) in config.route.iter().enumerate() {
        let token = route.write_token.iter().filter(|_| route.writable);
        secrets.extend(token.map(|secret| (format!("route[{index}].write_token"), secret)));
    }
    let missing = |(key, secret): &(String, &Secret)| {
        Some(format!("`{key}`: {}", secret.resolve(env).err()?))
    };
    secrets.iter().filter_map(missing).collect()
}
