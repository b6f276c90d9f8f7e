//! The share of the buckets' rates that was taken.

use proptest::prelude::*;

use super::*;

fn share(taken: f64, measured: f64) -> Option<f64> {
    Efficiency::new(mb(taken), mb(measured)).map(Efficiency::share)
}

/// The published case: 30.76 MB/s by a gateway before a bucket that gives 56.
#[test]
fn the_share_is_that_of_the_bucket() {
    let share_of = |taken| share(taken, 56.0).expect("bytes were sent");
    assert!((share_of(30.76) - 0.549).abs() < 0.001);
    assert_eq!(share_of(56.0), 1.0);
    // Measured beside readers: they left it 56 of 69.
    assert_eq!(share_of(69.0), 1.0);
    let seen = Efficiency::new(mb(69.0), mb(56.0)).expect("bytes were sent");
    assert_eq!(seen.possible, mb(69.0));
    assert_eq!(share(0.0, 56.0), None);
}

#[test]
fn the_rate_of_all_buckets_needs_that_of_each() {
    let measured = [
        origin("a", 3, &[(1, 50.0), (2, 56.0), (4, 55.0)]),
        origin("b", 3, &[(1, 100.0)]),
        origin("dead", 3, &[(1, 0.0)]),
    ];
    let together = |origins: &[_]| buckets(origins.iter().copied(), &measured);
    let (near, far) = (Some("http://near"), Some("http://far"));
    assert_eq!(together(&[("a", near)]), Some(mb(56.0)));
    assert_eq!(together(&[("a", near), ("b", far)]), Some(mb(156.0)));
    for same in [None, near] {
        let two = [("b", same), ("a", same)];
        assert_eq!(together(&two), Some(mb(100.0)), "one way to both");
    }
    for missing in ["c", "dead"] {
        assert_eq!(together(&[("a", near), (missing, near)]), None);
        assert_eq!(together(&[(missing, far), ("a", near)]), None);
    }
    assert_eq!(together(&[]), None);
}

proptest! {
    #[test]
    fn a_share_is_never_above_one(taken in 0.0..1e12f64, measured in 0.0..1e12f64) {
        if let Some(share) = share(taken, measured) {
            prop_assert!(share > 0.0 && share <= 1.0, "{share}");
        }
    }
}
