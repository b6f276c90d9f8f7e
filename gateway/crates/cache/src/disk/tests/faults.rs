//! Faults of a disk, and its recovery.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;

use super::*;
use crate::tiering::DiskState;

fn failing(write: Errno) -> FileFaults {
    FileFaults {
        write: Some(write),
        ..FileFaults::default()
    }
}

#[test]
fn a_failed_write_switches_writes_off_until_a_probe_succeeds() {
    for errno in [Errno::IO, Errno::ROFS, Errno::NODEV] {
        let mut rig = Rig::new(4 << 20);
        rig.fill(0..50);
        rig.wrong(failing(errno));
        rig.put(50).expect("nobody knows yet");
        rig.settle();
        assert_eq!(rig.log.health.state(), DiskState::Demoted);
        assert_eq!(rig.put(51), Err(Refusal::Demoted));
        assert_eq!(rig.log.queue.bytes(), 0);
        assert!(rig.log.health.notes()[0].contains("nothing is written to it"));
        for _ in 0..40 {
            rig.tick();
        }
        assert_eq!(rig.log.health.state(), DiskState::Demoted);
        assert_eq!(rig.count(0..51), 50, "reads go on");

        rig.wrong(FileFaults::default());
        for _ in 0..31 {
            rig.tick();
        }
        assert_eq!(rig.log.health.state(), DiskState::Up);
        assert!(rig.log.health.notes().is_empty());
        rig.fill(50..100);
        rig.reopen();
        assert_eq!(rig.count(0..100), 100);
    }
}

#[test]
fn a_failed_sync_switches_writes_off_too() {
    let mut rig = Rig::new(4 << 20);
    rig.wrong(FileFaults {
        sync: Some(Errno::IO),
        ..FileFaults::default()
    });
    rig.put(1).expect("taken");
    rig.settle();
    assert_eq!(rig.log.health.state(), DiskState::Demoted);
    rig.wrong(FileFaults::default());
    rig.tick();
    assert_eq!(rig.log.health.state(), DiskState::Up);
    rig.fill(2..10);
    assert_eq!(rig.count(2..10), 8);
}

#[test]
fn a_write_that_hangs_switches_writes_off_until_it_returns() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..10);
    rig.log.set_step_start(Some(rig.now));
    for second in 1..20 {
        rig.monitor.check(rig.now + Duration::from_secs(second));
    }
    assert_eq!(rig.log.health.state(), DiskState::Demoted);
    assert_eq!(rig.put(10), Err(Refusal::Demoted));
    rig.log.set_step_start(None);
    for _ in 0..60 {
        rig.tick();
    }
    assert_eq!(rig.log.health.state(), DiskState::Up);
    rig.fill(10..20);
    assert_eq!(rig.count(0..20), 20);
}

#[test]
fn a_full_file_system_is_waited_for_and_space_is_given_back() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..300);
    rig.wrong(FileFaults {
        room: Some(10 << 10),
        ..FileFaults::default()
    });
    for number in 400..410 {
        rig.put(number).expect("nobody knows yet");
    }
    let before = rig.on_disk();
    rig.settle();
    assert_eq!(rig.log.health.state(), DiskState::Full);
    assert_eq!(rig.put(500), Err(Refusal::Full));
    assert!(rig.on_disk() < before, "at least a segment is evicted");
    assert!(rig.count(0..300) > 200, "and not much more");
    rig.wrong(FileFaults::default());
    rig.tick();
    assert_eq!(rig.log.health.state(), DiskState::Up);
    rig.fill(600..610);
    assert_eq!(rig.count(600..610), 10);
}

#[test]
fn below_min_free_space_is_given_back_until_the_second_mark() {
    let mut rig = Rig::new(4 << 20);
    rig.settings.min_free = 1 << 20;
    rig.reopen();
    rig.fill(0..300);
    let free = |free: u64| FileFaults {
        free: Some(free),
        ..FileFaults::default()
    };
    rig.wrong(free((1 << 20) + 1));
    rig.tick();
    assert_eq!(rig.log.health.state(), DiskState::Up, "above the mark");
    rig.wrong(free((1 << 20) - 1));
    let before = rig.on_disk();
    rig.tick();
    assert_eq!(rig.log.health.state(), DiskState::Full);
    let given = before - rig.on_disk();
    assert!(
        (1 << 18..1 << 19).contains(&given),
        "a quarter, by whole segments: {given}"
    );
    // Other files take the freed space at once, again and again.
    for _ in 0..20 {
        rig.tick();
    }
    assert_eq!((rig.log.index.len(), rig.log.segments.len()), (0, 0));
    assert_eq!(rig.on_disk(), 0);
    assert_eq!(rig.put(500), Err(Refusal::Full));
    rig.wrong(free(5 << 18));
    rig.tick();
    rig.tick();
    assert_eq!(rig.log.health.state(), DiskState::Up);
    rig.fill(200..210);
}

#[test]
fn between_the_marks_it_takes_chunks_again_only_when_it_has_nothing_left_to_give() {
    let mut rig = Rig::new(4 << 20);
    rig.settings.min_free = 1 << 20;
    rig.reopen();
    rig.fill(0..100);
    rig.log.health.set_full(true, 0);
    rig.wrong(FileFaults {
        free: Some((1 << 20) + 4096),
        ..FileFaults::default()
    });
    for _ in 0..5 {
        rig.tick();
    }
    assert_eq!(rig.log.index.len(), 0);
    assert_eq!(rig.log.health.state(), DiskState::Up);
}

