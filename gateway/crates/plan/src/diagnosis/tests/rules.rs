//! Each rule at its bounds.

use super::*;

/// Returns the settings for these disks and one origin of these rates.
fn settings(disks: Vec<MeasuredDisk>, millis: u64, rates: &[(u32, f64)]) -> RecommendedSettings {
    let said = judge(&measured(disks, vec![origin("o", millis, rates)]));
    said.settings.expect("an origin was measured")
}

#[test]
fn a_rate_is_bytes_over_time_and_none_without_time() {
    assert_eq!(Rate::new(100, Duration::from_secs(4)), Rate(25.0));
    assert_eq!(Rate::new(100, Duration::ZERO), Rate(0.0));
}

#[test]
fn the_fewest_connections_that_bring_nine_tenths_are_enough_but_never_one() {
    for (rates, streams) in [
        (&[(1, 10.0)][..], 2),
        (&[(1, 90.0), (4, 100.0)], 2),
        (&[(1, 10.0), (3, 90.0), (4, 100.0)], 3),
        (&[(1, 10.0), (3, 89.9), (4, 100.0)], 4),
        (&[(1, 10.0), (3, 100.0), (4, 50.0)], 3),
    ] {
        let profile = &settings(vec![], 1, rates).profiles[0];
        assert_eq!(profile.streams, streams, "{rates:?}");
    }
}

#[test]
fn the_window_is_a_part_for_each_stream_or_one_second() {
    for (millis, rates, mib, reason) in [
        (1, &[(1, 1.0)][..], 2, "the smallest parts"),
        (100, &[(1, 1.0)], 4, "parts of twenty times the first byte"),
        (1000, &[(1, 8.0)], 16, "the largest parts"),
        (1, &[(1, 33.0)], 32, "one second"),
        (1, &[(1, 34.0)], 64, "one second"),
        (1, &[(1, 900.0)], 128, "the widest window"),
    ] {
        let profile = &settings(vec![], millis, rates).profiles[0];
        assert_eq!(profile.read_ahead, ByteSize(mib * MIB), "{reason}");
    }
}

/// A fifth counts as an error of measurement, in both directions.
#[test]
fn a_disk_is_faster_from_six_fifths_and_spares_from_four_fifths_of_the_origin() {
    let origin = origin("o", 20, &[(1, 50.0), (2, 100.0)]);
    for (rate, expected) in [
        (120.0, DiskHelp::Faster),
        (119.9, DiskHelp::Spares),
        (80.0, DiskHelp::Spares),
        (79.9, DiskHelp::SmallOnly),
    ] {
        let help = help(&disk("/d", rate, 1.0), &origin, ByteSize(256 << 10));
        assert_eq!(help, expected, "{rate}");
    }
}

#[test]
fn a_disk_takes_every_chunk_if_it_writes_twice_as_fast_as_the_origin_delivers() {
    for (read, write, expected) in [
        (300.0, 200.0, DiskUse::First),
        (300.0, 199.9, DiskUse::Second),
        (100.0, 200.0, DiskUse::First),
        (50.0, 200.0, DiskUse::Off),
    ] {
        let disk = MeasuredDisk {
            write: mb(write),
            ..disk("/d", read, 1.0)
        };
        let settings = settings(vec![disk], 20, &[(1, 100.0)]);
        assert_eq!(settings.profiles[0].disk, expected, "{read}, {write}");
    }
}

/// The first disk takes every chunk, the second what is asked for twice, the third serves small objects only.
#[test]
fn the_weakest_disk_that_is_kept_decides_for_all() {
    let disks = [
        disk("/first", 3000.0, 0.2),
        disk("/second", 150.0, 1.0),
        disk("/small", 50.0, 1.0),
    ];
    for (kept, expected) in [
        (&[][..], DiskUse::Off),
        (&[0], DiskUse::First),
        (&[0, 1], DiskUse::Second),
        (&[1, 0], DiskUse::Second),
        (&[0, 2], DiskUse::Off),
        (&[1, 2, 0], DiskUse::Off),
    ] {
        let disks: Vec<_> = kept.iter().map(|n| disks[*n].clone()).collect();
        let settings = settings(disks.clone(), 20, &[(1, 100.0)]);
        assert_eq!(settings.disks, disks, "all are worth having");
        assert_eq!(settings.profiles[0].disk, expected, "{kept:?}");
    }
}

