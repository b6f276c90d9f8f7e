use super::*;
use prometheus_client::registry::Registry;

#[test]
fn adds_up_over_threads() {
    let (counter, gauge) = (Counter::default(), Gauge::default());
    std::thread::scope(|scope| {
        for _ in 0..2 * PARTS {
            scope.spawn(|| {
                counter.inc_by(3);
                gauge.inc();
                gauge.dec_by(2);
            });
        }
    });
    assert_eq!((counter.get(), gauge.get()), (96, -32));
    gauge.set(5);
    assert_eq!(gauge.get(), 5);
}

#[test]
fn a_thread_has_its_own_value() {
    let values = ThreadShards::<AtomicUsize>::default();
    let place = || std::ptr::from_ref(values.own()).addr();
    let mut places: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); 2 * PARTS].map(|()| scope.spawn(|| (place(), place())));
        threads.map(|thread| thread.join().expect("it runs")).into()
    });
    assert!(places.iter().all(|(first, again)| first == again));
    places.sort_unstable();
    places.dedup();
    assert!((2..=PARTS).contains(&places.len()), "{}", places.len());
}

#[test]
fn a_duration_is_counted_below_the_bound_that_it_does_not_exceed() {
    let durations = Durations::new(Duration::from_micros(50));
    for nanos in [0, 50_000, 50_001, 100_000, 100_001, u64::MAX] {
        durations.observe(Duration::from_nanos(nanos));
    }
    let buckets = durations.buckets();
    assert_eq!(&buckets[..3], [(50e-6, 2), (100e-6, 2), (200e-6, 1)]);
    assert_eq!(buckets[BUCKETS], (f64::MAX, 1));
    let mut registry = Registry::default();
    registry.register("wait", "Waits", durations);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    for line in [
        "wait_count 6",
        "wait_bucket{le=\"0.0001\"} 4",
        "wait_bucket{le=\"+Inf\"} 6",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
