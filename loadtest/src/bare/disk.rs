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

/// The bytes of a chunk, as Tidegate's disks have them, and more than a head has.
const CHUNK: usize = 256 << 10;
const MAX_HEAD: usize = 256;

/// The way in which chunks leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SendMethod {
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
pub fn serve(addr: SocketAddr, root: &Path, method: SendMethod) -> Result<()> {
    let root: Arc<Path> = root.into();
    for stream in TcpListener::bind(addr)?.incoming() {
        let (stream, root) = (stream?, root.clone());
        thread::Builder::new().spawn(move || {
            // A client that leaves ends its connection with an error.
            let _ = answer_all(stream, &root, method);
        })?;
    }
    Ok(())
}

fn answer_all(mut stream: TcpStream, root: &Path, method: SendMethod) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream.try_clone()?);
    let mut buffer = vec![0; MAX_HEAD + CHUNK];
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            ensure!(requests.read_line(&mut head)? > 0, "the client has left");
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let file = File::open(root.join(path.trim_start_matches('/')))?;
        send(&file, &mut stream, &mut buffer, method)?;
    }
}

/// Sends a head and the whole file. The head leaves with the first chunk, but for `sendfile`.
fn send(file: &File, stream: &mut TcpStream, buffer: &mut [u8], method: SendMethod) -> Result<()> {
    let len = file.metadata()?.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\ncontent-length: {len}\r\n\r\n"
    );
    let mut lead = head.len();
    buffer[..lead].copy_from_slice(head.as_bytes());
    let mut offset = 0;
    while lead > 0 || offset < len {
        let end = len.min(offset + CHUNK as u64);
        let frame = &mut buffer[..lead + usize::try_from(end - offset)?];
        file.read_exact_at(&mut frame[lead..], offset)?;
        if method != SendMethod::Unverified {
            std::hint::black_box(xxh3_64(&frame[lead..]));
        }
        match method {
            SendMethod::Unverified | SendMethod::Verified => stream.write_all(frame)?,
            SendMethod::VerifiedSendfile => {
                stream.write_all(&frame[..lead])?;
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
        (offset, lead) = (end, 0);
    }
    Ok(())
}
