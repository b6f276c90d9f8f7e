//! Listening sockets that a supervisor hands over (`sd_listen_fds(3)`). The supervisor keeps them open, so
//! that connections that come while the gateway restarts wait in the kernel's queue, and none is refused.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use listenfd::ListenFd;

use super::{Listener, ListenerKind};
use tidegate_plan::Listen;

/// The first descriptor that is handed over.
const FIRST_DESCRIPTOR: usize = 3;

/// Sockets that were handed over and not taken yet, each with its address.
#[derive(Debug, Default)]
pub struct InheritedSockets(Vec<(Listen, SupervisorSocket)>);

#[derive(Debug)]
enum SupervisorSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl InheritedSockets {
    /// Takes the sockets that the environment names (`LISTEN_FDS`, `LISTEN_PID`) out of it. Programs that this
    /// process starts get none of them. To be called once, before there are other threads.
    ///
    /// # Errors
    /// A descriptor is no listening socket with an address.
    pub fn from_env() -> io::Result<Self> {
        let mut passed = ListenFd::from_env();
        let sockets = (0..passed.len()).map(|at| {
            let socket = match passed.take_unix_listener(at) {
                Ok(Some(listener)) => SupervisorSocket::Unix(listener),
                _ => match passed.take_tcp_listener(at)? {
                    Some(listener) => SupervisorSocket::Tcp(listener),
                    None => return Err(io::ErrorKind::NotFound.into()),
                },
            };
            let address = socket.address();
            let named = address.map_err(|error| {
                let message = format!("descriptor {}: {error}", FIRST_DESCRIPTOR + at);
                io::Error::new(error.kind(), message)
            });
            Ok((named?, socket))
        });
        sockets.collect::<io::Result<_>>().map(Self)
    }

    /// Takes the socket that listens on `address`, if it was handed over.
    ///
    /// # Errors
    /// Those of the system.
    pub fn take(&mut self, address: &Listen) -> io::Result<Option<Listener>> {
        let Some(at) = self.0.iter().position(|(own, _)| own == address) else {
            return Ok(None);
        };
        let kind = match self.0.swap_remove(at) {
            (_, SupervisorSocket::Tcp(listener)) => {
                listener.set_nonblocking(true)?;
                super::tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            (address, SupervisorSocket::Unix(listener)) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener)?;
                ListenerKind::Inherited(listener, address)
            }
        };
        Ok(Some(Listener::plain(kind)))
    }

    /// Returns the address of a socket that was not taken.
    #[must_use]
    pub fn first_unused(&self) -> Option<&Listen> {
        self.0.first().map(|(address, _)| address)
    }
}

impl SupervisorSocket {
    /// Returns the address that it listens on.
    fn address(&self) -> io::Result<Listen> {
        let (address, is_connected) = match self {
            Self::Tcp(listener) => {
                let stream = TcpStream::from(OwnedFd::from(listener.try_clone()?));
                let address = Listen::Tcp(listener.local_addr()?);
                (Some(address), stream.peer_addr().is_ok())
            }
            Self::Unix(listener) => {
                let stream = UnixStream::from(OwnedFd::from(listener.try_clone()?));
                let address = listener.local_addr()?;
                let path = address.as_pathname().map(|path| Listen::Unix(path.into()));
                (path, stream.peer_addr().is_ok())
            }
        };
        let refused = match (address, is_connected) {
            (Some(address), false) => return Ok(address),
            (_, true) => "a connection, not a socket that listens (systemd: Accept=no)",
            (None, false) => "a Unix socket without a path",
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, refused))
    }
}
