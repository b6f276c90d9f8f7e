//! `tidegate check`: a summary of the configuration, in a few lines.

use std::fmt::Write;
use std::sync::Arc;

use crate::tls;
use tidegate_access::KeySet;
use tidegate_auth::FileKeys;
use tidegate_config::{
    CommitName, Config, Environment, KeyPath, Loaded, Mount, NamedSecret, Problem, Problems, Route,
    SecretUse, ValueLocation,
};
use tidegate_plan::Token;
use tidegate_tls::{Prepared, TlsError};

/// Returns the summary of a configuration that is right.
///
/// # Errors
/// If there is no origin, a secret is too short, a certificate and its key do not fit, or a file is no key
/// set.
pub(super) fn summary(loaded: &Loaded, env: &Environment) -> Result<String, Problems> {
    let config = &loaded.config;
    config.require_origin()?;
    let secrets = config.secrets();
    let mut wrong = short_secrets(&secrets, env);
    let certificates = certificates(config, env);
    wrong.extend(certificates.as_ref().err().cloned());
    wrong.extend(key_files(config));
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

/// Returns a problem for each file that is to be the key set of JWTs and is none: `serve` would refuse it.
fn key_files(config: &Config) -> Vec<Problem> {
    let wrong = |(name, access): (&String, &tidegate_config::Access)| {
        let jwt = access.jwt.as_ref().filter(|jwt| !jwt.is_fetched())?;
        let error = FileKeys::read(jwt.jwks.as_ref()?.as_ref()).err()?;
        Some(Problem {
            location: ValueLocation::Nowhere,
            path: KeyPath::of("access", name).key("jwt").key("jwks"),
            message: error.to_string(),
        })
    };
    config.access.iter().filter_map(wrong).collect()
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

/// Returns a problem for each secret, out of a file or a variable, that is too short: `serve` would refuse it.
fn short_secrets(secrets: &[NamedSecret<'_>], env: &Environment) -> Vec<Problem> {
    let short = |one: &NamedSecret<'_>| {
        let text = one.secret.resolve(env).ok()?;
        let message = match one.usage {
            SecretUse::Token => Token::from_setting(&text).err()?.to_string(),
            SecretUse::Jwt => KeySet::shared(&text).err()?.to_string(),
            SecretUse::Own => return None,
        };
        Some(Problem {
            location: ValueLocation::Nowhere,
            path: one.path.clone(),
            message,
        })
    };
    secrets.iter().filter_map(short).collect()
}

/// Warns of secrets that are missing now, over which `serve` would end on the machine that serves, and of those whose
/// file others can read.
fn odd_secrets(secrets: &[NamedSecret<'_>], env: &Environment) -> Vec<String> {
    let odd = |one: &NamedSecret<'_>| match one.secret.resolve(env) {
        Err(error) => Some(format!("`{}`: {error}", one.path)),
        Ok(_) => {
            let path = one.secret.readable_by_others(env)?;
            let (key, path) = (&one.path, path.display());
            Some(format!("`{key}`: every user can read {path}: chmod o-rwx"))
        }
    };
    secrets.iter().filter_map(odd).collect()
}
