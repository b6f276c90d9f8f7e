use super::*;

fn bytes(disk: &Volatile, name: &str) -> Option<Vec<u8>> {
    let node = disk.find(ROOT, OsStr::new(name))?;
    Some(disk.nodes[&node].now.read(0, u64::MAX))
}

fn write(disk: &mut Volatile, name: &str, at: u64, bytes: &[u8]) -> u64 {
    let name = OsStr::new(name);
    let found = disk.find(ROOT, name);
    let node = found.unwrap_or_else(|| disk.make(ROOT, name, false));
    let file = disk.nodes.get_mut(&node).expect("there");
    file.change(Change::Write(at, Bytes::copy_from_slice(bytes)));
    node
}

/// Synced bytes are there after every cut. Unsynced ones are sometimes there, sometimes not, and sometimes in
/// pieces.
#[test]
fn a_cut_keeps_what_was_synced_and_draws_the_rest() {
    let (mut lost, mut kept, mut torn, mut nameless) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut disk = Volatile::default();
        let node = write(&mut disk, "synced", 0, &[1; 10_000]);
        disk.sync(node);
        disk.sync(ROOT);
        write(&mut disk, "synced", 4096, &[2; 8192]);
        let other = write(&mut disk, "nameless", 0, b"durable without its name");
        disk.sync(other);
        disk.cut(&mut Draw::new(seed));
        let found = bytes(&disk, "synced").expect("its name was synced");
        assert!(found[..4096] == [1; 4096], "what lies before the write");
        assert!(found.len() == 10_000 || found.len() <= 12_288);
        let twos = found.iter().filter(|byte| **byte == 2).count();
        match twos {
            0 => lost += 1,
            8192 => kept += 1,
            _ => torn += 1,
        }
        match bytes(&disk, "nameless") {
            None => nameless += 1,
            Some(found) => assert_eq!(found, b"durable without its name"),
        }
    }
    assert!(lost > 20 && kept > 20 && torn > 20, "{lost} {kept} {torn}");
    assert!((20..180).contains(&nameless), "{nameless}");
}

#[test]
fn an_image_reads_as_a_file_does() {
    let mut image = Image::default();
    image.write(5000, b"hello");
    assert_eq!(image.len, 5005);
    assert_eq!(image.read(4998, 100), b"\0\0hello");
    image.resize(5002);
    image.resize(6000);
    assert_eq!(image.read(5000, 4), b"he\0\0");
    image.write(0, &[7; 12_288]);
    image.zero(100, 8192);
    assert_eq!(image.allocated(), 8192);
    let all = image.read(0, 20_000);
    assert!(all[..100] == [7; 100] && all[8292..] == [7; 3996]);
    assert!(all[100..8292].iter().all(|byte| *byte == 0));
}
