//! Accesses: their credentials, and the routes that name them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::problem::{KeyPath, suggestion};
use super::super::section::AccessToken;
use super::super::{Access, Config, ListenAddress, Route, Secret};
use super::Check;
use tidegate_access::{MIN_SECRET, Referers, SigningKey};
use tidegate_plan::{Network, Period};

/// The largest difference of clocks that is allowed for.
pub(super) const MAX_SKEW: Period = Period::secs(3600);

/// The keys of an access that admit requests.
const WAYS_IN: [&str; 6] = [
    "networks",
    "tokens",
    "clients",
    "signed",
    "jwt",
    "auth_request",
];

/// The networks in which a proxy stands beside its gateway: RFC 1918, RFC 6598, RFC 3927, RFC 4193, RFC 4291.
const PRIVATE_NETWORKS: [&str; 7] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "fc00::/7",
    "fe80::/10",
];

/// The ends of names of headers that tell some shared caches how to cache (RFC 9213; Edge Architecture Specification).
const TARGETED_HEADERS: [&str; 2] = ["-cache-control", "surrogate-control"];

impl Check<'_, '_> {
    pub(super) fn accesses(&mut self, config: &Config) {
        for (name, access) in &config.access {
            let path = KeyPath::of("access", name);
            let is_named = |route: &Route| route.access.as_ref() == Some(name);
            if !config.route.iter().any(is_named) {
                self.warn(&path, "no route names it");
            }
            self.access(&path, access);
            self.server_names(config, (name.as_str(), access));
            self.networks_of_proxies(&path, access, &config.http.trusted_proxies);
            self.secrets_in_the_clear(&path, access, &config.http.listen.0);
        }
        self.purgers_behind_a_proxy(config);
        for (index, route) in config.route.iter().enumerate() {
            self.access_of_route(config, &KeyPath::nth("route", index), route);
        }
    }

    fn access(&mut self, path: &KeyPath, access: &Access) {
        let Access {
            networks: _,
            tokens,
            clients: _,
            signed,
            jwt,
            auth_request,
            referers,
            hide: _,
        } = access;
        let rules = [&WAYS_IN[..], &["referers"]].concat();
        if !rules.iter().any(|key| self.document.has(&path.key(key))) {
            let message = "is empty, and admits nothing: it needs networks, tokens, clients, signed, jwt, auth_request or \
                 referers";
            self.error(path, message);
        }
        let hints = [
            ("networks", "to admit no client by its address"),
            ("tokens", "for no tokens"),
            ("clients", "to admit no client by its certificate"),
        ];
        for (key, hint) in hints {
            self.not_empty(&path.key(key), hint);
        }
        for (name, token) in tokens {
            let path = path.key("tokens").key(name);
            let AccessToken { secret, expires: _ } = token;
            self.token(&path, Some(secret));
        }
        if let Some(signed) = signed {
            let path = path.key("signed");
            if signed.keys.is_empty() && self.document.has(&path.key("keys")) {
                self.error(
                    &path.key("keys"),
                    "is empty; leave `signed` out for no links",
                );
            }
            for (id, secret) in &signed.keys {
                self.signing_key(&path.key("keys").key(id), id, secret);
            }
            if signed.skew > MAX_SKEW {
                self.error(&path.key("skew"), format!("must be at most {MAX_SKEW}"));
            }
        }
        if let Some(jwt) = jwt {
            self.jwt(&path.key("jwt"), jwt);
        }
        if let Some(server) = auth_request {
            self.auth_request(&path.key("auth_request"), server);
        }
        self.referers(&path.key("referers"), referers);
        let is_written = |key: &&str| self.document.has(&path.key(key));
        if !referers.is_empty() && !WAYS_IN.iter().any(is_written) {
            let message =
                "is the only rule, and keeps out pages alone: a program sends any `Referer`";
            self.warn(&path.key("referers"), message);
        }
    }

    /// Reports a list or table that is written and has no entry. One whose entries cannot be read is not empty.
    fn not_empty(&mut self, path: &KeyPath, hint: &str) {
        if self.document.has(path) && !self.document.has_content(path) {
            self.error(path, format!("is empty; leave it out {hint}"));
        }
    }

    /// Checks a key's id, and its secret if that is written down; one from elsewhere is checked when it is read.
    fn signing_key(&mut self, path: &KeyPath, id: &str, secret: &Secret) {
        let long_enough = "0".repeat(MIN_SECRET);
        let text = match secret {
            Secret::Literal(text) => text,
            Secret::Env(_) | Secret::File(_) => &long_enough,
        };
        if let Err(error) = SigningKey::new(id, text) {
            self.error(path, error.to_string());
        }
    }

    /// Reports `server_names` in an access whose routes have no host.
    fn server_names(&mut self, config: &Config, (name, access): (&str, &Access)) {
        let index = access
            .referers
            .iter()
            .position(|rule| rule == "server_names");
        if let Some(index) = index
            && config.hosts_of(name).next().is_none()
        {
            let path = KeyPath::of("access", name).key("referers").index(index);
            let message = "`server_names` names none: no route with this access has a `host`";
            self.error(&path, message);
        }
    }

