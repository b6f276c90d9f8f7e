//! The identity of a bucket, and of its objects as an access sees them.
//!
//! The visibility of an access is part of the cached state. Two accesses to one bucket share cached objects only if the
//! configuration gives them one name and spells the endpoint alike. The name is hashed and not the key, because keys
//! change.

use core::net::IpAddr;

use http::Uri;
use xxhash_rust::xxh3::xxh3_64;

use crate::OriginId;

/// A bucket of a store. Two are equal if they may be the same place: scheme, case, a default port, a slash at the end
/// and the region at AWS make no difference. `http://a` and `https://a` are equal and may still be two stores. So equal
/// buckets hear of each other's changes, but share nothing because of that.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    hash: u64,
    default_identity: OriginId,
}

impl PartialEq for Bucket {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Bucket {}

impl Bucket {
    /// Creates the bucket of this name at the configured endpoint; `None` means AWS.
    #[must_use]
    pub fn new(endpoint: Option<&str>, name: &str) -> Self {
        let at = endpoint.map_or_else(|| AWS.to_owned(), endpoint_identity);
        let place = format!("{at}\0{}", name.to_ascii_lowercase());
        Self {
            hash: xxh3_64(place.as_bytes()),
            default_identity: OriginId::new(endpoint.unwrap_or(AWS), name),
        }
    }

    /// Returns the identity of its objects as an access of this name sees them. Two buckets have one identity only if
    /// their endpoints are spelled alike, up to case and a slash at the end.
    #[must_use]
    pub fn identity_for(&self, identity: Option<&str>) -> OriginId {
        let Some(identity) = identity else {
            return self.default_identity;
        };
        let mut text = self.default_identity.0.to_le_bytes().to_vec();
        text.extend_from_slice(identity.as_bytes());
        OriginId(xxh3_64(&text))
    }
}

/// The name that stands for every endpoint of AWS.
const AWS: &str = "aws";

/// Returns host and port of an endpoint in one spelling.
fn endpoint_identity(endpoint: &str) -> String {
    let text = endpoint.trim_end_matches('/').to_ascii_lowercase();
    let Ok(uri) = text.parse::<Uri>() else {
        return text;
    };
    let host = uri.host().unwrap_or_default().trim_end_matches('.');
    if [".amazonaws.com", ".amazonaws.com.cn"]
        .iter()
        .any(|own| host.ends_with(own))
    {
        return AWS.to_owned();
    }
    let host = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(address) if address.to_canonical().is_loopback() => "localhost".to_owned(),
        Ok(address) => address.to_canonical().to_string(),
        Err(_) if host.ends_with(".localhost") => "localhost".to_owned(),
        Err(_) => host.to_owned(),
    };
    match uri.port_u16() {
        None | Some(80 | 443) => host,
        Some(port) => format!("{host} {port}"),
    }
}

#[cfg(test)]
mod tests;
