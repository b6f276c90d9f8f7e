//! Ports for servers that are given an address and listen on it a moment later.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port, outside of those that the system assigns on request (ip(7),
/// `ip_local_port_range`).
const FIRST_PORT: u16 = 10_000;
const COUNT: u32 = 20_000;

/// The distance between the first ports of two test processes.
const APART: u32 = 64;

/// The locked files of the ports that this process has given out: the system unlocks them at its end.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Returns a loopback address without a listener, which no other caller gets, in this process or in another one.
pub(crate) fn free_addr() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(APART).wrapping_add(next) % COUNT;
        let port = FIRST_PORT + u16::try_from(place).expect("small");
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let file = std::env::temp_dir().join(format!("tidegate-test-port-{port}"));
        let Ok(file) = File::options().create(true).append(true).open(file) else {
            continue;
        };
        if file.try_lock().is_ok() && TcpListener::bind(addr).is_ok() {
            TAKEN.lock().expect("not poisoned").push(file);
            return addr;
        }
    }
    panic!("no port is free");
}
