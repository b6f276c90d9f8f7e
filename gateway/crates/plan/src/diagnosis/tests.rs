//! The published cases, and properties of any measurements.

use super::*;

mod efficiency;
mod machines;
mod rules;
mod stages;
mod words;

use machines::{MIB, disk, mb, measured, origin};

fn only(diagnosis: &Diagnosis) -> (DiskHelp, &RecommendedProfile) {
    let settings = diagnosis.settings.as_ref().expect("an origin was measured");
    (diagnosis.origins[0].disks[0].1, &settings.profiles[0])
}

/// A home server: the raw disk does 80 MB/s, MinIO behind it 56. As published, with readers that
/// waited for a cache on that disk, a first read fell to 30.76 and a second rose to 82.52.
#[test]
fn one_slow_disk_before_a_slower_origin() {
    let minio = origin("minio", 3, &[(1, 50.0), (2, 56.0), (4, 55.0)]);
    let said = judge(&measured(vec![disk("/cache", 80.0, 9.0)], vec![minio]));
    assert_eq!(said.bottleneck, (Stage::Origin("minio".into()), mb(56.0)));
    let (help, profile) = only(&said);
    assert_eq!(help, DiskHelp::Faster);
    assert_eq!((profile.streams, profile.disk), (2, DiskUse::Second));
    assert_eq!(profile.read_ahead, ByteSize(64 * MIB), "one second's worth");
    let text = said.to_string();
    assert!(
        text.contains("helps warm reads: it reads 80 MB/s, 1.4 times as fast"),
        "{text}"
    );
    assert!(text.contains("no disk changes that"), "{text}");
    assert!(text.contains("little time left"), "{text}");
}

#[test]
fn a_disk_at_a_crawl_before_a_fast_cloud() {
    let rates = [
        (1, 20.0),
        (2, 40.0),
        (4, 80.0),
        (8, 160.0),
        (16, 318.0),
        (32, 320.0),
    ];
    let cloud = origin("cloud", 20, &rates);
    let said = judge(&measured(vec![disk("/slow", 10.0, 26.0)], vec![cloud]));
    assert_eq!(said.bottleneck, (Stage::Disk("/slow".into()), mb(10.0)));
    let (help, profile) = only(&said);
    // A chunk takes the disk 26 ms and the origin 33: sooner, but not clearly.
    assert_eq!(help, DiskHelp::Slower);
    assert_eq!((profile.streams, profile.disk), (16, DiskUse::Off));
    assert_eq!(profile.read_ahead, ByteSize(128 * MIB));
    let settings = said.settings.as_ref().expect("settings");
    assert_eq!(settings.disks, [], "left out");
    let text = said.to_string();
    assert!(text.contains("32 times slower than the origin"), "{text}");
    assert!(text.contains("it takes 16 to have 320 MB/s"), "{text}");
}

#[test]
fn nvme_before_a_slow_cloud() {
    let cloud = origin(
        "cloud",
        60,
        &[(1, 10.0), (2, 20.0), (4, 39.0), (8, 40.0), (16, 40.0)],
    );
    let said = judge(&measured(vec![disk("/nvme", 3000.0, 0.2)], vec![cloud]));
    assert_eq!(said.bottleneck, (Stage::Origin("cloud".into()), mb(40.0)));
    let (help, profile) = only(&said);
    assert_eq!(help, DiskHelp::Faster);
    assert_eq!((profile.streams, profile.disk), (4, DiskUse::First));
    let settings = said.settings.as_ref().expect("settings");
    assert_eq!(settings.disks.len(), 1);
    assert_eq!(settings.cache.chunk, ByteSize(256 << 10));
    let text = said.to_string();
    assert!(text.contains("75 times as fast as the origin"), "{text}");
}

