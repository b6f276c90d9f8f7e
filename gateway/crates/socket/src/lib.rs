//! The sockets that connections come from: TCP, or a Unix socket for a proxy on the same machine.
//!
//! Both listeners of the gateway accept connections here, and handle them by themselves. A socket is bound here,
//! or a supervisor has bound it ([`InheritedSockets`]). A listener with TLS shakes hands after it has accepted: the caller does so
//! beside its accept loop.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, UnixListener, UnixStream};

use tidegate_plan::{Listen, Timestamp};
use tidegate_tls::{Acceptor, ClientNames, HandshakeError};

mod inherited;
mod stream;

pub use inherited::InheritedSockets;
pub use stream::{Connection, Stream};

/// The most bytes of a TCP connection that the kernel keeps and has not sent. Without a limit it keeps up to 4 MiB for a
/// client that takes nothing (`net.ipv4.tcp_wmem`), and says that there is room once the client has taken a third of
/// that. A smaller limit costs: with 256 KiB a picture of 468 KB takes two turns.
const MAX_UNSENT: u32 = 384 << 10;

/// A socket that accepts connections. The file of a Unix socket bound here is removed when the listener and its duplicates
/// are dropped.
#[derive(Debug)]
pub struct Listener {
    kind: ListenerKind,
    /// `None`: connections are not encrypted.
    tls: Option<Acceptor>,
}

#[derive(Debug)]
enum ListenerKind {
    Tcp(TcpListener),
    Unix(UnixListener, Arc<SocketFile>),
    /// A Unix socket whose file belongs to the supervisor.
    Inherited(UnixListener, Listen),
}

#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file is gone already, or may not be removed any more: nothing is left to do.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Binds `address`. The file of a socket that no process listens on any more is replaced.
    ///
    /// # Errors
    /// Those of the system; `AddrInUse` if another process listens there.
    pub async fn bind(address: &Listen, mode: u32) -> io::Result<Self> {
        let kind = match address {
            Listen::Tcp(address) => tcp(TcpListener::bind(address).await?),
            Listen::Unix(path) => {
                clear_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                let file = Arc::new(SocketFile(path.clone()));
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
                ListenerKind::Unix(listener, file)
            }
        };
        Ok(Self::plain(kind))
    }

    fn plain(kind: ListenerKind) -> Self {
        Self { kind, tls: None }
    }

    /// Encrypts the connections that it accepts from now on.
    pub fn set_tls(&mut self, tls: Acceptor) {
        self.tls = Some(tls);
    }

    /// Returns whether the connections that it accepts are encrypted.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns another listener on the same socket, without TLS. Both accept connections from the same queue.
    ///
    /// # Errors
    /// Those of the system.
    pub fn duplicate(&self) -> io::Result<Self> {
        let unix = |listener: &UnixListener| {
            let descriptor = listener.as_fd().try_clone_to_owned()?;
            UnixListener::from_std(descriptor.into())
        };
        Ok(Self::plain(match &self.kind {
            ListenerKind::Tcp(listener) => {
                let descriptor = listener.as_fd().try_clone_to_owned()?;
                ListenerKind::Tcp(TcpListener::from_std(descriptor.into())?)
            }
            ListenerKind::Unix(listener, file) => ListenerKind::Unix(unix(listener)?, file.clone()),
            ListenerKind::Inherited(listener, address) => {
                ListenerKind::Inherited(unix(listener)?, address.clone())
            }
        }))
    }

    /// Takes a TCP socket that listens already, as a supervisor hands it over; it must not block.
    ///
    /// # Errors
    /// Those of the system.
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        Ok(Self::plain(tcp(TcpListener::from_std(listener)?)))
    }

    /// Returns the address that it listens on, with the chosen port if port 0 was requested.
    ///
    /// # Errors
    /// Those of the system.
    pub fn address(&self) -> io::Result<Listen> {
        Ok(match &self.kind {
            ListenerKind::Tcp(listener) => Listen::Tcp(listener.local_addr()?),
            ListenerKind::Unix(_, file) => Listen::Unix(file.0.clone()),
            ListenerKind::Inherited(_, address) => address.clone(),
        })
    }

    /// Accepts the next connection. It waits for nothing that the client must send.
    ///
    /// # Errors
    /// Those of the system; the next call may succeed.
    pub async fn accept(&self) -> io::Result<AcceptedConnection> {
        let (stream, address) = match &self.kind {
            ListenerKind::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Without it, the last piece of an answer waits for an acknowledgement.
                stream.set_nodelay(true)?;
                (stream.into(), Some(peer.ip().to_canonical()))
            }
            ListenerKind::Unix(listener, _) | ListenerKind::Inherited(listener, _) => {
                let (stream, _) = listener.accept().await?;
                (stream.into(), None)
            }
        };
        Ok(AcceptedConnection {
            stream,
            address,
            tls: self.tls.clone(),
        })
    }
}

