use proptest::prelude::*;

use super::*;

const CHUNK: u64 = 256 << 10;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn nothing_measured_is_nothing_known() {
    let meter = DiskMeter::default();
    assert_eq!(meter.rate(), None);
    assert_eq!(meter.estimate(0, CHUNK), None);
}

/// Models a disk of 80 MB/s: sixteen reads at once take sixteen times as long as one.
#[test]
fn the_rate_is_that_of_the_disk_at_any_depth() {
    for depth in [1, 4, 16] {
        let mut meter = DiskMeter::default();
        let took = Duration::from_secs_f64((depth * CHUNK) as f64 / 80e6);
        for _ in 0..50 {
            meter.record_read(CHUNK, depth * CHUNK, took);
        }
        let rate = meter.rate().expect("measured");
        assert!((79e6..81e6).contains(&rate), "{depth}: {rate}");
    }
}

#[test]
fn an_estimate_grows_with_what_is_under_way_and_not_below_the_latency() {
    let mut meter = DiskMeter::default();
    meter.record_read(CHUNK, CHUNK, millis(10));
    let estimate = |under_way, len| {
        let estimate = meter.estimate(under_way, len).expect("measured");
        estimate.as_secs_f64() * 1e3
    };
    assert!((estimate(0, 1) - 10.0).abs() < 0.01);
    assert!((estimate(0, CHUNK) - 10.0).abs() < 0.01);
    assert!((estimate(3 * CHUNK, CHUNK) - 40.0).abs() < 0.01);
}

#[test]
fn reads_in_company_raise_the_rate_and_leave_the_latency() {
    let mut meter = DiskMeter::default();
    meter.record_read(CHUNK, CHUNK, millis(4));
    for _ in 0..200 {
        meter.record_read(CHUNK, 8 * CHUNK, millis(8));
    }
    let eight = meter.estimate(7 * CHUNK, CHUNK).expect("measured");
    assert!((millis(8)..millis(9)).contains(&eight), "{eight:?}");
    assert_eq!(meter.estimate(0, CHUNK), Some(millis(4)));
}

#[test]
fn fits_and_starts_are_remembered_for_a_while_and_a_hang_is_not_believed() {
    let mut meter = DiskMeter::default();
    let steady = |meter: &mut DiskMeter, reads| {
        for _ in 0..reads {
            meter.record_read(CHUNK, CHUNK, millis(4));
        }
    };
    steady(&mut meter, 20);
    assert!(meter.scatter() < millis(1), "{:?}", meter.scatter());
    meter.record_read(CHUNK, CHUNK, millis(104));
    assert!((millis(95)..millis(105)).contains(&meter.scatter()));
    steady(&mut meter, 30);
    assert!((millis(40)..millis(60)).contains(&meter.scatter()));
    meter.record_read(CHUNK, CHUNK, millis(30_000));
    assert_eq!(meter.scatter(), millis(400));
    assert_eq!(meter.after_idle(SCATTER_HALF_LIFE).scatter(), millis(200));
}

#[test]
fn a_read_that_takes_as_long_as_its_queue_does_not_scatter() {
    let mut meter = DiskMeter::default();
    meter.record_read(CHUNK, CHUNK, millis(10));
    meter.record_read(CHUNK, 4 * CHUNK, millis(40));
    assert!(meter.scatter() < Duration::from_micros(1));
}

#[test]
fn what_was_measured_can_be_written_down() {
    let mut meter = DiskMeter::default();
    assert_eq!(meter.to_line(), None);
    meter.record_read(CHUNK, CHUNK, millis(10));
    meter.record_read(CHUNK, 4 * CHUNK, millis(90));
    let line = meter.to_line().expect("measured");
    assert_eq!(DiskMeter::parse_line(&line), Some(meter));
    for bad in [
        "",
        "1 2",
        "a b c",
        "1e-9 0.1 0 0",
        "NaN 0.1 0",
        "1e-9 -1 0",
        "1e-9 inf 0",
    ] {
        assert_eq!(DiskMeter::parse_line(bad), None, "{bad}");
    }
}

#[test]
fn a_disk_that_begins_to_lag_is_noticed_within_twenty_reads() {
    let mut meter = DiskMeter::default();
    for _ in 0..100 {
        meter.record_read(CHUNK, 8 * CHUNK, millis(2));
    }
    for _ in 0..20 {
        meter.record_read(CHUNK, 8 * CHUNK, millis(200));
    }
    let now = meter.estimate(7 * CHUNK, CHUNK).expect("measured");
    assert!(now > millis(20), "{now:?}");
}

