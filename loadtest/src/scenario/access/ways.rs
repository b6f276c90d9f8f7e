//! The ways into a route, and the configuration that has them.

use std::time::{Duration, SystemTime};

use anyhow::Result;

use super::KEY;
use super::signer::{Algorithm, Signer};
use crate::peers::Peer;

/// The file of the keys that verify JWTs, in the gateway's directory.
pub(super) const KEY_SET: &str = "jwks.json";

/// The way that all others are divided by.
pub(super) const OPEN: &str = "open";

/// The id and the secret of the key that signs links.
pub(super) const SIGNING_KEY: (&str, &str) = ("k1", "the secret of the load test's links");

const TOKEN: &str = "the token of the load test's player";

/// The routes beside the open one: each with another access or other limits. No request reaches a limit.
pub(super) const SECTIONS: &str = r#"
[[route]]
path = "/token/"
origin = "media"
profile = "loadtest"
access = "token"

[[route]]
path = "/signed/"
origin = "media"
profile = "loadtest"
access = "signed"

[[route]]
path = "/jwt/"
origin = "media"
profile = "loadtest"
access = "jwt"

[[route]]
path = "/limit-requests/"
origin = "media"
profile = "loadtest"
limits = "requests"

[[route]]
path = "/limit-bytes/"
origin = "media"
profile = "loadtest"
limits = "bytes"

[[route]]
path = "/limit-connections/"
origin = "media"
profile = "loadtest"
limits = "connections"

[access.token]
tokens = { player = "the token of the load test's player" }

[access.signed]
signed = { keys = { k1 = "the secret of the load test's links" } }

[access.jwt]
jwt = { jwks = "jwks.json", issuer = "https://id.example", audience = "media", cookie = "session" }

[limits.requests]
requests = "1000000/s"
burst = 1000000

[limits.bytes]
bytes = "1TB/s"

[limits.connections]
connections = 100000
"#;

/// A request that is admitted.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) target: String,
    header: Option<(&'static str, String)>,
}

impl Way {
    /// Returns the header that shows its credential.
    pub(super) fn header(&self) -> Option<(&str, &str)> {
        self.header.as_ref().map(|(name, value)| (*name, &**value))
    }

    /// Tells whether the route has an access.
    pub(super) fn is_private(&self) -> bool {
        self.name != OPEN && !is_limited(self.name)
    }

    /// Returns its target without a credential in it.
    pub(super) fn without_credential(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        let is_kept = |segment: &&str| !segment.starts_with("expires=");
        let segments: Vec<_> = path.split('/').filter(is_kept).collect();
        segments.join("/")
    }
}

/// Tells whether the route of a way has limits.
fn is_limited(name: &str) -> bool {
    name.starts_with("limit")
}

/// Returns the most that a hit by this way may cost over one on the open route; `None`: it is that one.
pub(super) fn target(name: &str) -> Option<f64> {
    match name {
        OPEN => None,
        name if is_limited(name) => Some(1.03),
        _ => Some(1.05),
    }
}

/// Returns the time from now until the credentials of the ways end, in seconds since 1970.
pub(super) fn expiry() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default().as_secs() + 3600
}

/// Returns all ways into a gateway.
pub(super) async fn all(signer: &Signer, peer: &Peer) -> Result<Vec<Way>> {
    let way = |name, target: String, header| Way {
        name,
        target,
        header,
    };
    let at = |route: &str| format!("/{route}/{KEY}");
    let signed = signer.prefix("/signed/", expiry());
    let url = signer.url(peer.addr(), Duration::from_secs(3600)).await?;
    let jwt = signer.jwt(Algorithm::EdDsa, "alice", expiry())?;
    let bearer = |text: &str| Some(("Authorization", format!("Bearer {text}")));
    let cookie = |name: &str, text: &str| Some(("Cookie", format!("{name}={text}")));
    Ok(vec![
        way(OPEN, format!("/{KEY}"), None),
        way("token", at("token"), bearer(TOKEN)),
        way("presigned URL", url, None),
        way(
            "signed prefix, path",
            format!("/signed/{signed}/{KEY}"),
            None,
        ),
        way(
            "signed prefix, query",
            format!("{}?{signed}", at("signed")),
            None,
        ),
        way(
            "signed prefix, cookie",
            at("signed"),
            cookie("tidegate", &signed),
        ),
        way("JWT, header", at("jwt"), bearer(&jwt)),
        way("JWT, cookie", at("jwt"), cookie("session", &jwt)),
        way("JWT, query", format!("{}?token={jwt}", at("jwt")), None),
        way("limit of requests", at("limit-requests"), None),
        way("limit of bytes", at("limit-bytes"), None),
        way("limit of connections", at("limit-connections"), None),
    ])
}
