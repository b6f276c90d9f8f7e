//! Contradictions: values that are each right and cannot stand together, names that refer to
//! nothing, limits beyond the code's abilities.

use std::collections::BTreeSet;

use http::Uri;

use super::document::Document;
use super::problem::{KeyPath, Problem, suggestion};
use super::{Config, Secret};
use origins::is_in_the_clear;
use tidegate_plan::{ByteSize, Period, Token};

mod access;
mod access_servers;
mod cache;
mod events;
mod fleet;
mod hooks;
mod limits;
mod mounts;
mod origins;
mod profiles;
mod routes;
mod tls;
mod trace;

/// The findings.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Problems that must be repaired.
    pub(super) errors: Vec<Problem>,
    /// Values that were corrected, or are odd.
    pub(super) warnings: Vec<Problem>,
}

/// Collects the findings, with their places.
struct Check<'d, 't> {
    document: &'d Document<'t>,
    found: Findings,
}

impl Check<'_, '_> {
    fn error(&mut self, path: &KeyPath, message: impl Into<String>) {
        let problem = self.document.problem_at(path, message.into());
        self.found.errors.push(problem);
    }

    fn warn(&mut self, path: &KeyPath, message: impl Into<String>) {
        let problem = self.document.problem_at(path, message.into());
        self.found.warnings.push(problem);
    }

    /// Checks a token that is written down; one from elsewhere is checked when it is read.
    fn token(&mut self, path: &KeyPath, token: Option<&Secret>) {
        if let Some(Secret::Literal(text)) = token
            && let Err(short) = Token::from_setting(text)
        {
            self.error(path, short.to_string());
        }
    }

    fn not_zero(&mut self, path: &KeyPath, period: Period) {
        if period.is_zero() {
            self.error(path, "must not be zero");
        }
    }

    fn at_least(&mut self, path: &KeyPath, number: u32, least: u32) {
        if number < least {
            self.error(path, format!("must be at least {least}"));
        }
    }

    /// Checks a URL, and warns of one that crosses a network in the clear, which would do this `harm`. Messages show the
    /// `sample`, which is right.
    fn url(&mut self, path: &KeyPath, text: &str, sample: &str, harm: &str) {
        match url_of(text, sample) {
            Err(why) => self.error(path, why),
            Ok(()) if is_in_the_clear(text) => {
                let message =
                    format!("is not encrypted, and not on this machine: {harm}; use https://");
                self.warn(path, message);
            }
            Ok(()) => {}
        }
    }

    fn size_within(&mut self, path: &KeyPath, size: ByteSize, least: ByteSize, most: ByteSize) {
        if size < least || size > most {
            self.error(path, format!("must be from {least} to {most}"));
        }
    }
}

/// Returns why a text is no URL of a server. The reason has no part of the text, which may hold a password.
fn url_of(text: &str, sample: &str) -> Result<(), String> {
    let no_url = || format!("is no URL such as {sample}");
    let uri: Uri = text.parse().map_err(|_| no_url())?;
    let authority = uri.authority().ok_or_else(no_url)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("is neither http:// nor https://".to_owned());
    }
    if authority.as_str().contains('@') {
        return Err("has credentials in it".to_owned());
    }
    if authority.host().is_empty() {
        return Err(no_url());
    }
    Ok(())
}

/// The smallest metadata database: some 100,000 keys.
const MIN_STATE_SIZE: ByteSize = ByteSize(64 << 20);

/// Looks for contradictions.
pub(super) fn check(document: &Document<'_>, config: &Config) -> Findings {
    let mut check = Check {
        document,
        found: Findings::default(),
    };
    check.listeners(config);
    check.tls(config);
    check.hosts(&config.admin.hosts);
    check.token(&KeyPath::of("admin", "token"), config.admin.token.as_ref());
    check.limits(config);
    check.public_url(config.http.public_url.as_deref());
    check.level(&config.log.level);
    check.cache(&config.cache);
    let size = KeyPath::of("state", "size");
    check.size_within(&size, config.state.size, MIN_STATE_SIZE, ByteSize(1 << 40));
    check.origins(&config.origin);
    check.routes(config);
    check.accesses(config);
    check.all_limits(config);
    check.events(config);
    check.fleet(&config.fleet);
    check.mounts(config);
    check.hooks(config);
    check.profiles(config);
    check.trace(&config.trace);
    check.found
}

