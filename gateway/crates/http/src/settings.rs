//! The settings of the frontend and of each route.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::read::lets_share;
use tidegate_access::Access;
use tidegate_access::limits::Limits;
use tidegate_auth::{AuthServer, KeySource};
use tidegate_plan::media_type::GuessTypes;
use tidegate_plan::{Coding, KeyError, Network, ObjectKey, Token};

/// The section `[http]`, except its addresses.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Connections open at once; beyond that the next ones wait in the kernel's queue.
    pub connections: usize,
    /// HTTP/2 streams open at once, of all connections. Beyond half of them a connection may have 8, beyond all of them
    /// one; further ones are refused.
    pub streams: usize,
    /// The time within which a request's head must arrive; also the time that a new connection may stay silent.
    pub header_timeout: Duration,
    /// The time that a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// The time that a client may take no bytes of an answer that is ready for it.
    pub stall_timeout: Duration,
    /// Bytes of a request's head, 431 beyond; at least 8 KiB. The server's buffer for a slow client is bounded by the
    /// same number.
    pub max_header_bytes: usize,
    /// Bytes of a request's target, 414 beyond.
    pub max_uri_bytes: usize,
    /// The time that answers in flight may take to finish once the process is asked to end.
    pub drain: Duration,
    /// The proxies whose `X-Forwarded-For` is believed; peers on a Unix socket always are.
    pub trusted_proxies: Vec<Network>,
    /// The clients whose `PURGE` is obeyed. Without any, it is no method.
    pub purge_networks: Vec<Network>,
    /// Whether `Server-Timing` is answered to requests that carry `Tidegate-Timing`.
    pub server_timing: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connections: 8192,
            streams: 16_384,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            stall_timeout: Duration::from_secs(30),
            max_header_bytes: 16 << 10,
            max_uri_bytes: 8 << 10,
            drain: Duration::from_secs(30),
            trusted_proxies: Vec::new(),
            purge_networks: Vec::new(),
            server_timing: true,
        }
    }
}

/// The settings of a route's answers; its origin and profile are in its [`ReadContext`](tidegate_engine::ReadContext).
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSettings {
    /// The host whose requests it answers; `None`: any host.
    pub host: Option<String>,
    /// The prefix of paths that belong to the route, see [`tidegate_plan::route`].
    pub path: String,
    /// The prefix that is put before the rest of the path below `path` to make the object's key.
    pub key_prefix: String,
    /// The access that GET and HEAD must have; `None`: the route is open to all.
    pub access: Option<RouteAccess>,
    /// The limits of GET and HEAD. A request keeps to all of them.
    pub limits: Vec<RouteLimits>,
    /// The `Cache-Control` that is sent instead of the object's own.
    pub cache_control: Option<HeaderValue>,
    /// The object that answers for `…/`, such as `index.html`.
    pub index: Option<String>,
    /// Headers sent with every object, instead of the object's own of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The sites whose scripts may read it; `None`: no others.
    pub cors: Option<Cors>,
    /// Whether a client's `Cache-Control: no-cache` makes the origin be asked.
    pub client_no_cache: bool,
    /// Whether text is compressed for clients that accept it.
    pub compress: bool,
    /// The codings in which objects may lie in the bucket beside their originals, the preferred one among equals first.
    pub precompressed: Vec<Coding>,
    /// The types that are guessed for objects that are stored without one.
    pub guess_types: GuessTypes,
    /// The token that PUT and DELETE must show; `None`: the route is read only.
    pub write_token: Option<Token>,
}

impl RouteSettings {
    /// Returns whether it admits every request.
    pub(crate) fn is_open(&self) -> bool {
        self.access.is_none() && self.limits.is_empty()
    }

