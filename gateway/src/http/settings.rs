//! What can be set about the frontend as a whole and about each route.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use tidegate_plan::media_type::GuessTypes;
use tidegate_plan::{Coding, KeyError, Network, ObjectKey, Token};

/// The section `[http]`, but for where it listens.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Connections open at once; beyond that the next ones wait in the kernel's queue.
    pub connections: usize,
    /// HTTP/2 streams open at once, of all connections. Beyond half of them a connection that has several
    /// is refused more.
    pub streams: usize,
    /// How long a request's head may take to arrive; also how long a new connection may stay
    /// silent.
    pub header_timeout: Duration,
    /// How long a connection may stay open without a request.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of an answer that is ready for it.
    pub stall_timeout: Duration,
    /// Bytes of a request's head, 431 beyond; at least 8 KiB. What waits inside the server for a
    /// slow client is bounded by the same number.
    pub max_header_bytes: usize,
    /// Bytes of a request's target, 414 beyond.
    pub max_uri_bytes: usize,
    /// How long answers under way may take to finish once the process is asked to end.
    pub drain: Duration,
    /// Whose `X-Forwarded-For` is believed; peers on a Unix socket always are.
    pub trusted_proxies: Vec<Network>,
    /// Whether HTTP/2 with prior knowledge is spoken, beside HTTP/1.1.
    pub http2: bool,
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
            http2: true,
            server_timing: true,
        }
    }
}

/// What a route decides about its answers; which origin and profile it has is said by its
/// [`Source`](crate::engine::Source).
#[derive(Debug, Clone, PartialEq)]
pub struct RouteSettings {
    /// Only requests to this host; `None`: to any.
    pub host: Option<String>,
    /// The prefix of paths that belong to the route, see [`tidegate_plan::route`].
    pub path: String,
    /// Put before what lies below `path` to make the object's key.
    pub key_prefix: String,
    /// Sent as `Cache-Control` instead of the object's own.
    pub cache_control: Option<HeaderValue>,
    /// The object that answers for `…/`, such as `index.html`.
    pub index: Option<String>,
    /// Sent with every object, instead of the object's own of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Who may read from scripts of other sites; `None`: nobody.
    pub cors: Option<Cors>,
    /// Whether a client's `Cache-Control: no-cache` makes the origin be asked.
    pub client_no_cache: bool,
    /// Whether text is compressed for clients that accept it.
    pub compress: bool,
    /// The codings in which objects may lie in the bucket beside their originals, the one preferred among
    /// equals first.
    pub precompressed: Vec<Coding>,
    /// The types that are guessed for objects that are stored without one.
    pub guess_types: GuessTypes,
    /// What PUT and DELETE must show; `None`: the route is read only.
    pub write_token: Option<Token>,
}

impl RouteSettings {
    /// The key of what lies `below` the route, still percent-encoded; for a folder that of its index,
    /// where the route has one.
    ///
    /// # Errors
    /// It is none that an object could have.
    pub fn key(&self, below: &str) -> Result<ObjectKey, KeyError> {
        match &self.index {
            Some(index) if below.is_empty() || below.ends_with('/') => {
                ObjectKey::from_path(&self.key_prefix, &format!("{below}{index}"))
            }
            _ if below.is_empty() => Err(KeyError::Empty),
            _ => ObjectKey::from_path(&self.key_prefix, below),
        }
    }
}

impl Default for RouteSettings {
    fn default() -> Self {
        Self {
            host: None,
            path: "/".into(),
            key_prefix: String::new(),
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

/// Which sites' scripts may read a route (Fetch standard, "CORS protocol").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Origins such as `https://example.org`; `*` alone: all.
    pub origins: Vec<String>,
    /// How long a browser may remember a preflight's answer.
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
