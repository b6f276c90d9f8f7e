//! `tidegate check`: a summary of the configuration, in a few lines.

use std::error::Error;
use std::fmt::Write;

use super::Actions;
use tidegate_access::KeySet;
use tidegate_auth::{FileKeys, KeyFileError};
use tidegate_config::{
    CommitName, Config, Environment, KeyPath, Loaded, Mount, NamedSecret, Problem, Problems, Route,
    SecretError, SecretUse, ValueLocation,
};
use tidegate_outbound::ClientError;
use tidegate_plan::Token;
use tidegate_tls::TlsError;

/// Returns the summary of a configuration that is right.
///
/// # Errors
/// As [`warnings`].
pub(super) fn summary(
    loaded: &Loaded,
    env: &Environment,
    actions: &impl Actions,
) -> Result<String, Problems> {
    let config = &loaded.config;
    let of_parts = warnings(config, env, actions)?;
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
    config: &Config,
    env: &Environment,
    actions: &impl Actions,
) -> Result<Vec<String>, Problems> {
    config.require_origin()?;
    let secrets = config.secrets();
    let mut wrong = short_secrets(&secrets, env);
    wrong.extend(key_files(config));
    if !wrong.is_empty() {
        return Err(Problems(wrong));
    }
    let mut warnings = odd_secrets(&secrets, env);
    for error in actions.rehearse(config, env) {
        // `odd_secrets` has named it, by its key.
        if error.chain().any(<dyn Error>::is::<SecretError>) {
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

/// Returns whether an error is that of a file which this machine has not, or may not read.
fn is_missing(error: &(dyn Error + 'static)) -> bool {
    let certificate = error.downcast_ref::<TlsError>();
    let authorities = error.downcast_ref::<ClientError>();
    let keys = error.downcast_ref::<KeyFileError>();
    matches!(certificate, Some(TlsError::File { .. }))
        || matches!(keys, Some(KeyFileError::Unreadable(_)))
        || matches!(
            authorities,
            Some(ClientError::File { .. } | ClientError::Roots(_))
        )
}

/// Returns a problem for each file that is there as the key set of JWTs, and is none.
fn key_files(config: &Config) -> Vec<Problem> {
    let wrong = |(name, access): (&String, &tidegate_config::Access)| {
        let jwt = access.jwt.as_ref().filter(|jwt| !jwt.is_fetched())?;
        let error = FileKeys::read(jwt.jwks.as_ref()?.as_ref()).err()?;
        let is_there = matches!(error, KeyFileError::Invalid(_));
        is_there.then(|| Problem {
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
