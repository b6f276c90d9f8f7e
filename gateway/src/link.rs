//! Links to paths of the public listener: of the configuration alone, and signed where the path's route has keys.
//!
//! `tidegate sign` and the console make theirs here.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::Uri;
use percent_encoding::percent_decode_str;

use tidegate_access::SigningKey;
use tidegate_config::{Access, Config, Environment, Route};
use tidegate_plan::Timestamp;
use tidegate_plan::key::encode_path;
use tidegate_plan::route::{RouteRule, RouteTable};

/// The beginning of a link.
pub(crate) struct LinkBase {
    scheme: String,
    /// Host and port, as a client sends them in `Host`.
    pub(crate) host: String,
    /// The port with its colon; empty for the scheme's own.
    port: String,
}

/// The route that a path leads to.
pub(crate) struct LinkRoute<'p> {
    /// The route.
    pub(crate) route: Route,
    /// The path below it.
    pub(crate) below: &'p str,
}

/// A link to one path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathLink {
    /// The path, with a signature if its route asks for one, behind `http.public_url` if that is set.
    pub(crate) url: String,
    /// The id of the key that signed it.
    pub(crate) key: Option<String>,
}

impl LinkBase {
    /// Reads `https://media.example.org`.
    pub(crate) fn read(url: &str) -> anyhow::Result<Self> {
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
        let port = host.strip_prefix(authority.host()).unwrap_or_default();
        Ok(Self {
            scheme: scheme.to_owned(),
            port: port.to_owned(),
            host: host.to_owned(),
        })
    }

    /// Returns scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }
}

impl<'p> LinkRoute<'p> {
    /// Finds the route of a path; an empty `host` finds those without one.
    pub(crate) fn find(config: &Config, host: &str, path: &'p str) -> Option<Self> {
        let mut routes = config.routes();
        let rules = routes.iter().map(|route| RouteRule {
            host: route.host.clone(),
            path: route.path.clone(),
        });
        let (index, below) = RouteTable::new(rules).find(host, path)?;
        let route = routes.swap_remove(index);
        Some(Self { route, below })
    }

    /// Returns its access; `None`: it is open to all.
    pub(crate) fn access<'c>(&self, config: &'c Config) -> Option<&'c Access> {
        let name = self.route.access.as_deref()?;
        config.access.get(name)
    }

    /// Returns the beginning of a link to it: `base`, with the route's own host if it names one.
    fn origin(&self, base: &LinkBase) -> String {
        match &self.route.host {
            Some(host) => format!("{}://{host}{}", base.scheme, base.port),
            None => base.origin(),
        }
    }

    /// Returns the key of this id, with its secret read; without an id the only key. Reads a file of the secret.
    pub(crate) fn signing_key(
        &self,
        config: &Config,
        id: Option<&str>,
        env: &Environment,
    ) -> anyhow::Result<SigningKey> {
        let name = self.route.access.as_deref().unwrap_or_default();
        let access = self.access(config);
        let access = access.context("a route's access was checked")?;
        signing_key(access, id, env).with_context(|| format!("access `{name}`"))
    }
}

/// Returns a link to a path of the public listener: signed for `life` with the key of this id if its route has keys, and
/// plain if its route is open to all. Without a `host` the route is that of a request to `http.public_url`. A signed path
/// that ends in `/` opens all below it.
pub(crate) fn to_path(
    (config, env): (&Config, &Environment),
    (host, path): (Option<&str>, &str),
    key: Option<&str>,
    (now, life): (Timestamp, Duration),
) -> anyhow::Result<PathLink> {
    let base = config.http.public_url.as_deref();
    let base = base.map(LinkBase::read).transpose()?;
    let host = host.or(base.as_ref().map(|base| &*base.host));
    let found = LinkRoute::find(config, host.unwrap_or_default(), path);
    let found = found.with_context(|| format!("no route has the path `{path}`"))?;
    let base = base.map_or_else(String::new, |base| found.origin(&base));
    let shown = encoded(path);
    if found.route.access.is_none() {
        return Ok(PathLink {
            url: format!("{base}{shown}"),
            key: None,
        });
    }
    let signing = found.signing_key(config, key, env)?;
    let (_, text) = sign_path(&signing, path, (now, life))?;
    Ok(PathLink {
        url: format!("{base}{shown}?{text}"),
        key: Some(signing.id().to_owned()),
    })
}

/// Returns a path as a URL has it: everything but its escapes and plain characters is percent-encoded.
pub(crate) fn encoded(path: &str) -> String {
    let is_escape = |text: &str| {
        let digits = text.as_bytes().get(1..3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let (mut url, mut rest) = (String::new(), path);
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        let (escape, behind) = match is_escape(from) {
            true => from.split_at(3),
            false => ("%25", &from[1..]),
        };
        url.extend(encode_path(before));
        url.push_str(escape);
        rest = behind;
    }
    url.extend(encode_path(rest));
    url
}

/// Signs a path, percent-encoded, and with one that ends in `/` all below it; returns the path decoded and the signature.
pub(crate) fn sign_path(
    key: &SigningKey,
    path: &str,
    (now, life): (Timestamp, Duration),
) -> anyhow::Result<(String, String)> {
    let decoded = percent_decode_str(path).decode_utf8();
    let decoded = decoded.context("the path is not valid text")?;
    let is_dot = |segment: &str| segment == "." || segment == "..";
    ensure!(
        !decoded.split('/').any(is_dot),
        "the path has a dot segment"
    );
    let text = key.sign_prefix(&decoded, now.plus(life).secs());
    Ok((decoded.into_owned(), text))
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
        None if keys.len() > 1 => bail!("it has several keys ({}): name one", names()),
        None => keys.first_key_value().context("it has no keys")?,
    };
    let of = || format!("the key `{id}`");
    let secret = secret.resolve(env).with_context(of)?;
    SigningKey::new(id, &secret).with_context(of)
}

#[cfg(test)]
mod tests;
