//! `[[route]]`: the map from URLs to objects, and the settings of answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::LimitNames;
use crate::Secret;
use tidegate_plan::Period;
use tidegate_plan::media_type::GuessTypes;

/// The map from URLs to objects, and the settings of answers. The longest matching path wins; a route with a host goes
/// before one without. Without any, a single origin is served below `/`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["origin"]))]
pub struct Route {
    /// The prefix of the URL's path.
    pub path: String,
    /// The only host whose requests it answers.
    #[schemars(extend("examples" = ["media.example.org"]))]
    pub host: Option<String>,
    /// The origin's name.
    #[schemars(extend("examples" = ["media"]))]
    pub origin: String,
    /// The prefix of the key; the rest of the URL's path follows.
    pub key_prefix: String,
    /// The treatment of its objects: web, stream, documents, backup, or one of your own.
    pub profile: String,
    /// The access that GET and HEAD must have, an `[access.NAME]`; left out: open to all.
    #[schemars(extend("examples" = ["members"]))]
    pub access: Option<String>,
    /// The limits of GET and HEAD, a `[limits.NAME]` or several, all of which hold; left out: none.
    #[schemars(extend("examples" = ["public", ["each-address", "all-together"]]))]
    pub limits: LimitNames,
    /// The events that report changes of its objects, an `[[events]]` with a heartbeat; left out: `ttl` stands.
    ///
    /// While none was missed, what the bucket has confirmed stays fresh until an event reports a change.
    #[schemars(extend("examples" = ["bucket"]))]
    pub events: Option<String>,
    /// The time after which the bucket is asked although no event has come, for a store may lose one.
    pub events_max_age: Period,
    /// The object that stands for a path that ends in `/`.
    #[schemars(extend("examples" = ["index.html"]))]
    pub index: Option<String>,
    /// `Cache-Control` of the answers, in place of the object's own, which `access` makes `private`.
    ///
    /// `access` makes this one `private` as well, unless it says `public` or `s-maxage`. Its lifetime begins at each answer:
    /// with it, answers have no `Age`.
    #[schemars(extend("examples" = ["public, max-age=3600"]))]
    pub cache_control: Option<String>,
    /// Headers to add to the answers that have the object (200, 206, 304). Errors and refusals have none of them.
    #[schemars(extend("examples" = [{ "X-Robots-Tag": "noindex" }]))]
    pub headers: BTreeMap<String, String>,
    /// The other sites whose scripts may read the answers; left out: none.
    #[schemars(extend("examples" = [{ "origins": ["https://example.org"], "max_age": "10m" }]))]
    pub cors: Option<Cors>,
    /// A client's `Cache-Control: no-cache` makes the gateway ask the origin.
    pub client_no_cache: bool,
    /// Compress text of up to 4 MiB for clients that accept it.
    pub compress: bool,
    /// Codings in which text lies in the bucket beside its originals: `app.js.br` for `app.js`, `.gz`, `.zst`.
    ///
    /// One that a client accepts is sent in the original's place, if it is not older. Of those that the client likes
    /// equally, the first one wins. Upload the original first.
    #[schemars(extend("examples" = [["br", "gzip", "zstd"]]))]
    pub precompressed: Vec<StoredCoding>,
    /// Types that are guessed from a key's ending, for objects stored without one.
    ///
    /// An octet-stream counts as none. `passive`: images but SVG, audio, video, playlists, subtitles, fonts, PDF,
    /// e-books, plain text. `all` adds HTML, SVG, scripts and the rest, which browsers run: only if no other person
    /// can write to the bucket.
    pub guess_types: GuessTypes,
    /// PUT and DELETE are answered, for clients that show `write_token`.
    pub writable: bool,
    /// The token that PUT and DELETE must show, as `Authorization: Bearer`.
    #[serde(skip_serializing)]
    #[schemars(extend("examples" = [{ "file": "/etc/tidegate/write-token" }]))]
    pub write_token: Option<Secret>,
}

impl Default for Route {
    /// The origin has to be given: empty stands for missing.
    fn default() -> Self {
        Self {
            path: "/".into(),
            host: None,
            origin: String::new(),
            key_prefix: String::new(),
            profile: "web".into(),
            access: None,
            limits: LimitNames::default(),
            events: None,
            events_max_age: Period::secs(86_400),
            index: None,
            cache_control: None,
            headers: BTreeMap::new(),
            cors: None,
            client_no_cache: false,
            compress: true,
            precompressed: Vec::new(),
            guess_types: GuessTypes::default(),
            writable: false,
            write_token: None,
        }
    }
}

/// A coding in which objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoredCoding {
    /// `.br`
    Br,
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
}

/// Cross-origin reads (the Fetch standard's CORS protocol).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("required" = ["origins"]))]
pub struct Cors {
    /// Sites, such as `https://example.org`, or `*` for all.
    #[schemars(extend("examples" = [["https://example.org"]]))]
    pub origins: Vec<String>,
    /// The time that a browser may remember the answer to a preflight.
    pub max_age: Period,
}

impl Default for Cors {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            max_age: Period::secs(600),
        }
    }
}