impl Check<'_, '_> {
    /// Checks the hosts of the admin listener: names without scheme and port.
    fn hosts(&mut self, hosts: &[String]) {
        let path = KeyPath::of("admin", "hosts");
        for (index, host) in hosts.iter().enumerate() {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            if host.is_empty() || !host.chars().all(fits) {
                let host = host.escape_debug();
                let message = format!("`{host}` is no host name; leave out scheme and port");
                self.error(&path.index(index), message);
            }
        }
    }

    /// Checks that no two listeners share an address, least of all with the private one.
    fn listeners(&mut self, config: &Config) {
        let path = KeyPath::of("http", "listen");
        let listen = &config.http.listen.0;
        if listen.is_empty() {
            self.error(&path, "names no address");
        }
        let twice: BTreeSet<_> = (0..listen.len())
            .filter(|later| {
                listen[..*later]
                    .iter()
                    .any(|one| one.address.collides(&listen[*later].address))
            })
            .collect();
        for index in twice {
            self.error(
                &path.index(index),
                format!("`{}` is listed before", listen[index].address),
            );
        }
        let admin = KeyPath::of("admin", "listen");
        if let Some(shared) = listen
            .iter()
            .find(|one| one.address.collides(&config.admin.listen.address))
        {
            let (path, other) = match self.document.has(&admin) {
                true => (&admin, "http.listen"),
                false => (&path, "admin.listen"),
            };
            self.error(
                path,
                format!("`{}` is the place of `{other}` too", shared.address),
            );
        }
    }

    /// Checks a log level: `info`, or `info,tidegate_engine=debug`.
    fn level(&mut self, text: &str) {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        for part in text.split(',') {
            let (module, level) = part.rsplit_once('=').unwrap_or(("", part));
            self.log_module(module.trim());
            let level = level.trim();
            if !LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level)) {
                let hint = suggestion(level, LEVELS);
                let message = format!("`{}` is no level{hint}", level.escape_debug());
                self.error(&KeyPath::of("log", "level"), message);
            }
        }
    }

    /// Warns of a module's name from before the crates: no event has it any more.
    fn log_module(&mut self, module: &str) {
        let mut path = module.split("::");
        let krate = match (path.next(), path.next()) {
            (Some("tidegate"), Some("engine"))
                if matches!(path.next(), Some("upload" | "spool")) =>
            {
                "write"
            }
            (Some("tidegate"), Some("store")) => "cache",
            (Some("tidegate"), Some(layer @ ("admin" | "engine" | "fuse" | "http" | "origin"))) => {
                layer
            }
            _ => return,
        };
        let message = format!(
            "`{}` stands in `tidegate_{krate}` now",
            module.escape_debug()
        );
        self.warn(&KeyPath::of("log", "level"), message);
    }

    /// Checks the beginning of links.
    fn public_url(&mut self, url: Option<&str>) {
        let is_right = |url: &str| routes::is_site(url) && url_of(url, "").is_ok();
        if let Some(url) = url.filter(|url| !is_right(url)) {
            let message = match url.contains('@') {
                true => "has credentials in it".to_owned(),
                false => format!(
                    "`{}` is no scheme and host such as https://media.example.org",
                    url.escape_debug()
                ),
            };
            self.error(&KeyPath::of("http", "public_url"), message);
        }
    }

    fn limits(&mut self, config: &Config) {
        let http = &config.http;
        let path = |key| KeyPath::of("http", key);
        self.at_least(&path("max_connections"), http.max_connections, 1);
        self.not_zero(&path("header_timeout"), http.header_timeout);
        self.not_zero(&path("idle_timeout"), http.idle_timeout);
        self.not_zero(&path("write_timeout"), http.write_timeout);
        // hyper reads headers into a buffer of at least 8 KiB.
        let (least, most) = (ByteSize(8 << 10), ByteSize(1 << 20));
        self.size_within(&path("max_header"), http.max_header, least, most);
        self.size_within(
            &path("max_uri"),
            http.max_uri,
            ByteSize(1 << 10),
            http.max_header.max(least),
        );
    }
}
