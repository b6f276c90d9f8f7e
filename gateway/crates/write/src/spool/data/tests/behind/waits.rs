//! Writers wait for the disk only once enough is to be written to it.

use super::*;
use crate::spool::write_behind::MAX_WAITING_BLOCKS;

#[test]
fn a_writer_waits_for_the_disk_once_there_is_enough_to_write() {
    let Some((_directory, data)) = direct_data() else {
        return;
    };
    let most = MAX_WAITING_BLOCKS as u64;
    blocks(&data, 1 + most);
    assert_eq!(length(&data), Some(MIB));
    let next = data.memory.copy(&pattern(7, MIB));
    assert!(!data.take_in((1 + most) * MIB, &next));
    data.write((1 + most) * MIB, next).expect("written");
    assert_eq!(length(&data), Some(2 * MIB), "one made room");
    // A block that is written twice is not overtaken.
    let again = data.memory.copy(&pattern(9, MIB));
    assert!(!data.take_in(5 * MIB, &again));
    data.write(5 * MIB, again).expect("written");
    assert_eq!(length(&data), Some((2 + most) * MIB));
    let read = data.read(ByteRange::new(5 * MIB, 6 * MIB)).expect("read");
    assert!(read == pattern(9, MIB));
}

/// An image that begins after its header: each write ends one block and begins the next.
#[test]
fn a_write_across_blocks_waits_for_no_disk_either() {
    let Some((_directory, data)) = direct_data() else {
        return;
    };
    let header = 320 << 10;
    let mut written = pattern(0, header);
    assert!(data.take_in(0, &data.memory.copy(&written)));
    let most = MAX_WAITING_BLOCKS as u64;
    for n in 0..=1 + most {
        let bytes = pattern(n + 1, MIB);
        let piece = data.memory.copy(&bytes);
        let is_taken = data.take_in(written.len() as u64, &piece);
        // The first shows that the disk takes blocks; the last comes when the queue is full.
        assert_eq!(is_taken, (1..=most).contains(&n), "{n}");
        if !is_taken {
            data.write(written.len() as u64, piece).expect("written");
        }
        written.extend_from_slice(&bytes);
    }
    assert_eq!(length(&data), Some(2 * MIB), "one made room");
    let all = ByteRange::new(0, written.len() as u64);
    assert!(data.read(all).expect("in memory") == written);
    data.sync(no_journal).expect("durable");
    assert!(std::fs::read(&data.path).expect("a file") == written);
}
