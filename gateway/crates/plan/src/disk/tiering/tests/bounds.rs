//! Each comparison at its bound, with rates of powers of two, so that all figures are exact.

use super::*;

const MIB: u64 = 1 << 20;
const MIB_RATE: f64 = MIB as f64;
const ALL: ChunkSource = ChunkSource::Origin { most: u64::MAX };

fn disk(takes: u64, rate: f64) -> DiskEstimate {
    let read = ReadEstimate {
        takes: Duration::from_millis(takes),
        ..ReadEstimate::default()
    };
    DiskEstimate { read, rate }
}

fn connection(first_byte: u64, rate: f64) -> ConnectionEstimate {
    ConnectionEstimate {
        first_byte: Duration::from_millis(first_byte),
        rate,
    }
}

/// Returns a chunk at this distance from a reader of 2 MiB/s. Its disk does 1 MiB/s.
fn outlook(distance: u64, takes: u64, origin: Option<ConnectionEstimate>) -> ChunkOutlook {
    ChunkOutlook {
        distance,
        speed: 2.0 * MIB_RATE,
        disk: Some(disk(takes, MIB_RATE)),
        origin,
    }
}

#[test]
fn a_connection_has_the_measured_figures_and_defaults_for_the_others() {
    let new = ConnectionEstimate::new;
    let second = Duration::from_secs(1);
    assert_eq!(new(None, None), connection(50, 10e6));
    assert_eq!(new(Some(second), Some(5.0)), connection(1000, 5.0));
    assert_eq!(new(Some(second), Some(0.0)), connection(1000, 10e6));
    let time = connection(250, MIB_RATE).time_for(MIB / 2);
    assert_eq!(time, Duration::from_millis(750));
}

#[test]
fn a_connection_brings_nothing_before_its_first_byte() {
    let bytes = |millis| connection(250, MIB_RATE).bytes_within(Duration::from_millis(millis));
    assert_eq!([200, 250, 750].map(bytes), [0, 0, MIB / 2]);
}

/// The disk has the first 256 KiB after half a second, at 2 MiB/s: it begins after 375 ms.
#[test]
fn a_connection_is_before_a_disk_until_the_disk_has_caught_up() {
    for (first_byte, rate, bytes) in [
        (125, 1.0, MIB / 2),
        (250, 1.5, 3 * MIB / 4),
        (375, 1.0, 0),
        (400, 1.0, 0),
        (400, 2.0, u64::MAX),
        (400, 4.0, u64::MAX),
    ] {
        let origin = connection(first_byte, rate * MIB_RATE);
        let found = origin.bytes_before(disk(500, 2.0 * MIB_RATE), CHUNK);
        assert!(found.abs_diff(bytes) <= 1, "{first_byte}, {rate}: {found}");
    }
}

#[test]
fn the_slack_is_the_distance_at_the_readers_rate_and_at_most_an_hour() {
    for (distance, speed, expected) in [
        (MIB, MIB_RATE / 2.0, 2),
        (100, 0.0, 100),
        (3599, 1.0, 3599),
        (3601, 1.0, 3600),
        (u64::MAX, 1.0, 3600),
    ] {
        let outlook = ChunkOutlook {
            speed,
            ..outlook(distance, 1, None)
        };
        assert_eq!(outlook.slack(), Duration::from_secs(expected));
    }
}

#[test]
fn a_disk_has_room_for_a_quarter_of_a_second_or_a_twentieth_before_the_rate_is_known() {
    let helped = 8.0 * MIB_RATE;
    for (takes, speed, is_idle, expected) in [
        (250, 2.0 * MIB_RATE, false, ChunkSource::Disk),
        (251, 2.0 * MIB_RATE, true, ChunkSource::Later),
        (50, 0.0, false, ChunkSource::Disk),
        (51, 0.0, false, ChunkSource::Later),
        (1, helped, false, ChunkSource::Disk),
        (1, helped + 1.0, false, ChunkSource::Later),
        (1, helped + 1.0, true, ChunkSource::Disk),
    ] {
        let mut outlook = outlook(0, takes, None);
        outlook.speed = speed;
        let disk = outlook.disk.as_mut().expect("a disk");
        disk.read.is_idle = is_idle;
        assert_eq!(
            outlook.choose(CHUNK),
            expected,
            "{takes}, {speed}, {is_idle}"
        );
    }
}