#[test]
fn a_disk_can_be_worth_it_for_small_objects_alone() {
    let rates = [(1, 40.0), (8, 320.0), (16, 600.0), (32, 900.0)];
    let cloud = origin("cloud", 40, &rates);
    let said = judge(&measured(vec![disk("/sata", 400.0, 0.8)], vec![cloud]));
    let (help, profile) = only(&said);
    assert_eq!((help, profile.disk), (DiskHelp::SmallOnly, DiskUse::Off));
    assert_eq!(said.settings.as_ref().expect("settings").disks.len(), 1);
    let text = said.to_string();
    assert!(text.contains("more might bring more"), "{text}");
    assert!(text.contains("helps small objects"), "{text}");
}

#[test]
fn a_disk_that_seeks_wants_larger_chunks() {
    let hdd = MeasuredDisk {
        chunk_read: mb(25.0),
        ..disk("/hdd", 180.0, 11.0)
    };
    let said = judge(&measured(
        vec![hdd],
        vec![origin("o", 30, &[(1, 30.0), (2, 31.0)])],
    ));
    let settings = said.settings.expect("settings");
    assert_eq!(settings.cache.chunk, ByteSize(MIB));
}

#[test]
fn one_poor_disk_of_two_does_not_decide_if_it_is_left_out() {
    let cloud = || origin("cloud", 20, &[(1, 300.0), (2, 320.0)]);
    let two = vec![disk("/nvme", 3000.0, 0.2), disk("/slow", 10.0, 26.0)];
    let said = judge(&measured(two, vec![cloud()]));
    let settings = said.settings.expect("settings");
    assert_eq!(settings.disks.len(), 1);
    assert_eq!(settings.profiles[0].disk, DiskUse::First);
}

#[test]
fn nothing_is_set_without_an_origin() {
    let said = judge(&measured(vec![disk("/nvme", 3000.0, 0.2)], vec![]));
    assert_eq!(said.settings, None);
    assert!(said.to_string().contains("--object"));
}

/// The window follows from the first byte, as long as a second of the best rate is less.
#[test]
fn a_late_first_byte_is_worth_large_parts() {
    let slow = origin("o", 20, &[(1, 10.0), (16, 20.0)]);
    let said = judge(&measured(vec![], vec![slow]));
    let settings = said.settings.expect("settings");
    // Twenty times 20 ms at 10 MB/s are 4 MB: sixteen parts of 4 MiB.
    assert_eq!(settings.profiles[0].read_ahead, ByteSize(64 * MIB));
}

/// A chunk takes the disk exactly half as long as the origin, which is not clearly sooner.
#[test]
fn a_disk_helps_small_objects_only_if_it_is_more_than_twice_as_soon() {
    let even = MeasuredOrigin {
        first_byte: Duration::from_micros(15_625),
        rates: vec![(1, Rate(f64::from(1 << 24)))],
        ..origin("o", 0, &[])
    };
    let help = |millis| super::help(&disk("/d", 10.0, millis), &even, ByteSize(256 << 10));
    assert_eq!(help(15.625), DiskHelp::Slower);
    assert_eq!(help(15.6), DiskHelp::SmallOnly);
}

#[test]
fn settings_are_sections_to_paste() {
    let origins = ["a\"b", "c"].map(|name| origin(name, 3, &[(1, 50.0), (2, 56.0)]));
    let said = judge(&measured(vec![disk("/cache", 80.0, 9.0)], origins.into()));
    let text = said.settings.expect("settings").to_string();
    let expected = "[cache]\nmemory = \"512MiB\"\nbudget = \"256MiB\"\nchunk = \"256KiB\"\n\n\
                    [[cache.disk]]\npath = \"/cache\"\ncapacity = \"100GiB\"\nmin_free = \"5GiB\"\n\n\
                    # For long reads; in a [[route]] to \"a\\\"b\": profile = \"measured-a\\\"b\"\n\
                    [profile.\"measured-a\\\"b\"]\nextends = \"stream\"\nread_ahead = \"64MiB\"\n\
                    streams = 2\ndisk = \"second\"\n\n\
                    # For long reads; in a [[route]] to \"c\": profile = \"measured-c\"\n\
                    [profile.\"measured-c\"]\nextends = \"stream\"\nread_ahead = \"64MiB\"\n\
                    streams = 2\ndisk = \"second\"\n";
    assert_eq!(text, expected);
}
