//! The client that asks the servers of an access.

use http::Uri;

use tidegate_outbound::{Client, ClientSettings, Roots};

/// The most idle connections that are kept open for the next request.
const MAX_IDLE: usize = 16;

/// The error of a client that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is no absolute `http://` or `https://` URL.
    #[error("is no http:// or https:// URL")]
    Url,
    /// The servers cannot be verified.
    #[error("its servers cannot be verified")]
    Client(#[from] tidegate_outbound::ClientError),
}

/// Returns a client for this URL. One that is not encrypted needs no certificates of the machine.
pub(crate) fn client_for(uri: &Uri) -> Result<Client, ClientError> {
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
        return Err(ClientError::Url);
    }
    let settings = ClientSettings {
        roots: Roots::for_schemes(uri.scheme_str()),
        max_idle: MAX_IDLE,
        ..ClientSettings::default()
    };
    Ok(Client::new(&settings)?)
}
