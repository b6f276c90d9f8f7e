//! Ports for servers that are given an address and listen on it a moment later.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port, outside of those that the system assigns on request (ip(7),
/// `ip_local_port_range`).
const FIRST: u16 = 10_000;
const COUNT: u32 = 20_000;

/// The distance between the first ports of two test processes.
const APART: u32 = 64;

/// Returns a loopback address without a listener, which no other caller here gets.
pub(crate) fn free_addr() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(APART).wrapping_add(next) % COUNT;
        let port = FIRST + u16::try_from(place).expect("small");
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(addr).is_ok() {
            return addr;
        }
    }
    panic!("no port is free");
}
