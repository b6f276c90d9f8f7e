//! `tar`, and a check of its output: each file's bytes follow from its name.

use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::LEN;
use crate::pattern::Pattern;

/// The block size of headers and contents (POSIX.1-1988, ustar).
const BLOCK: usize = 512;
const NAME: std::ops::Range<usize> = 0..100;
const SIZE: std::ops::Range<usize> = 124..135;
const KIND: usize = 156;

/// Lets `tar` read a folder below `root`, checks every byte, and returns the number of files.
pub(super) fn read(root: &Path, folder: &str) -> Result<u64> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file=-", "--format=ustar"]);
    tar.arg("--directory").arg(root).arg(folder);
    let mut child = tar.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let out = child.stdout.take().context("tar has no output")?;
    let found = check(BufReader::with_capacity(1 << 20, out))?;
    let status = child.wait()?;
    // Status 1 means that a file's time changed during the read: some mounts report the listing's
    // time first and then the object's. The bytes are checked here.
    ensure!(matches!(status.code(), Some(0 | 1)), "tar failed: {status}");
    Ok(found)
}

fn check(mut archive: impl Read) -> Result<u64> {
    let (mut header, mut body, mut found) = ([0; BLOCK], vec![], 0);
    loop {
        match archive.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(found),
            read => read?,
        }
        // Blocks of zeros end an archive.
        if header[KIND] != b'0' {
            continue;
        }
        let name = text(&header[NAME])?;
        let size = usize::from_str_radix(text(&header[SIZE])?, 8)?;
        body.resize(size.next_multiple_of(BLOCK), 0);
        archive.read_exact(&mut body)?;
        let stem = name
            .rsplit('/')
            .next()
            .and_then(|name| name.split('.').next());
        let seed = stem.context("a file without a name")?.parse()?;
        let right = size as u64 == LEN && Pattern { seed, len: LEN }.matches(0, &body[..size]);
        ensure!(right, "wrong bytes in {name}");
        found += 1;
    }
}

fn text(field: &[u8]) -> Result<&str> {
    let len = field.iter().position(|byte| *byte == 0);
    Ok(std::str::from_utf8(&field[..len.unwrap_or(field.len())])?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_of_right_files_is_counted_and_a_wrong_byte_is_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("files");
        std::fs::create_dir(&folder).unwrap();
        for seed in 0..30 {
            let pattern = Pattern { seed, len: LEN };
            std::fs::write(folder.join(format!("{seed:06}.bin")), pattern.all()).unwrap();
        }
        assert_eq!(read(root.path(), "files").unwrap(), 30);
        let other = Pattern { seed: 99, len: LEN };
        std::fs::write(folder.join("000007.bin"), other.all()).unwrap();
        assert!(read(root.path(), "files").is_err());
    }
}