#[test]
fn what_the_file_cache_answers_does_not_hide_a_slow_disk() {
    let mut meter = DiskMeter::default();
    for round in 0..100 {
        let took = if round % 2 == 0 {
            millis(200)
        } else {
            Duration::from_micros(50)
        };
        meter.record_read(CHUNK, 8 * CHUNK, took);
    }
    let rate = meter.rate().expect("measured");
    assert!(
        (10e6..30e6).contains(&rate),
        "half of it at 10 MB/s: {rate}"
    );
}

/// A first read alone takes 10 ms. The second's share of the disk's time is `sample` for a chunk.
#[test]
fn a_sample_weighs_an_eighth_if_slower_less_if_alone_and_a_thirty_second_if_faster() {
    for (depth, sample, pace, latency) in [
        (1u32, 74.0, 11.0, 18.0),
        (2, 18.0, 11.0, 10.0),
        (1, 10.0, 10.0, 10.0),
        (1, 6.8, 9.9, 9.6),
        (2, 6.8, 9.9, 10.0),
        (4, 1.7, 9.740_625, 9.6),
    ] {
        let mut meter = DiskMeter::default();
        meter.record_read(CHUNK, CHUNK, millis(10));
        let took = f64::from(depth) * sample / 1e3;
        let under_way = u64::from(depth) * CHUNK;
        meter.record_read(CHUNK, under_way, Duration::from_secs_f64(took));
        let found = [meter.pace, meter.latency].map(|figure| figure.expect("measured") * 1e3);
        let found = [found[0] * CHUNK as f64, found[1]];
        for (found, expected) in found.into_iter().zip([pace, latency]) {
            assert!(
                (found - expected).abs() < 1e-9,
                "{depth}, {sample}: {found:?}"
            );
        }
    }
}

#[test]
fn a_read_counts_at_least_its_own_bytes_and_takes_a_microsecond() {
    for (len, under_way, took, rate) in [
        (1000, 0, millis(1), 1e6),
        (1000, 4000, millis(1), 4e6),
        (0, 0, millis(1), 1e3),
        (1000, 1000, Duration::ZERO, 1e9),
    ] {
        let mut meter = DiskMeter::default();
        meter.record_read(len, under_way, took);
        let found = meter.rate().expect("measured");
        assert!((found / rate - 1.0).abs() < 1e-9, "{found} for {rate}");
    }
}

#[test]
fn scatter_is_the_worst_excess_and_fades_by_a_fiftieth_with_each_read() {
    let mut meter = DiskMeter::default();
    meter.record_read(CHUNK, CHUNK, millis(10));
    assert_eq!(meter.scatter(), Duration::ZERO, "nothing was expected");
    meter.record_read(CHUNK, CHUNK, millis(110));
    assert_eq!(meter.scatter(), millis(100));
    // It was expected to take 22.5 ms.
    meter.record_read(CHUNK, CHUNK, Duration::from_micros(22_500));
    assert_eq!(meter.scatter(), millis(98));
    assert_eq!(meter.after_idle(Duration::ZERO).scatter(), millis(98));
    assert_eq!(
        meter.after_idle(2 * SCATTER_HALF_LIFE).scatter(),
        Duration::from_micros(24_500)
    );
}

#[test]
fn no_estimate_is_longer_than_an_hour() {
    let mut meter = DiskMeter::default();
    meter.record_read(1, 1, Duration::from_secs(1));
    for (under_way, expected) in [(3598, 3599), (3599, 3600), (3600, 3600), (u64::MAX, 3600)] {
        assert_eq!(
            meter.estimate(under_way, 1),
            Some(Duration::from_secs(expected))
        );
    }
}

#[test]
fn a_line_holds_figures_that_a_disk_can_have() {
    for (line, sound) in [
        ("1e-12 1e-6 0", true),
        ("1 3600 0.4", true),
        ("9e-13 0.1 0", false),
        ("1.01 0.1 0", false),
        ("1e-9 9e-7 0", false),
        ("1e-9 3601 0", false),
        ("1e-9 0.1 -0.01", false),
        ("1e-9 0.1 0.41", false),
    ] {
        assert_eq!(DiskMeter::parse_line(line).is_some(), sound, "{line}");
    }
}

proptest! {
    #[test]
    fn figures_stay_within_what_was_seen(
        reads in proptest::collection::vec((1u64..1 << 24, 0u64..1 << 30, 0u64..60_000_000), 1..100)
    ) {
        let mut meter = DiskMeter::default();
        let (mut least, mut most) = (f64::MAX, 0f64);
        for (len, others, micros) in reads {
            let took = Duration::from_micros(micros);
            meter.record_read(len, len + others, took);
            let sample = (len + others) as f64 / took.as_secs_f64().max(1e-6);
            (least, most) = (least.min(sample), most.max(sample));
        }
        let rate = meter.rate().expect("measured");
        prop_assert!(rate >= least * 0.999 && rate <= most * 1.001);
        prop_assert!(meter.estimate(u64::MAX, 1).expect("measured") <= Duration::from_secs(3600));
    }
}
