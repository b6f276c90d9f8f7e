//! Index files and directories that cannot be read for a while, and space that cannot be given back.

use rustix::io::Errno;

use super::*;
use crate::tiering::DiskState;

/// Opening index files gives this error.
fn unopened(errno: Errno) -> FileFaults {
    FileFaults {
        open_index: Some(errno),
        ..FileFaults::default()
    }
}

impl Rig {
    /// Returns those of these chunks that the index has.
    fn known(&self, numbers: std::ops::Range<u32>) -> Vec<u32> {
        let is_known = |n: &u32| self.log.index.find(&key(*n)).is_some();
        numbers.filter(is_known).collect()
    }
}

#[test]
fn an_index_file_that_cannot_be_read_costs_no_chunk_that_is_in_use() {
    let mut rig = Rig::new(1 << 20);
    rig.fill(0..40);
    rig.wrong(unopened(Errno::IO));
    for scan in (1000..1800).step_by(8) {
        assert_eq!(rig.count(0..40), 40, "at {scan}");
        rig.fill(scan..scan + 8);
        assert!(rig.on_disk() <= 1 << 20);
    }
    assert_eq!(rig.known(1000..1200), [0; 0], "the others are evicted");
}

#[test]
fn a_shortage_of_descriptors_evicts_nothing() {
    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
        let mut rig = Rig::new(1 << 20);
        rig.fill(0..400);
        let before = rig.known(0..400);
        rig.wrong(unopened(errno));
        for number in 500..600 {
            // It is refused once a write was.
            let _ = rig.put(number);
            rig.settle();
        }
        assert_eq!(rig.known(0..400), before, "{errno:?}");
        assert_eq!(rig.log.health.state(), DiskState::Demoted);
        rig.wrong(FileFaults::default());
        for _ in 0..31 {
            rig.tick();
        }
        assert_eq!(rig.log.health.state(), DiskState::Up);
        rig.fill(600..1000);
        assert!(rig.on_disk() <= 1 << 20);
        assert_eq!(rig.known(0..400), [0; 0], "no segment is forgotten");
        assert_eq!(rig.count(960..1000), 40);
    }
}

/// A disk that cannot be read at the start: the load goes on once it can.
#[test]
fn chunks_that_cannot_be_looked_for_at_the_start_are_found_later() {
    let unlisted = FileFaults {
        list: Some(Errno::IO),
        ..FileFaults::default()
    };
    for wrong in [unopened(Errno::MFILE), unlisted] {
        let mut rig = Rig::new(1 << 20);
        rig.fill(0..100);
        rig.wrong(wrong);
        rig.reopen();
        for _ in 0..2 {
            assert!(!rig.load_on());
            assert!(!rig.log.ready.initialized());
            assert_eq!(rig.put(500), Err(Refusal::Opening));
            let notes = rig.log.health.notes();
            assert!(notes[0].contains("its index cannot be loaded"), "{notes:?}");
        }
        rig.wrong(FileFaults::default());
        assert!(rig.load_on() && rig.log.ready.initialized());
        assert_eq!(rig.log.health.notes(), [""; 0]);
        assert_eq!(rig.count(0..100), 100);
        rig.fill(500..1000);
        assert!(rig.on_disk() <= 1 << 20, "{}", rig.on_disk());
    }
}

#[test]
fn a_load_without_progress_is_stuck_after_a_while() {
    let mut rig = Rig::new(1 << 20);
    rig.fill(0..100);
    rig.wrong(unopened(Errno::MFILE));
    let began = Instant::now();
    rig.reopen();
    assert!(!rig.log.is_load_stuck(began + Duration::from_secs(10)));
    let later = Instant::now() + Duration::from_secs(11);
    assert!(!rig.load_on());
    assert!(rig.log.is_load_stuck(later));
    rig.monitor.check(later);
    assert!(!rig.log.health.writes_off(), "nothing was written");
    rig.wrong(FileFaults::default());
    assert!(rig.load_on() && !rig.log.is_load_stuck(later));
}

/// A segment whose space cannot be given back keeps no other from it.
#[test]
fn holes_wait_for_the_next_attempt_after_a_failure() {
    let mut rig = Rig::new(1 << 20);
    rig.fill(0..160);
    let taken = rig.log.segments.taken();
    for number in (0..160).filter(|n| n % 4 != 0) {
        rig.log.remove(&key(number));
    }
    rig.wrong(FileFaults {
        bad_segment: Some(0),
        ..FileFaults::default()
    });
    rig.settle();
    assert_eq!(rig.log.health.state(), DiskState::Demoted);
    for _ in 0..31 {
        rig.tick();
    }
    assert_eq!(
        rig.log.health.state(),
        DiskState::Up,
        "it goes on all the same"
    );
    assert!(rig.log.segments.taken() < taken / 2);
    assert_eq!(rig.count(0..160), 40);
}
