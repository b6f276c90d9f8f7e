//! Tests of `files`.

use super::*;

#[test]
fn direct_and_cached_files_read_back_what_was_written() {
    let dir = tempfile::tempdir().expect("a directory");
    for access in [FileAccess::Direct, FileAccess::Cached] {
        let path = dir.path().join("file");
        let file = RealFiles.open(&path, access).expect("opens");
        let pages = vec![7; 3 * 4096];
        let start = pages.as_ptr().align_offset(4096);
        file.write_at(&pages[start..start + 4096], 4096)
            .expect("written");
        file.sync().expect("synced");
        let again = RealFiles.open(&path, FileAccess::Existing).expect("opens");
        assert_eq!(again.read_at(4096, 4096).expect("read"), vec![7; 4096]);
        assert_eq!(again.read_at(0, 9999).expect("read").len(), 8192);
        again.truncate(5000).expect("cut");
        assert_eq!(again.read_at(4096, 4096).expect("read").len(), 904);
        RealFiles.unlink(&path).expect("gone");
        assert!(!again.stat().expect("open").linked);
    }
}

/// Reads past the cache, from it, and at the end of the file give the same bytes.
#[test]
fn what_is_read_past_the_cache_is_what_is_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let bytes: Vec<u8> = (0..100_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
    std::fs::write(&path, &bytes).expect("written");
    let file = RealFiles.open(&path, FileAccess::Existing).expect("opens");
    for cached in [true, false] {
        for (offset, len) in [
            (0, 8192),
            (4096, 50_000),
            (8192, 1),
            (98_304, 9999),
            (5, 100),
        ] {
            if !cached {
                file.sync().expect("synced");
                file.drop_cached(0, 100_000);
            }
            let end = (offset + len).min(bytes.len());
            for direct in [false, true] {
                let buffer = PageBuffer::new(len.next_multiple_of(4096));
                let read = file.read_into(buffer, direct, offset as u64, len);
                let read = read.expect("read");
                assert!(
                    read == bytes[offset..end],
                    "{offset} {len} {cached} {direct}"
                );
            }
        }
    }
    for direct in [false, true] {
        let beyond = file.read_into(PageBuffer::new(4096), direct, 102_400, 4096);
        assert!(beyond.expect("read").is_empty());
    }
}

/// An unaligned direct write goes through the real fallback, and succeeds.
#[test]
fn a_refused_direct_write_goes_through_the_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    let file = RealFiles.open(&path, FileAccess::Direct).expect("opens");
    file.write_at(b"no page", 0).expect("written");
    assert_eq!(file.read_at(0, 100).expect("read"), b"no page");
}

/// The file system was read-only when the file was opened, and is not any more.
#[test]
fn a_file_opened_for_reads_alone_gives_space_back_once_it_can_be_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("file");
    std::fs::write(&path, vec![7; 1 << 16]).expect("written");
    let read_only = File::open(&path).expect("there");
    let file = RealFile::new(read_only, &path, FileAccess::Existing).expect("open");
    for offset in [4096, 16_384] {
        match file.punch(offset, 4096) {
            Err(error) if is_unsupported(&error) => return,
            punched => punched.expect("given back"),
        }
        assert_eq!(file.read_at(offset, 4096).expect("read"), vec![0; 4096]);
    }
    assert_eq!(file.read_at(0, 4096).expect("read"), vec![7; 4096]);
}