/// A connection that was accepted; with TLS, the handshake is yet to come.
#[derive(Debug)]
pub struct AcceptedConnection {
    stream: Stream,
    address: Option<IpAddr>,
    tls: Option<Acceptor>,
}

impl AcceptedConnection {
    /// Returns the IP address of the peer; `None` on a Unix socket.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// Shakes hands, in at most `limit`, if the listener has TLS; returns the connection, and its peer.
    ///
    /// # Errors
    /// If the client is slow or does not agree; the connection is closed then.
    pub async fn open(self, limit: Duration) -> Result<(Stream, Peer), HandshakeError> {
        let is_encrypted = self.tls.is_some();
        let peer = |certificate| Peer {
            address: self.address,
            is_encrypted,
            certificate,
        };
        let Some(acceptor) = self.tls else {
            return Ok((self.stream, peer(None)));
        };
        // Boxed, so that a connection without TLS has no room for a handshake.
        let (stream, names) = Box::pin(acceptor.accept(self.stream, limit)).await?;
        Ok((stream.into(), peer(names)))
    }
}

/// The other end of a connection.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    /// Its IP address; `None` on a Unix socket.
    pub address: Option<IpAddr>,
    /// Whether the connection has TLS.
    pub is_encrypted: bool,
    /// The certificate that it has shown, if any.
    certificate: Option<ClientNames>,
}

impl Peer {
    /// Returns a peer that has shown no certificate.
    #[must_use]
    pub fn unnamed(address: Option<IpAddr>, is_encrypted: bool) -> Self {
        Self {
            address,
            is_encrypted,
            certificate: None,
        }
    }

    /// Returns the names in the verified certificate that it has shown; empty if it has shown none, or if its time is over.
    #[must_use]
    pub fn names(&self, now: Timestamp) -> &[String] {
        let certificate = self.certificate.as_ref();
        let seconds = i64::try_from(now.0 / 1000).unwrap_or(i64::MAX);
        certificate.map_or(&[], |certificate| certificate.at(seconds))
    }
}

/// Bounds what the kernel keeps of each connection that the listener accepts: they inherit the option.
fn tcp(listener: TcpListener) -> ListenerKind {
    // A kernel that does not know the option keeps more, and serves as well.
    let _ = SockRef::from(&listener).set_tcp_notsent_lowat(MAX_UNSENT);
    ListenerKind::Tcp(listener)
}

async fn clear_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(file) if !file.file_type().is_socket() => {
            let message = format!("{} exists and is no socket", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_keeps_little_of_each_connection() {
        let address = Listen::Tcp(([127, 0, 0, 1], 0).into());
        let bound = Listener::bind(&address, 0o600).await.expect("free");
        let handed = std::net::TcpListener::bind("127.0.0.1:0").expect("free");
        handed.set_nonblocking(true).expect("possible");
        let handed = Listener::from_std(handed).expect("it listens");
        for listener in [bound, handed] {
            let ListenerKind::Tcp(socket) = &listener.kind else {
                unreachable!()
            };
            let address = socket.local_addr().expect("bound");
            let _client = tokio::net::TcpStream::connect(address)
                .await
                .expect("listening");
            let (accepted, _) = socket.accept().await.expect("a connection");
            let kept = SockRef::from(&accepted).tcp_notsent_lowat();
            assert_eq!(kept.expect("known"), MAX_UNSENT);
        }
    }

    #[tokio::test]
    async fn replaces_a_stale_socket_only() {
        let dir = tempfile::tempdir().expect("a folder");
        let address = Listen::Unix(dir.path().join("t.sock"));
        let Listen::Unix(path) = &address else {
            unreachable!()
        };

        let first = Listener::bind(&address, 0o600).await.expect("free");
        let mode = std::fs::metadata(path).expect("bound").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let taken = Listener::bind(&address, 0o600).await.expect_err("in use");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        let duplicate = first.duplicate().expect("a descriptor");
        drop(first);
        assert!(path.exists());
        UnixStream::connect(path).await.expect("it listens still");
        drop(duplicate);
        assert!(!path.exists(), "the file goes with the last listener");

        // A killed process leaves such a file, on which no process listens.
        drop(std::os::unix::net::UnixListener::bind(path).expect("free"));
        assert!(path.exists());
        drop(Listener::bind(&address, 0o660).await.expect("stale"));

        std::fs::write(path, "precious").expect("writable");
        assert!(Listener::bind(&address, 0o660).await.is_err());
        assert_eq!(std::fs::read(path).expect("untouched"), b"precious");
    }
}
