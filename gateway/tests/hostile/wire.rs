//! Bytes on a bare socket.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::target::{LONG, Target};

/// The beginning of an HTTP/2 connection: the preface and empty SETTINGS (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Returns an HTTP/2 frame (RFC 9113, 4.1).
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Returns a field that HPACK takes literally and does not remember (RFC 7541, 6.2.2).
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127, "one byte of length");
        block.push(u8::try_from(text.len()).expect("short"));
        block.extend(text.as_bytes());
    }
    block
}

/// Returns the head of a request for `path`.
pub(crate) fn get(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "target"),
        (":path", path),
    ];
    fields.map(|(name, value)| field(name, value)).concat()
}

/// Connects to the public listener.
pub(crate) async fn connect(target: &Target) -> TcpStream {
    let stream = timeout(LONG, TcpStream::connect(target.http)).await;
    stream.expect("in time").expect("it listens")
}

/// Sends `bytes`; returns an error if the program has closed the connection, which it may.
pub(crate) async fn send(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    timeout(LONG, stream.write_all(bytes))
        .await
        .expect("in time")
}

/// Reads everything that the program sends until it closes.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset counts as an end as well.
    let ended = timeout(LONG, stream.read_to_end(&mut bytes)).await;
    let _ = ended.expect("it closes");
    bytes
}
