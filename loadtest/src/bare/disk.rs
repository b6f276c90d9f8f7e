//! A bare server of files on a disk: a thread for each connection, and for each chunk a read, a checksum, and a system call
//! that sends it. It is the floor of what a disk hit costs, by each way to send one.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use rustix::fs::sendfile;
use xxhash_rust::xxh3::xxh3_64;

/// The bytes of a chunk, as Tidegate's disks have them.
const CHUNK: usize = 256 << 10;

/// The way in which chunks leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sending {
    /// Each is read, and written to the connection.
    Unverified,
    /// Its checksum is computed in between.
    Verified,
    /// It is read, its checksum is computed, and the kernel sends it from the file.
    VerifiedSendfile,
}

/// Serves the files below the folder `root` until the process ends. A request is a `GET` of a file that exists.
///
/// # Errors
/// If `addr` is taken.
pub fn serve(addr: SocketAddr, root: &Path, sending: Sending) -> Result<()> {
    let root: Arc<Path> = root.into();
    for stream in TcpListener::bind(addr)?.incoming() {
        let (stream, root) = (stream?, root.clone());
        thread::Builder::new().spawn(move || {
            // A client that leaves ends its connection with an error.
            let _ = answer_all(stream, &root, sending);
        })?;
    }
    Ok(())
}

fn answer_all(mut stream: TcpStream, root: &Path, sending: Sending) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    let mut chunk = vec![0; CHUNK];
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            ensure!(requests.read_line(&mut head)? > 0, "the client has left");
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let file = File::open(root.join(path.trim_start_matches('/')))?;
        send(&file, &mut stream, &mut chunk, sending)?;
    }
}

/// Sends a head and the whole file.
fn send(file: &File, stream: &mut TcpStream, chunk: &mut [u8], sending: Sending) -> Result<()> {
    let len = file.metadata()?.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {len}\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut offset = 0;
    while offset < len {
        let bytes = usize::try_from(len - offset).map_or(CHUNK, |rest| rest.min(CHUNK));
        let chunk = &mut chunk[..bytes];
        file.read_exact_at(chunk, offset)?;
        if sending != Sending::Unverified {
            std::hint::black_box(xxh3_64(chunk));
        }
        let end = offset + bytes as u64;
        match sending {
            Sending::Unverified | Sending::Verified => stream.write_all(chunk)?,
            Sending::VerifiedSendfile => {
                let mut sent = offset;
                while sent < end {
                    let rest = usize::try_from(end - sent)?;
                    ensure!(
                        sendfile(&*stream, file, Some(&mut sent), rest)? > 0,
                        "a shorter file"
                    );
                }
            }
        }
        offset = end;
    }
    Ok(())
}
