//! The capacity of a disk: a hard limit, and which chunks go for the newest.

use super::*;

#[test]
fn the_capacity_is_a_hard_limit_and_the_newest_stay() {
    let mut rig = Rig::new(1 << 20);
    for round in 0..40u32 {
        rig.fill(round * 32..round * 32 + 32);
        assert!(rig.on_disk() <= 1 << 20, "{}", rig.on_disk());
        assert!(rig.log.segments.taken() <= 1 << 20);
        let newest = round * 32..round * 32 + 32;
        assert!(
            newest
                .into_iter()
                .all(|n| rig.log.index.find(&key(n)).is_some())
        );
    }
    assert!(rig.log.index.len() > 150, "{}", rig.log.index.len());
    assert_eq!(rig.count(0..100), 0);
    let metrics = &rig.log.metrics;
    let ages = crate::metrics::count_of(&metrics.tier.eviction_age);
    assert_eq!(ages, metrics.evictions.get(), "each has an age");
    assert!(ages > 0);
    assert_eq!(metrics.tier.capacity.get(), 1 << 20);
}

#[test]
fn what_is_read_again_and_again_survives_a_scan_of_ten_times_the_capacity() {
    let mut rig = Rig::new(1 << 20);
    rig.fill(0..40);
    for scan in (1000..3500).step_by(8) {
        assert_eq!(rig.count(0..40), 40, "at {scan}");
        rig.fill(scan..scan + 8);
    }
    assert!(rig.on_disk() <= 1 << 20);
    rig.reopen();
    assert_eq!(rig.count(0..40), 40);
}

/// Survivors are moved out of nearly empty segments, so that files do not accumulate.
#[test]
fn the_number_of_files_is_bounded_and_little_is_written_twice() {
    let mut rig = Rig::new(1 << 20);
    for start in (0..3000).step_by(16) {
        rig.fill(start..start + 16);
        // One chunk of each segment stays hot.
        rig.count((0..start).step_by(97));
    }
    assert!(
        rig.log.segments.len() <= 8 * 16,
        "{}",
        rig.log.segments.len()
    );
    assert_eq!(rig.data_files().len(), 2 * rig.log.segments.len());
    let metrics = &rig.log.metrics;
    assert!(metrics.rewritten.get() > 0);
    assert!(metrics.rewritten.get() < metrics.admitted.get() / 2);
    assert_eq!(rig.count((0..2900).step_by(97)), 30);
}

#[test]
fn a_smaller_capacity_evicts_in_the_background_and_a_larger_one_keeps() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..600);
    assert!(rig.log.resize(1 << 20));
    rig.settle();
    assert!(rig.on_disk() <= 1 << 20);
    let left = rig.log.index.len();
    assert!(left > 100, "{left}");
    assert!(rig.log.resize(8 << 20));
    rig.fill(1000..1300);
    assert_eq!(rig.log.index.len(), left + 300);
    assert!(!rig.log.resize(1000), "too small");

    rig.settings.capacity = 1 << 20;
    rig.reopen();
    rig.settle();
    assert!(rig.on_disk() <= 1 << 20, "at the start too");
    assert!(rig.log.index.len() > 100);
}

#[test]
fn a_file_system_that_takes_back_whole_files_only_is_kept_within_the_capacity() {
    let mut rig = Rig::new(1 << 20);
    rig.wrong(FileFaults {
        punch: Some(rustix::io::Errno::OPNOTSUPP),
        ..FileFaults::default()
    });
    for start in (0..1000).step_by(8) {
        rig.fill(start..start + 8);
        rig.count(0..start);
        rig.log.remove(&key(start));
        assert!(rig.on_disk() <= 1 << 20);
    }
    assert!(rig.log.index.len() > 100);
}

/// A reader with a location from before the eviction reads zeros, or another segment's file: a quiet
/// miss.
#[test]
fn a_read_that_an_eviction_overtakes_is_a_miss_and_no_damage() {
    let mut rig = Rig::new(1 << 20);
    rig.fill(0..32);
    let locations: Vec<_> = (0..32)
        .filter_map(|n| Some((key(n), rig.log.index.find(&key(n))?)))
        .collect();
    // Some stay, so that the others are punched out and the files are not deleted.
    for start in (1000..1400).step_by(8) {
        rig.count((0..32).step_by(5));
        rig.fill(start..start + 8);
    }
    let mut evicted = 0;
    for (key, location) in locations {
        match rig.log.read(&key, &location, true) {
            Ok(_) => {}
            Err(fault) => {
                assert_eq!(fault, Fault::Lost);
                evicted += 1;
            }
        }
    }
    assert!(evicted >= 20, "{evicted}");
}
