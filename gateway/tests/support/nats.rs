//! A real NATS server, started for one test and stopped with it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::net::TcpStream;

/// A running server with JetStream.
#[derive(Debug)]
pub(crate) struct Nats {
    child: Child,
}

impl Nats {
    /// Starts the binary that `$TIDEGATE_NATS` names, or `nats-server` from the path, and waits until it listens. Its
    /// streams lie in `folder`. Panics without one: the feature `real-parts` requires it.
    pub(crate) async fn start(address: SocketAddr, folder: &Path, options: &[&str]) -> Self {
        let binary = std::env::var("TIDEGATE_NATS").unwrap_or_else(|_| "nats-server".to_owned());
        let child = Command::new(&binary)
            .args([
                "-a",
                &address.ip().to_string(),
                "-p",
                &address.port().to_string(),
            ])
            .arg("-js")
            .arg("-sd")
            .arg(folder)
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("`{binary}` does not start ({error}): install it or set TIDEGATE_NATS")
            });
        let mut nats = Self { child };
        for _ in 0..6000 {
            if let Some(status) = nats.child.try_wait().expect("a child of ours") {
                panic!("nats-server ended at its start: {status}");
            }
            if TcpStream::connect(address).await.is_ok() {
                return nats;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("nats-server does not listen");
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