    /// Returns whether a request that is refused is answered as where there is no route.
    pub(crate) fn is_hidden(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.hide)
    }

    /// Returns the limits that are looked at before its access.
    pub(crate) fn early_limits(&self) -> impl Iterator<Item = &RouteLimits> {
        self.limits.iter().filter(|limits| !self.is_late(limits))
    }

    /// Returns those that are looked at after it.
    pub(crate) fn late_limits(&self) -> impl Iterator<Item = &RouteLimits> {
        self.limits.iter().filter(|limits| self.is_late(limits))
    }

    /// Returns whether limits count by the keys of its access, or would tell that it is there.
    fn is_late(&self, limits: &RouteLimits) -> bool {
        limits.0.counts_by_key() || self.is_hidden()
    }

    /// Returns whether no shared cache may keep its answers: it has an access, and no `Cache-Control` of its own that lets
    /// them. A lifetime alone does not: RFC 9111, 3.5 guards only what `Authorization` admits.
    pub(crate) fn is_private(&self) -> bool {
        self.access.is_some() && !self.cache_control.as_ref().is_some_and(lets_share)
    }

    /// Returns the key for a path `below` the route, still percent-encoded; for a folder the key of its index, if the
    /// route has one.
    ///
    /// # Errors
    /// If no object can have that key.
    pub fn key(&self, below: &str) -> Result<ObjectKey, KeyError> {
        match &self.index {
            Some(index) if below.is_empty() || below.ends_with('/') => {
                ObjectKey::from_path(&self.key_prefix, &format!("{below}{index}"))
            }
            _ if below.is_empty() => Err(KeyError::Empty),
            _ => ObjectKey::from_path(&self.key_prefix, below),
        }
    }

    /// Returns the keys beside an object's at which it may lie in other codings.
    pub fn siblings(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectKey> {
        let codings = self.precompressed.iter();
        codings.filter_map(|coding| coding.encoded_key(key))
    }

    /// Returns the prefix of the keys of all paths that begin with `rest` below the route, still percent-encoded.
    ///
    /// # Errors
    /// If no object can have such a key.
    pub fn prefix(&self, rest: &str) -> Result<String, KeyError> {
        match rest {
            "" => Ok(self.key_prefix.clone()),
            rest => Ok(ObjectKey::from_path(&self.key_prefix, rest)?
                .as_str()
                .to_owned()),
        }
    }
}

/// The access of a route. Routes that name the same one share its rules.
#[derive(Debug, Clone)]
pub struct RouteAccess {
    /// The rules.
    pub rules: Arc<Access>,
    /// The source of the keys of its JWTs, if they can be fetched again.
    pub keys: Option<Arc<KeySource>>,
    /// The server that is asked about what nothing else admits.
    pub server: Option<Arc<AuthServer>>,
    /// Whether a refusal is answered as a route that does not exist.
    pub hide: bool,
}

impl RouteAccess {
    /// Returns an access that decides alone, and says why it refuses.
    #[must_use]
    pub fn new(rules: Access) -> Self {
        Self {
            rules: Arc::new(rules),
            keys: None,
            server: None,
            hide: false,
        }
    }
}

impl PartialEq for RouteAccess {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules) && self.hide == other.hide
    }
}

/// Limits of a route. Routes that name the same ones count together.
#[derive(Debug, Clone)]
pub struct RouteLimits(pub Arc<Limits>);

impl PartialEq for RouteLimits {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            host: None,
            path: "/".into(),
            key_prefix: String::new(),
            access: None,
            limits: Vec::new(),
            cache_control: None,
            index: None,
            headers: Vec::new(),
            cors: None,
            client_no_cache: false,
            compress: true,
            precompressed: Vec::new(),
            guess_types: GuessTypes::default(),
            write_token: None,
        }
    }
}

/// The sites whose scripts may read a route (Fetch standard, "CORS protocol").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins such as `https://example.org`; `*` alone: all.
    pub origins: Vec<String>,
    /// The time that a browser may remember a preflight's answer.
    pub max_age: Duration,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: vec!["*".into()],
            max_age: Duration::from_secs(86_400),
        }
    }
}