    fn referers(&mut self, path: &KeyPath, referers: &[String]) {
        self.not_empty(path, "to allow all");
        if let Err((index, error)) = Referers::new(referers.iter().map(String::as_str)) {
            let message = format!("`{}` {error}", referers[index].escape_debug());
            self.error(&path.index(index), message);
        }
    }

    /// Warns of networks that may hold a proxy, whose address would be that of all its clients.
    fn networks_of_proxies(&mut self, path: &KeyPath, access: &Access, trusted: &[Network]) {
        for (index, network) in access.networks.iter().enumerate() {
            if let Some(message) = lent_address(*network, trusted) {
                self.warn(&path.key("networks").index(index), message);
            }
        }
    }

    /// Warns of networks whose purges are obeyed, and which hold a proxy on this machine that is not trusted: each of its
    /// clients could purge.
    fn purgers_behind_a_proxy(&mut self, config: &Config) {
        let http = &config.http;
        for (index, network) in http.purge_networks.iter().enumerate() {
            if let Some(message) = lent_by_local_proxy(*network, &http.trusted_proxies) {
                let path = KeyPath::of("http", "purge_networks");
                self.warn(&path.index(index), message);
            }
        }
    }

    /// Warns of tokens and JWTs that cross a network in the clear: an eavesdropper could read from then on.
    fn secrets_in_the_clear(&mut self, path: &KeyPath, access: &Access, listen: &[ListenAddress]) {
        let Some(address) = listen.iter().find(|one| one.is_in_the_clear()) else {
            return;
        };
        for (key, words, is_there) in [
            ("tokens", "tokens", !access.tokens.is_empty()),
            ("jwt", "JWTs", access.jwt.is_some()),
        ] {
            if is_there {
                let message = format!(
                    "the {words} cross the network unencrypted: `http.listen` names {address}; \
                     say `tls = true` there, or listen on loopback behind a proxy with TLS"
                );
                self.warn(&path.key(key), message);
            }
        }
    }

    fn access_of_route(&mut self, config: &Config, path: &KeyPath, route: &Route) {
        let Some(name) = &route.access else { return };
        if !config.access.contains_key(name) {
            let hint = suggestion(name, config.access.keys().map(String::as_str));
            let message = format!("there is no access `{}`{hint}", name.escape_debug());
            self.error(&path.key("access"), message);
        }
        let asks = |access: &Access| access.auth_request.is_some();
        if route.host.is_none() && config.access.get(name).is_some_and(asks) {
            let message = "answers to any host, and the server of `auth_request` judges the one that the client names: say \
                 the route's `host`";
            self.warn(&path.key("access"), message);
        }
        let is_public = |control: &String| {
            let mut directives = control.split(',');
            directives.any(|one| {
                let one = one.trim().to_ascii_lowercase();
                one == "public" || one.starts_with("s-maxage")
            })
        };
        let message =
            "lets shared caches answer in our place, and they do not know the route's `access`";
        if route.cache_control.as_ref().is_some_and(is_public) {
            self.warn(&path.key("cache_control"), message);
        }
        for (name, value) in &route.headers {
            let (name_in_lower, value) = (name.to_ascii_lowercase(), value.to_ascii_lowercase());
            let is_for_caches = TARGETED_HEADERS
                .iter()
                .any(|end| name_in_lower.ends_with(end));
            if is_for_caches
                && !["no-store", "private"]
                    .iter()
                    .any(|own| value.contains(own))
            {
                self.warn(&path.key("headers").key(name), message);
            }
        }
    }
}

/// Returns in which way a network would lend clients the address of a proxy on this machine.
fn lent_by_local_proxy(network: Network, trusted: &[Network]) -> Option<String> {
    let local = [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ];
    let covers = |address: &IpAddr| {
        network.contains(*address) && !trusted.iter().any(|one| one.contains(*address))
    };
    local.iter().any(covers).then(|| {
        format!(
            "`{network}` is the address of every client behind a proxy on this machine, \
             unless `http.trusted_proxies` has it"
        )
    })
}

/// Returns in which way a network would lend clients the address of a proxy.
fn lent_address(network: Network, trusted: &[Network]) -> Option<String> {
    if let Some(message) = lent_by_local_proxy(network, trusted) {
        return Some(message);
    }
    if let Some(proxy) = trusted.iter().find(|proxy| network.overlaps(**proxy)) {
        return Some(format!(
            "`{network}` holds the trusted proxy `{proxy}`, which lends its address to all clients \
             unless it sends `X-Forwarded-For` for each"
        ));
    }
    let mut private = PRIVATE_NETWORKS.iter().filter_map(|text| text.parse().ok());
    let is_private = private.any(|one| network.overlaps(one));
    (is_private && trusted.is_empty()).then(|| {
        format!(
            "`{network}` may hold a proxy, which then lends its address to all clients: \
             name the proxy in `http.trusted_proxies`"
        )
    })
}
