//! Listen addresses in human notation: `127.0.0.1:8080`, `[::]:8080`, `unix:/run/tidegate.sock`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use core::net::SocketAddr;

/// One address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Listen {
    /// An IP address and port; port 0 takes any that is free.
    Tcp(SocketAddr),
    /// A unix socket, written `unix:/path`.
    Unix(PathBuf),
}

/// The longest path of a unix socket, in bytes: `sun_path` of unix(7), without the zero at its end.
const MAX_UNIX_PATH: usize = 107;

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err(format!(
                    "`{text}` needs a full path, such as unix:/run/tidegate.sock"
                ));
            }
            if path.len() > MAX_UNIX_PATH {
                return Err(format!(
                    "`{text}` is too long: the path of a unix socket has at most {MAX_UNIX_PATH} bytes"
                ));
            }
            return Ok(Self::Unix(path.into()));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!("`{text}` is no IP address and port, such as 127.0.0.1:8080, and no unix:/path")
        })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listen {
    /// Returns whether bytes that are sent here may cross a network: it is neither loopback nor a Unix socket.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        match self {
            Self::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => false,
        }
    }

    /// Returns whether the process cannot listen on both at once. Port 0 is never the same twice.
    #[must_use]
    pub fn collides(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(a), Self::Tcp(b)) => {
                let all = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
                a.port() != 0 && a.port() == b.port() && a.is_ipv4() == b.is_ipv4() && all
            }
            _ => self == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_sockets() {
        for text in ["127.0.0.1:8080", "[::]:80", "unix:/run/tidegate.sock"] {
            let listen: Listen = text.parse().expect(text);
            assert_eq!(listen.to_string(), text);
        }
        let socket = |bytes: usize| format!("unix:/{}", "x".repeat(bytes - 1));
        assert!(socket(MAX_UNIX_PATH).parse::<Listen>().is_ok());
        assert!(socket(MAX_UNIX_PATH + 1).parse::<Listen>().is_err());
        for bad in ["", "8080", "localhost:80", "unix:", "unix:here", "/run/x"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad}");
        }
    }

    #[test]
    fn knows_what_crosses_a_network() {
        for (text, exposed) in [
            ("127.0.0.2:80", false),
            ("[::1]:80", false),
            ("[::ffff:127.0.0.1]:80", false),
            ("unix:/run/x", false),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("192.0.2.1:80", true),
        ] {
            let listen: Listen = text.parse().expect(text);
            assert_eq!(listen.is_exposed(), exposed, "{text}");
        }
    }

    #[test]
    fn knows_what_collides() {
        let collides = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|text| text.parse::<Listen>().expect(text));
            assert_eq!(a.collides(&b), b.collides(&a));
            a.collides(&b)
        };
        assert!(collides("127.0.0.1:80", "127.0.0.1:80"));
        assert!(collides("127.0.0.1:80", "0.0.0.0:80"));
        assert!(collides("unix:/a", "unix:/a"));
        assert!(!collides("127.0.0.1:0", "127.0.0.1:0"));
        assert!(!collides("127.0.0.1:80", "127.0.0.2:80"));
        assert!(!collides("127.0.0.1:80", "[::]:80"));
        assert!(!collides("unix:/a", "unix:/b"));
    }
}
