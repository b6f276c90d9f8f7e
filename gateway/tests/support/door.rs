//! A door in front of a server: connections go through while it is open, and are refused while it
//! is shut. To its clients the server is then down, at an address that stays the same. A stuck door
//! lets clients in and passes nothing on: to them the server hangs.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Open,
    Shut,
    Stuck,
}

/// A door, open at first.
#[derive(Debug)]
pub(crate) struct Door {
    address: SocketAddr,
    open: watch::Sender<State>,
    task: JoinHandle<()>,
}

impl Door {
    /// Opens a door to `server`.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (open, seen) = watch::channel(State::Open);
        let task = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.expect("accepts");
                tokio::spawn(pass(client, server, seen.clone()));
            }
        });
        Self {
            address,
            open,
            task,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends its connections, and refuses new ones.
    pub(crate) fn shut(&self) {
        self.open.send_replace(State::Shut);
    }

    /// Holds its connections and new ones, and passes nothing on; they end when it is opened or
    /// shut.
    pub(crate) fn stick(&self) {
        self.open.send_replace(State::Stuck);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(State::Open);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, mut open: watch::Receiver<State>) {
    let state = *open.borrow();
    if state == State::Open {
        // To its clients the door of a server that is down is one that closes behind them.
        let Ok(mut server) = TcpStream::connect(server).await else {
            return;
        };
        // Either side may leave; a door that is no longer open ends the connection.
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = open.wait_for(|&state| state != State::Open) => {}
        }
    }
    let _ = open.wait_for(|&state| state != State::Stuck).await;
}
