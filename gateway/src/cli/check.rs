//! `tidegate check`: a summary of the configuration, in a few lines.

use std::error::Error;
use std::fmt::Write;

use super::Actions;
use crate::secrets::SecretProblems;
use tidegate_auth::KeyFileError;
use tidegate_config::{
    CommitName, Config, Environment, KeyPath, LoadedConfig, Mount, NamedSecret, Problem, Problems,
    Route, SecretError, ValueLocation,
};
use tidegate_outbound::ClientError;
use tidegate_tls::TlsError;

/// Returns the summary of a configuration that is right.
///
/// # Errors
/// As [`warnings`].
pub(super) fn summary(
    loaded: &LoadedConfig,
    env: &Environment,
    actions: &impl Actions,
) -> Result<String, Problems> {
    let config = &loaded.config;
    let of_parts = warnings(loaded, env, actions)?;
    let mut text = String::new();
    let mut line = |what: String| writeln!(text, "{what}").expect("a string takes everything");
    let of_file = loaded.warnings.iter().map(ToString::to_string);
    for warning in of_file.chain(of_parts).chain(mount_warnings(config)) {
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

/// Returns warnings of secrets and files that are missing now, over which `serve` would end on the machine that serves, and
/// of secrets that others can read.
///
/// # Errors
/// There is no origin, or `serve` would end over what a secret or a file has: one is too short, a certificate and its key do
/// not fit, a file is no key set.
pub(super) fn warnings(
    loaded: &LoadedConfig,
    env: &Environment,
    actions: &impl Actions,
) -> Result<Vec<String>, Problems> {
    let config = &loaded.config;
    config.require_origin()?;
    let SecretProblems { mut wrong, missing } = SecretProblems::find(loaded, env, |_| true);
    if !wrong.is_empty() {
        return Err(Problems(wrong));
    }
    let mut warnings: Vec<_> = missing.iter().map(ToString::to_string).collect();
    warnings.extend(open_secrets(config, env));
    for error in actions.rehearse(config, env) {
        // It is named already, by its key.
        if error.chain().any(is_named) {
            continue;
        }
        let message = format!("{error:#}");
        match error.chain().any(is_missing) {
            true => warnings.push(message),
            false => wrong.push(Problem {
                location: ValueLocation::Nowhere,
                path: KeyPath::default(),
                message,
            }),
        }
    }
    match wrong.is_empty() {
        true => Ok(warnings),
        false => Err(Problems(wrong)),
    }
}

/// Returns whether an error is that of a secret or a key set, which [`SecretProblems`] names.
fn is_named(error: &(dyn Error + 'static)) -> bool {
    error.is::<SecretError>() || error.is::<KeyFileError>()
}

/// Returns whether an error is that of a file which this machine has not, or may not read.
fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let certificate = error.downcast_ref::<TlsError>();
    let authorities = error.downcast_ref::<ClientError>();
    matches!(certificate, Some(TlsError::File { .. }))
        || matches!(
            authorities,
            Some(ClientError::File { .. } | ClientError::Roots(_))
        )
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

/// Warns of secrets whose file others can read.
fn open_secrets(config: &Config, env: &Environment) -> Vec<String> {
    let open = |one: &NamedSecret<'_>| {
        let path = one.secret.readable_by_others(env)?;
        let (key, path) = (&one.path, path.display());
        Some(format!("`{key}`: every user can read {path}: chmod o-rwx"))
    };
    config.secrets().iter().filter_map(open).collect()
}