/// The reader is there in a quarter of a second, or a moment sooner.
#[test]
fn a_disk_is_in_time_if_it_is_not_later_than_the_reader_even_if_it_scatters() {
    let soon = Some(connection(1, 1024.0 * MIB_RATE));
    for (distance, takes, scatter, in_time) in [
        (MIB / 2, 250, 0, true),
        (MIB / 2 - 1, 250, 0, false),
        (MIB / 2, 200, 50, true),
        (MIB / 2, 200, 51, false),
    ] {
        let mut outlook = outlook(distance, takes, soon);
        let disk = outlook.disk.as_mut().expect("a disk");
        disk.read.scatter = Duration::from_millis(scatter);
        let chosen = outlook.choose(CHUNK);
        let expected = if in_time { ChunkSource::Disk } else { ALL };
        assert_eq!(chosen, expected, "{distance}, {takes}, {scatter}");
    }
}

/// The origin has the chunk of 256 KiB half a second after the first byte.
#[test]
fn the_origin_brings_what_comes_in_time_or_before_the_disk() {
    let most = |most| ChunkSource::Origin { most };
    for (distance, takes, first_byte, expected, reason) in [
        (0, 501, 0, most(263_192), "sooner than the disk"),
        (0, 500, 0, ChunkSource::Later, "no sooner than the disk"),
        (MIB, 500, 0, most(256 << 10), "just in time"),
        (MIB - 1, 500, 0, ChunkSource::Later, "too late"),
        (MIB - 1, 250, 0, ChunkSource::Disk, "the disk in time"),
        (0, 250, 0, ChunkSource::Disk, "the disk sooner"),
        (2 * MIB, 300, 0, most(512 << 10), "all within a second"),
        (2 * MIB, 300, 250, most(384 << 10), "within three quarters"),
        (0, 1250, 0, most(MIB), "a second before the disk"),
        (0, 1250, 500, most(MIB / 2), "half a second before it"),
    ] {
        let origin = connection(first_byte, MIB_RATE / 2.0);
        let chosen = outlook(distance, takes, Some(origin)).choose(CHUNK);
        assert_eq!(chosen, expected, "{reason}");
    }
}

/// Nine kilobytes come before the disk's.
#[test]
fn a_request_for_a_small_chunk_is_not_smaller_than_a_piece() {
    let origin = Some(connection(290, MIB_RATE / 2.0));
    let chosen = outlook(0, 300, origin).choose(1024);
    assert_eq!(chosen, ChunkSource::Origin { most: 256 << 10 });
}

#[test]
fn a_chunk_that_only_one_source_has_comes_from_there() {
    let origin = Some(connection(20, MIB_RATE));
    for (origin, expected) in [(origin, ALL), (None, ChunkSource::Later)] {
        let outlook = ChunkOutlook {
            disk: None,
            ..outlook(0, 0, origin)
        };
        assert_eq!(outlook.choose(CHUNK), expected);
    }
}

#[test]
fn an_awaited_chunk_comes_from_a_disk_that_is_prompt_or_at_most_twice_as_late() {
    let (near, far) = (connection(1, 1024.0 * MIB_RATE), connection(20, MIB_RATE));
    for (origin, last, span, reason) in [
        (near, 50, CHUNK, "prompt"),
        (far, 540, CHUNK, "a chunk in 270 ms"),
        (far, 540, 0, "no span is less than the chunk"),
        (
            far,
            790,
            2 * CHUNK,
            "two in 520 ms, and the second after 250",
        ),
    ] {
        let chosen = |takes| choose_awaited(disk(takes, MIB_RATE), origin, CHUNK, span);
        assert_eq!(chosen(last), ChunkSource::Disk, "{reason}");
        assert_eq!(chosen(last + 1), ALL, "{reason}");
    }
}

#[test]
fn a_reader_that_takes_all_at_once_comes_nearer_with_the_rate_of_its_sources() {
    let (reader, disk) = (Some(100.0), Some(1000.0));
    for (reader, at_once, disk, origin, expected) in [
        (reader, false, disk, disk, 125.0),
        (reader, true, None, disk, 125.0),
        (None, false, disk, disk, 0.0),
        (reader, true, disk, Some(250.0), 1250.0),
        (reader, true, disk, Some(249.0), 1000.0),
        (reader, true, disk, None, 1000.0),
        (Some(2000.0), true, disk, disk, 2500.0),
        (Some(2000.0), true, disk, None, 1000.0),
    ] {
        let rate = approach_rate(reader, at_once, disk, origin);
        assert!((rate - expected).abs() < 1e-9, "{rate} for {expected}");
    }
}
