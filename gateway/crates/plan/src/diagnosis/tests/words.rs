//! The diagnosis word by word.

use super::*;

/// Returns what is said of an origin of 100 MB/s behind this disk: of the disk, and of its writes.
fn said_of(disk: MeasuredDisk) -> String {
    let origin = origin("o", 20, &[(1, 100.0)]);
    let text = judge(&measured(vec![disk], vec![origin])).to_string();
    let (_, of_disk) = text.split_once("\n- The disk ").expect("a disk");
    of_disk.to_owned()
}

#[test]
fn a_machine_without_disks_is_described_in_five_lines() {
    let minio = origin("minio", 3, &[(1, 50.0), (2, 56.0), (4, 55.0)]);
    let expected = "The bottleneck is the origin \"minio\", with 56 MB/s.\n\n\
                    Origin \"minio\":\n\
                    - The first byte of an answer takes 3.0 ms.\n\
                    - One connection brings 50 MB/s; it takes 2 to have 56 MB/s, and more bring no more.\n\
                    - Cold reads run at what the origin delivers, 56 MB/s; no disk changes that, for no \
                    reader waits until something is written.\n\
                    - Warm reads come from memory, as far as that reaches; there is no disk.\n";
    assert_eq!(judge(&measured(vec![], vec![minio])).to_string(), expected);
}

#[test]
fn the_bottleneck_is_named_with_its_kind() {
    for (stage, expected) in [
        (Stage::Memory, "the memory"),
        (Stage::Disk("/a\"b".into()), r#"the disk "/a\"b""#),
        (Stage::Origin("c".into()), r#"the origin "c""#),
        (
            Stage::Network("c".into()),
            r#"the network to the origin "c""#,
        ),
        (Stage::Client, "the client"),
    ] {
        assert_eq!(stage.to_string(), expected);
    }
}

#[test]
fn connections_are_worth_a_word_if_they_bring_a_tenth_more() {
    let none = "One connection brings 90 MB/s; more bring no more.";
    let limited =
        "and more might bring more: each connection is limited, and the origin is not yet.";
    let three = "it takes 3 to have 100 MB/s, and more bring no more.";
    for (rates, expected) in [
        (&[(1, 90.0)][..], none),
        (&[(1, 90.0), (3, 100.0)], none),
        (&[(1, 90.0), (3, 45.0), (4, 80.0)], none),
        (&[(1, 89.9), (3, 100.0)], limited),
        (&[(1, 50.0), (3, 90.0), (4, 100.0)], three),
        (&[(1, 50.0), (3, 100.0), (4, 85.0)], three),
    ] {
        let said = judge(&measured(vec![], vec![origin("o", 1, rates)]));
        let text = said.to_string();
        let mut lines = text.lines().filter(|line| line.contains("One connection"));
        let line = lines.next().expect("a line of the connections");
        assert!(line.ends_with(expected), "{rates:?}: {line}");
    }
}

#[test]
fn each_disk_is_described_by_what_it_is_to_warm_reads() {
    for (rate, millis, expected) in [
        (
            1000.0,
            1.0,
            "helps warm reads: it reads 1.0 GB/s, 10 times as fast as the origin.\n",
        ),
        (
            994.0,
            1.0,
            "helps warm reads: it reads 994 MB/s, 9.9 times as fast as the origin.\n",
        ),
        (
            50.0,
            1.0,
            "makes long warm reads slower: it reads 50 MB/s, 2.0 times slower than the origin. A single \
             chunk it has sooner, so it helps small objects and jumps: keep it, with a profile of disk = \
             \"off\" for long objects.\n",
        ),
        (
            8.0,
            30.0,
            "makes warm reads slower: it reads 8.0 MB/s, 12 times slower than the origin. Leave it out, \
             and give the cache more memory instead.\n",
        ),
    ] {
        let expected = format!("\"/d\" {expected}");
        assert_eq!(said_of(disk("/d", rate, millis)), expected);
    }
}

#[test]
fn a_disk_that_writes_less_than_twice_as_fast_as_the_origin_gets_a_line_for_it() {
    let asked_twice = "Let it take what is asked for twice (disk = \"second\").\n";
    let keeps_up =
        "it keeps up with cold reads, with little time left to be read from. ".to_owned();
    let in_part = "and so takes only a part of what streams past in cold reads. ".to_owned();
    for (write, expected) in [
        (200.0, String::new()),
        (
            199.0,
            format!("  It writes 199 MB/s: {keeps_up}{asked_twice}"),
        ),
        (
            100.0,
            format!("  It writes 100 MB/s: {keeps_up}{asked_twice}"),
        ),
        (99.0, format!("  It writes 99 MB/s, {in_part}{asked_twice}")),
    ] {
        let disk = MeasuredDisk {
            write: mb(write),
            ..disk("/d", 100.0, 1.0)
        };
        let spares = "\"/d\" makes warm reads no faster: it reads 100 MB/s, about as fast as the origin. It \
                      spares the origin those requests.\n";
        assert_eq!(said_of(disk), format!("{spares}{expected}"));
    }
}

#[test]
fn a_rate_has_as_many_digits_as_are_meaningful() {
    for (rate, expected) in [
        (0.0, "0.0 MB/s"),
        (9_940_000.0, "9.9 MB/s"),
        (9_950_000.0, "10 MB/s"),
        (994_000_000.0, "994 MB/s"),
        (995_000_000.0, "1.0 GB/s"),
        (12_340_000_000.0, "12.3 GB/s"),
    ] {
        assert_eq!(Rate(rate).to_string(), expected);
    }
}

#[test]
fn any_text_is_one_line_of_toml() {
    for (path, expected) in [
        ("/plain å", "\"/plain å\""),
        ("a\"b\\c", r#""a\"b\\c""#),
        ("a\nb\u{7f}", r#""a\u000Ab\u007F""#),
    ] {
        let settings = RecommendedSettings {
            cache: measured(vec![], vec![]).cache,
            disks: vec![disk(path, 1.0, 1.0)],
            profiles: vec![],
        };
        let text = settings.to_string();
        let line = text.lines().find_map(|line| line.strip_prefix("path = "));
        assert_eq!(line, Some(expected));
    }
}
