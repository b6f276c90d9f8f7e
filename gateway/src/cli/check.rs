//! `tidegate check`: a summary of the configuration, in a few lines.

use std::fmt::Write;
use std::sync::Arc;

use crate::tls;
use tidegate_config::{
    CommitName, Config, Environment, KeyPath, Loaded, Mount, Problem, Problems, Route, Secret,
    ValueLocation,
};
use tidegate_plan::Token;
use tidegate_tls::{Prepared, TlsError};

/// Returns the summary of a configuration that is right.
///
/// # Errors
/// If there is no origin, a token is too short, or a certificate and its key do not fit.
pub(super) fn summary(loaded: &Loaded, env: &Environment) -> Result<String, Problems> {
    let config = &loaded.config;
    config.require_origin()?;
    let secrets = secrets(config);
    let mut wrong = short_tokens(config, env, &secrets);
    let certificates = certificates(config, env);
    wrong.extend(certificates.as_ref().err().cloned());
    if !wrong.is_empty() {
        return Err(Problems(wrong));
    }
    let mut text = String::new();
    let mut line = |what: String| writeln!(text, "{what}").expect("a string takes everything");
    let of_file = loaded.warnings.iter().map(ToString::to_string);
    let of_certificates = certificates.iter().flatten().map(ToString::to_string);
    let warnings = of_file
        .chain(odd_secrets(&secrets, env))
        .chain(of_certificates);
    for warning in warnings.chain(mount_warnings(config)) {
        line(format!("warning: {warning}"));
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
    for key in loaded.overrides.keys() {
        line(format!("set    {key}"));
    }
    let state = config.state_path();
    line(format!(
        "state  {}",
        state.map_or("in memory".into(), |path| path.display().to_string())
    ));
    config.routes().iter().map(route).for_each(&mut line);
    mounts(config, env).into_iter().for_each(line);
    Ok(text)
}

fn route(route: &Route) -> String {
    let host = route.host.as_deref().unwrap_or_default();
    let access = route.access.as_ref();
    let access = access.map_or(String::new(), |name| format!(", access {name}"));
    format!(
        "route  {host}{} -> {}/{}, {}{access}",
        route.path, route.origin, route.key_prefix, route.profile
    )
}

/// Reads the certificates. Returns a warning if a file is missing now, over which `serve` would end on the machine that
/// serves.
///
/// # Errors
/// If a file is there and no certificate, or the key is that of another one.
fn certificates(config: &Config, env: &Environment) -> Result<Option<String>, Problem> {
    // Keys that cannot be read are among the odd secrets.
    let Ok(settings) = tls::settings(config, env) else {
        return Ok(None);
    };
    match Prepared::read(settings, &Arc::default()) {
        Ok(_) => Ok(None),
        Err(error @ TlsError::File { .. }) => Ok(Some(format!("`tls`: {error}"))),
        Err(error) => Err(Problem {
            location: ValueLocation::Nowhere,
            path: KeyPath::default().key("tls"),
            message: error.to_string(),
        }),
    }
}

/// Warns of mount points beneath which programs can write, or have written.
#[cfg(all(feature = "fuse", target_os = "linux"))]
fn mount_warnings(config: &Config) -> Vec<String> {
    use rustix::process::{getgid, getuid};
    let found = config.mount.iter().flat_map(|mount| {
        let uid = mount.uid.unwrap_or_else(|| getuid().as_raw());
        let gid = mount.gid.unwrap_or_else(|| getgid().as_raw());
        tidegate_fuse::check_mount_point(&mount.path, mount.writable.then_some((uid, gid)))
    });
    found.map(|one| one.text).collect()
}

#[cfg(not(all(feature = "fuse", target_os = "linux")))]
fn mount_warnings(_: &Config) -> Vec<String> {
    vec![]
}

/// Returns the mounts, and the folder of their spool.
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

/// Returns the secrets of accesses, with their keys.
fn access_secrets(config: &Config) -> impl Iterator<Item = (KeyPath, &Secret)> {
    config.access.iter().flat_map(|(name, access)| {
        let path = KeyPath::of("access", name);
        let of_tokens = path.key("tokens");
        let tokens = access.tokens.iter();
        let tokens = tokens.map(move |(name, token)| (of_tokens.key(name), &token.secret));
        let of_keys = path.key("signed").key("keys");
        let keys = access.signed.iter().flat_map(|signed| &signed.keys);
        tokens.chain(keys.map(move |(id, secret)| (of_keys.key(id), secret)))
    })
}

/// Returns the secrets of hooks, with their keys. A header that is written in the file may be no secret.
fn hook_secrets(config: &Config) -> impl Iterator<Item = (KeyPath, &Secret)> {
    config.hook.iter().enumerate().flat_map(|(index, hook)| {
        let path = KeyPath::nth("hook", index);
        let of_headers = path.key("headers");
        let headers = hook.headers.iter();
        let headers = headers.map(move |(name, secret)| (of_headers.key(name), secret));
        let bearer = hook.bearer.iter();
        headers.chain(bearer.map(move |secret| (path.key("bearer"), secret)))
    })
}

/// Returns every secret, with its key.
fn secrets(config: &Config) -> Vec<(KeyPath, &Secret)> {
    let mut secrets: Vec<(KeyPath, &Secret)> = Vec::new();
    let admin = config.admin.token.iter();
    secrets.extend(admin.map(|token| (KeyPath::of("admin", "token"), token)));
    for (index, origin) in config.origin.iter().enumerate() {
        let path = KeyPath::nth("origin", index);
        let key = origin.secret_access_key.iter();
        secrets.extend(key.map(|secret| (path.key("secret_access_key"), secret)));
        let token = origin.session_token.iter();
        secrets.extend(token.map(|secret| (path.key("session_token"), secret)));
    }
    for (index, one) in config.tls.certificates.iter().enumerate() {
        let path = KeyPath::of("tls", "certificates").index(index);
        secrets.push((path.key("key"), &one.key));
    }
    for (index, route) in config.route.iter().enumerate() {
        let path = KeyPath::nth("route", index).key("write_token");
        let token = route.write_token.iter().filter(|_| route.writable);
        secrets.extend(token.map(|secret| (path.clone(), secret)));
    }
    secrets.extend(access_secrets(config));
    secrets.extend(hook_secrets(config));
    secrets
}

/// Tokens from files and variables that are too short: `serve` would refuse them.
fn short_tokens(
    config: &Config,
    env: &Environment,
    secrets: &[(KeyPath, &Secret)],
) -> Vec<Problem> {
    let is_token = |secret: &Secret| {
        let writes = config
            .route
            .iter()
            .filter_map(|route| route.write_token.as_ref());
        let reads = access_secrets(config).map(|(_, secret)| secret);
        let mut tokens = writes.chain(&config.admin.token).chain(reads);
        tokens.any(|token| std::ptr::eq(token, secret))
    };
    let short = |(path, secret): &(KeyPath, &Secret)| {
        let text = secret.resolve(env).ok().filter(|_| is_token(secret))?;
        let error = Token::from_setting(&text).err()?;
        Some(Problem {
            location: ValueLocation::Nowhere,
            path: path.clone(),
            message: error.to_string(),
        })
    };
    secrets.iter().filter_map(short).collect()
}

/// Warns of secrets that are missing now, over which `serve` would end on the machine that serves, and of those whose
/// file others can read.
fn odd_secrets(secrets: &[(KeyPath, &Secret)], env: &Environment) -> Vec<String> {
    let odd = |(key, secret): &(KeyPath, &Secret)| match secret.resolve(env) {
        Err(error) => Some(format!("`{key}`: {error}")),
        Ok(_) => {
            let path = secret.readable_by_others(env)?;
            let path = path.display();
            Some(format!("`{key}`: every user can read {path}: chmod o-rwx"))
        }
    };
    secrets.iter().filter_map(odd).collect()
}
