//! `tidegate sign`: links that expire, made from the configuration alone.

use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use http::Method;

use super::SignArgs;
use super::client::check_path;
use crate::link::{LinkBase, LinkRoute, encoded, sign_path};
use tidegate_access::MAX_PRESIGNED;
use tidegate_config::{Config, Environment};
use tidegate_plan::Timestamp;

/// Returns the links, a line each.
pub(super) fn sign(config: &Config, env: &Environment, args: &SignArgs) -> anyhow::Result<String> {
    sign_at(config, env, args, SystemTime::now().into())
}

fn sign_at(
    config: &Config,
    env: &Environment,
    args: &SignArgs,
    now: Timestamp,
) -> anyhow::Result<String> {
    check_path(&args.path)?;
    let path = encoded(&args.path);
    let url = args.url.as_deref().or(config.http.public_url.as_deref());
    let base = url.map(LinkBase::read).transpose()?;
    let host = base.as_ref().map_or("", |base| &base.host);
    let found = route_of(config, host, &path)?;
    let key = found.signing_key(config, args.key.as_deref(), env)?;
    let life = Duration::from(args.expires);
    ensure!(
        life >= Duration::from_secs(1),
        "`--expires` is less than a second"
    );
    let origin = base.as_ref().map_or_else(String::new, LinkBase::origin);
    if args.presigned {
        ensure!(
            !host.is_empty(),
            "a presigned URL is for one host: name it with `--url`"
        );
        ensure!(
            life <= MAX_PRESIGNED,
            "a presigned URL lives for 7 days at most"
        );
        let method = if args.head { Method::HEAD } else { Method::GET };
        let query = key.presign(&method, (host, &path), now, life);
        return Ok(format!("{origin}{path}?{query}\n"));
    }
    let (decoded, text) = sign_path(&key, &path, (now, life))?;
    if !args.prefix {
        return Ok(format!("{origin}{path}?{text}\n"));
    }
    ensure!(
        decoded.ends_with('/'),
        "a prefix ends in `/`: `{path}/` is all below that folder"
    );
    let below = found.below;
    let route = path.strip_suffix(below).unwrap_or_default();
    let route = route.trim_end_matches('/');
    Ok(format!("{origin}{route}/{text}/{below}\ntidegate={text}\n"))
}

/// Returns the route of a path, which is not open to all.
fn route_of<'p>(config: &Config, host: &str, path: &'p str) -> anyhow::Result<LinkRoute<'p>> {
    let found = LinkRoute::find(config, host, path);
    let found = found.with_context(|| match host {
        "" => format!("no route has the path `{path}`; one with a host needs `--url`"),
        host => format!("no route of `{host}` has the path `{path}`"),
    })?;
    ensure!(
        found.route.access.is_some(),
        "the route `{}` has no `access`: it is open to all",
        found.route.path
    );
    Ok(found)
}

#[cfg(test)]
mod tests;