#[test]
fn a_disk_is_kept_if_it_helps_before_any_origin() {
    let slow = origin("slow", 20, &[(1, 10.0)]);
    let fast = origin("fast", 1, &[(1, 900.0)]);
    let said = judge(&measured(vec![disk("/d", 50.0, 5.0)], vec![fast, slow]));
    let helps = |verdict: &OriginVerdict| verdict.disks[0].1;
    let helps: Vec<_> = said.origins.iter().map(helps).collect();
    assert_eq!(helps, [DiskHelp::Slower, DiskHelp::Faster]);
    let settings = said.settings.expect("settings");
    assert_eq!(settings.disks.len(), 1);
    let uses: Vec<_> = settings.profiles.iter().map(|one| one.disk).collect();
    assert_eq!(uses, [DiskUse::Off, DiskUse::First]);
}

#[test]
fn a_profile_bears_the_name_of_its_origin_if_there_are_several() {
    for (origins, expected) in [
        (&["a"][..], &["measured"][..]),
        (&["a", "b"], &["measured-a", "measured-b"]),
    ] {
        let origins = origins.iter().map(|name| origin(name, 1, &[(1, 10.0)]));
        let said = judge(&measured(vec![], origins.collect()));
        let profiles = said.settings.expect("settings").profiles;
        let names: Vec<_> = profiles.iter().map(|one| &one.name).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn the_budget_holds_two_of_the_widest_windows_and_never_shrinks() {
    let origins = [(1, 20.0), (2, 60.0)].map(|(n, rate)| origin("o", 1, &[(n, rate)]));
    for (present, expected) in [(100, 128), (128, 128), (129, 129)] {
        let mut measured = measured(vec![], origins.to_vec());
        measured.cache.budget = ByteSize(present * MIB);
        let settings = judge(&measured).settings.expect("settings");
        assert_eq!(settings.profiles[1].read_ahead, ByteSize(64 * MIB));
        assert_eq!(settings.cache.budget, ByteSize(expected * MIB), "{present}");
    }
}

#[test]
fn a_disk_seeks_if_chunks_at_random_places_take_more_than_twice_as_long() {
    let present = 256 << 10;
    for (chunk_read, chunk, expected) in [
        (90.0, present, present),
        (89.9, present, MIB),
        (89.9, 2 * MIB, 2 * MIB),
    ] {
        let seeking = MeasuredDisk {
            chunk_read: mb(chunk_read),
            ..disk("/hdd", 180.0, 1.0)
        };
        let mut measured = measured(vec![seeking], vec![origin("o", 1, &[(1, 30.0)])]);
        measured.cache.chunk = ByteSize(chunk);
        let settings = judge(&measured).settings.expect("settings");
        assert_eq!(settings.cache.chunk, ByteSize(expected), "{chunk_read}");
    }
}

/// On its way to a reader a byte comes from the memory, before it from a disk, before that from an origin.
#[test]
fn of_equally_slow_parts_the_one_nearest_to_the_reader_is_the_bottleneck() {
    let (memory, same) = (8000.0, "same");
    let (disk_there, origin_there) = (Stage::Disk(same.into()), Stage::Origin(same.into()));
    for (disk_rate, origin_rate, expected) in [
        (memory, memory, (Stage::Memory, mb(memory))),
        (50.0, 50.0, (disk_there.clone(), mb(50.0))),
        (49.9, 50.0, (disk_there, mb(49.9))),
        (50.0, 49.9, (origin_there, mb(49.9))),
    ] {
        let disks = vec![disk(same, disk_rate, 1.0)];
        let said = judge(&measured(disks, vec![origin(same, 1, &[(1, origin_rate)])]));
        assert_eq!(said.bottleneck, expected);
    }
}
