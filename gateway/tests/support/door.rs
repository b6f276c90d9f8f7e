//! A door in front of a server: connections go through while it is open, and are turned away while
//! it is shut. To its clients the server is then down, at an address that stays the same.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A door, open at first.
#[derive(Debug)]
pub(crate) struct Door {
    address: SocketAddr,
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Door {
    /// A door to `server`.
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (open, seen) = watch::channel(true);
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
        self.open.send_replace(false);
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn pass(mut client: TcpStream, server: SocketAddr, mut open: watch::Receiver<bool>) {
    if !*open.borrow() {
        return;
    }
    let mut server = TcpStream::connect(server).await.expect("the server is up");
    // Either side may leave as it likes, and a shut door ends it.
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = open.wait_for(|open| !open) => {}
    }
}
