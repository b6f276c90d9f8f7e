//! A door in front of a server: connections go through while it is open, and are turned away while
//! it is shut. To its clients the server is then down, at an address that stays the same. When it is
//! stuck, clients come in and wait: to them the server hangs.

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
    /// A door to `server`.
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

    /// Ends what goes through it, and lets nobody in.
    pub(crate) fn shut(&self) {
        self.open.send_replace(State::Shut);
    }

    /// Holds what is in it and who comes, and passes nothing on; they go when it is opened or shut.
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
        let mut server = TcpStream::connect(server).await.expect("the server is up");
        // Either side may leave as it likes, and a door that is not open ends it.
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => return,
            _ = open.wait_for(|&state| state != State::Open) => {}
        }
    }
    let _ = open.wait_for(|&state| state != State::Stuck).await;
}
