//! Ways to read files of a mount, and their content.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

/// Returns bytes that identify their place and their seed.
pub(crate) fn sample(seed: usize, size: usize) -> Vec<u8> {
    let byte = |n: usize| (n.wrapping_mul(31) ^ (n >> 11) ^ seed) as u8;
    (0..size).map(byte).collect()
}

/// Reads all of an open file.
pub(crate) fn all(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file");
    file.read_to_end(&mut bytes).expect("read");
    bytes
}

/// Does the same through a copy by the kernel (`sendfile`).
pub(crate) fn copied_by_the_kernel(from: &File) -> Vec<u8> {
    let mut to = tempfile::tempfile().expect("a file");
    let mut at = 0;
    while rustix::fs::sendfile(&to, from, Some(&mut at), 1 << 20).expect("copied") > 0 {}
    all(&mut to)
}
