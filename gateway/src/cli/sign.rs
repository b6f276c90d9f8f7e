//! `tidegate sign`: links that expire, made from the configuration alone.

use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use http::{Method, Uri};
use percent_encoding::percent_decode_str;

use super::SignArgs;
use super::client::check_path;
use tidegate_access::{MAX_PRESIGNED, SigningKey};
use tidegate_config::{Access, Config, Environment};
use tidegate_plan::Timestamp;
use tidegate_plan::route::{RouteRule, RouteTable};

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
    let base = args.url.as_deref().map(Base::read).transpose()?;
    let host = base.as_ref().map_or("", |base| &base.host);
    let (name, below) = access_of(config, host, &args.path)?;
    let access = config
        .access
        .get(name)
        .context("a route's access was checked")?;
    let key = signing_key(access, args.key.as_deref(), env);
    let key = key.with_context(|| format!("access `{name}`"))?;
    let life = Duration::from(args.expires);
    ensure!(
        life >= Duration::from_secs(1),
        "`--expires` is less than a second"
    );
    let origin = base.as_ref().map_or("", |base| &base.origin);
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
        let query = key.presign(&method, (host, &args.path), now, life);
        return Ok(format!("{origin}{}?{query}\n", args.path));
    }
    let decoded = percent_decode_str(&args.path).decode_utf8();
    let decoded = decoded.context("the path is not valid text")?;
    let is_dot = |segment: &str| segment == "." || segment == "..";
    ensure!(
        !decoded.split('/').any(is_dot),
        "the path has a dot segment"
    );
    let text = key.sign_prefix(&decoded, now.plus(life).secs());
    if !args.prefix {
        return Ok(format!("{origin}{}?{text}\n", args.path));
    }
    ensure!(
        decoded.ends_with('/'),
        "a prefix ends in `/`: `{}/` is all below that folder",
        args.path
    );
    let route = args.path.strip_suffix(below).unwrap_or_default();
    let route = route.trim_end_matches('/');
    Ok(format!("{origin}{route}/{text}/{below}\ntidegate={text}\n"))
}

/// The beginning of a link.
struct Base {
    /// Scheme, host and port.
    origin: String,
    /// Host and port, as a client sends them in `Host`.
    host: String,
}

impl Base {
    fn read(url: &str) -> anyhow::Result<Self> {
        let wrong = || format!("`{url}` is no URL such as https://media.example.org");
        let uri: Uri = url.parse().with_context(wrong)?;
        let (scheme, authority) = (uri.scheme_str(), uri.authority());
        let (Some(scheme), Some(authority)) = (scheme, authority) else {
            bail!(wrong());
        };
        let bare = uri.query().is_none() && uri.path().trim_end_matches('/').is_empty();
        ensure!(bare, "`{url}` has a path of its own; leave it to PATH");
        // RFC 9110, 4.2.3: the port of the scheme is left out, as clients do in `Host`.
        let own_port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => bail!(wrong()),
        };
        let host = authority.as_str();
        let host = host.strip_suffix(own_port).unwrap_or(host);
        Ok(Self {
            origin: format!("{scheme}://{host}"),
            host: host.to_owned(),
        })
    }
}

/// Returns the name of the access of a path's route, and the path below the route.
fn access_of<'c, 'p>(
    config: &'c Config,
    host: &str,
    path: &'p str,
) -> anyhow::Result<(&'c str, &'p str)> {
    let rules = config.route.iter().map(|route| RouteRule {
        host: route.host.clone(),
        path: route.path.clone(),
    });
    let found = RouteTable::new(rules).find(host, path);
    let (index, below) = found.with_context(|| match host {
        "" => format!("no route has the path `{path}`; one with a host needs `--url`"),
        host => format!("no route of `{host}` has the path `{path}`"),
    })?;
    let route = &config.route[index];
    let access = route.access.as_deref();
    let access = access.with_context(|| {
        format!(
            "the route `{}` has no `access`: it is open to all",
            route.path
        )
    })?;
    Ok((access, below))
}

/// Returns the key of this id, with its secret read; without an id the only key.
fn signing_key(access: &Access, id: Option<&str>, env: &Environment) -> anyhow::Result<SigningKey> {
    let signed = access.signed.as_ref();
    let keys = &signed.context("it has no `signed` keys")?.keys;
    let names = || {
        keys.keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (id, secret) = match id {
        Some(id) => keys
            .get_key_value(id)
            .with_context(|| format!("it has no key `{id}`; there are {}", names()))?,
        None if keys.len() > 1 => bail!("it has several keys ({}): name one with `--key`", names()),
        None => keys.first_key_value().context("it has no keys")?,
    };
    let of = || format!("the key `{id}`");
    let secret = secret.resolve(env).with_context(of)?;
    SigningKey::new(id, &secret).with_context(of)
}

#[cfg(test)]
mod tests;
