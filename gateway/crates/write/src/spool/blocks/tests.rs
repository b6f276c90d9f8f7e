use super::*;

fn sums(crc64: u64) -> Sums {
    Sums { crc64, crc32c: 0 }
}

fn block(n: u64) -> ByteRange {
    ByteRange::new(n * 4096, (n + 1) * 4096)
}

#[test]
fn has_what_was_written_last() {
    let memory = Memory::new(Budget::new(3 * 4096), Budget::new(1 << 20));
    let blocks = Blocks::default();
    for n in 0..3 {
        let charged = memory.take(4096);
        assert_eq!(charged.is_some(), n < 2, "memory for two");
        let bytes = charged.map(|charged| (vec![n as u8; 4096].into(), charged));
        blocks.note(block(n), sums(n), bytes);
    }
    let found = blocks.first(ByteRange::new(4000, 9000)).expect("kept");
    assert_eq!(found, [0; 96][..]);
    let found = blocks.first(ByteRange::new(4096, 9000)).expect("kept");
    assert_eq!(found, [1; 4096][..]);
    assert_eq!(blocks.first(ByteRange::new(8192, 13000)), Err(13000));
    assert_eq!(blocks.at(block(2)), Some((4096, sums(2))));
    assert_eq!(blocks.at(ByteRange::new(8192, 12287)), None);
    assert_eq!(blocks.at(ByteRange::new(8193, 13000)), None);

    blocks.let_go(ByteRange::new(4095, 4096));
    assert_eq!(blocks.first(ByteRange::new(0, 20000)), Err(4096));
    assert_eq!(blocks.at(block(0)), Some((4096, sums(0))));
    assert!(memory.take(4096).is_some(), "it was given back");
    let charged = memory.take(4096).expect("for one more");
    let over = ByteRange::new(4000, 4200);
    blocks.note(over, sums(7), Some((vec![7; 200].into(), charged)));
    let found = blocks.first(ByteRange::new(4096, 9000)).expect("kept");
    assert_eq!(found.len(), 104);
    assert_eq!([blocks.at(block(0)), blocks.at(block(1))], [None; 2]);
    blocks.let_go(ByteRange::new(0, u64::MAX));
    assert_eq!(blocks.first(block(1)), Err(8192));
}

#[test]
fn keeps_what_the_disk_does_not_have_yet() {
    let memory = Memory::new(Budget::new(1 << 20), Budget::new(1 << 20));
    let blocks = Blocks::default();
    let all = ByteRange::new(0, u64::MAX);
    for n in 0..2 {
        let charged = memory.take(4096).expect("there is some");
        blocks.note_behind(block(n), sums(n), (vec![n as u8; 4096].into(), charged));
    }
    blocks.let_go(block(0));
    assert_eq!(blocks.first(block(0)).expect("nowhere else"), [0; 4096][..]);
    blocks.written(0);
    assert_eq!(blocks.first(all), Err(4096), "it was let go of before");
    blocks.written(4096);
    assert_eq!(blocks.first(block(1)).expect("kept"), [1; 4096][..]);
    blocks.let_go(all);
    assert!(blocks.first(block(1)).is_err());
    assert_eq!(blocks.at(block(1)), Some((4096, sums(1))));
}