#[test]
fn one_bad_place_is_one_miss_and_three_in_a_row_are_a_bad_disk() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..50);
    rig.wrong(FileFaults {
        read: Some(Errno::IO),
        ..FileFaults::default()
    });
    assert_eq!(rig.count(0..2), 0);
    rig.wrong(FileFaults::default());
    assert_eq!(rig.count(0..50), 48);
    rig.wrong(FileFaults {
        read: Some(Errno::IO),
        ..FileFaults::default()
    });
    assert_eq!(rig.count(10..13), 0);
    assert_eq!(rig.log.health.state(), DiskState::Slow);
    assert!(!rig.log.health.can_read());
    for _ in 0..10 {
        rig.tick();
    }
    assert_eq!(rig.log.health.state(), DiskState::Slow);
    rig.wrong(FileFaults::default());
    for _ in 0..31 {
        rig.tick();
    }
    assert_eq!(rig.log.health.state(), DiskState::Up);
    assert_eq!(rig.count(0..50), 41, "four probes have failed");
}

/// The probe reads any chunk, the same one each time. If that one cannot be read, others can.
#[test]
fn an_unreadable_chunk_keeps_no_disk_off() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..50);
    rig.wrong(FileFaults {
        read: Some(Errno::IO),
        ..FileFaults::default()
    });
    assert_eq!(rig.count(0..3), 0);
    assert!(!rig.log.health.can_read());
    let (_, probed, _) = rig.log.sample().expect("a chunk");
    rig.wrong(FileFaults {
        bad_offset: Some(probed.offset),
        ..FileFaults::default()
    });
    for _ in 0..31 {
        rig.tick();
    }
    assert_eq!(rig.log.health.state(), DiskState::Up);
    assert_eq!(rig.count(0..50), 46);
}

#[test]
fn short_reads_are_misses() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..10);
    rig.wrong(FileFaults {
        short: true,
        ..FileFaults::default()
    });
    assert_eq!(rig.count(0..10), 0);
}

#[test]
fn a_panic_of_the_writer_costs_what_it_had_in_hand() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..50);
    rig.wrong(FileFaults {
        panic: true,
        ..FileFaults::default()
    });
    rig.put(60).expect("taken");
    let (writer, now) = (&mut rig.writer, rig.now);
    catch_unwind(AssertUnwindSafe(|| writer.step(now))).expect_err("told to panic");
    rig.log.health.record_write_failure(&"the writer panicked");
    rig.writer.recover();
    assert_eq!(rig.log.queue.bytes(), 0);
    rig.tick();
    assert_eq!(rig.log.health.state(), DiskState::Up);
    rig.fill(61..70);
    assert_eq!(rig.count(0..70), 59);
}

#[test]
fn a_deleted_directory_is_begun_anew() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..50);
    for (round, whole) in [(0, false), (1, true), (2, true)] {
        if whole {
            fs::remove_dir_all(rig.dir.path()).expect("removed");
        } else {
            fs::remove_dir_all(&rig.log.dir).expect("removed");
        }
        rig.tick();
        assert_eq!((rig.log.index.len(), rig.log.segments.len()), (0, 0));
        if round < 2 {
            rig.fill(100..150);
            assert_eq!(rig.count(0..150), 50);
            assert!(rig.on_disk() >= 25 * 4096);
        }
        assert!(rig.dir.path().join("lock").exists());
        assert_eq!(rig.log.health.state(), DiskState::Up);
    }
}

#[test]
fn an_unlinked_file_is_noticed_and_what_the_writer_deletes_is_not_taken_for_one() {
    let mut rig = Rig::new(1 << 20);
    rig.fill(0..1000);
    rig.tick();
    assert!(rig.log.index.len() > 100, "eviction deletes files too");
    for path in rig.data_files() {
        fs::remove_file(path).expect("removed");
    }
    rig.tick();
    assert_eq!(rig.log.index.len(), 0);
    rig.fill(2000..2020);
    rig.reopen();
    assert_eq!(rig.count(2000..2020), 20);
}

#[test]
fn what_was_synced_survives_a_power_cut_and_the_rest_is_a_miss() {
    let mut rig = Rig::new(4 << 20);
    rig.fill(0..200);
    rig.tick();
    // The next sync is due a second after this one.
    rig.put(400).expect("taken");
    while rig.step() == NextStep::Now {}
    for number in 200..260 {
        rig.put(number).expect("taken");
    }
    while rig.step() == NextStep::Now {}
    assert_eq!(rig.count(200..260), 60);
    rig.files.lose_power();
    rig.reopen();
    assert_eq!(rig.count(0..200), 200);
    assert!(rig.count(200..260) < 60);
    rig.fill(300..350);
    rig.reopen();
    assert_eq!(rig.count(300..350), 50);
}

/// A large chunk takes a slow disk longer than a small one a fast disk.
#[test]
fn a_probe_gets_the_time_that_the_disk_usually_takes_for_the_chunk() {
    let (late, second) = (Duration::from_millis(80), Duration::from_secs(1));
    let rig = Rig::new(1 << 20);
    let limits = ReadLimits::unmeasured(late);
    let monitor = DiskMonitor::new(Arc::clone(&rig.log), limits.clone());
    assert!(monitor.probe_limit(4096) < 3 * late);
    assert!(monitor.probe_limit(16 << 20) > second, "unmeasured");
    for _ in 0..20 {
        limits.measure(1 << 20, second);
    }
    assert!(monitor.probe_limit(1 << 20) > second, "measured");
}
