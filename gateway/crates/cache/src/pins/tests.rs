//! Tests of `pins`.

use super::*;
use tidegate_plan::ObjectKey;

const ORIGIN: OriginId = OriginId(7);

fn id(key: &str) -> ObjectId {
    ObjectId {
        origin: ORIGIN,
        key: ObjectKey::new(key).expect("a key"),
    }
}

fn store_rows(rows: Vec<PinRow>, store: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    for (key, value) in rows {
        match value {
            Some(value) => store.insert(key, value),
            None => store.remove(&key),
        };
    }
}

#[test]
fn the_longest_prefix_of_the_same_bucket_counts() {
    let pins = Pins::default();
    assert!(pins.covering(&id("films/a")).is_none());
    for prefix in ["films/", "films/new/", "books/"] {
        pins.set(ORIGIN, prefix, 100).expect("room");
    }
    pins.set(OriginId(8), "", 100).expect("room");
    let of = |key: &str| pins.covering(&id(key));
    assert_eq!(of("films/a"), PinId(1));
    assert_eq!(of("films/new/a"), PinId(2));
    assert!(of("film").is_none() && of("notes").is_none());
    pins.remove(ORIGIN, "films/new/").expect("it is there");
    assert_eq!(of("films/new/a"), PinId(1));
    assert_eq!(pins.remove(ORIGIN, "film"), Err(PinError::NoSuch));
}

#[test]
fn the_limit_is_hard_and_can_be_moved() {
    let pins = Pins::default();
    pins.set(ORIGIN, "", 100).expect("room");
    let pin = pins.covering(&id("a"));
    assert!(pins.reserve(pin, 60) && !pins.reserve(pin, 60) && pins.reserve(pin, 40));
    pins.set(ORIGIN, "", 50).expect("the same one");
    assert!(
        pins.exists(pin) && !pins.is_within_limit(pin),
        "it keeps too much now"
    );
    pins.release(pin, 60);
    assert!(pins.is_within_limit(pin));
    assert_eq!(pins.list()[0].used, 40);
    pins.remove(ORIGIN, "").expect("it is there");
    assert!(!pins.exists(pin) && !pins.reserve(pin, 1));
}

#[test]
fn no_number_is_given_twice_also_over_a_restart() {
    let pins = Pins::default();
    let mut store = BTreeMap::new();
    store_rows(pins.set(ORIGIN, "a", 1).expect("room"), &mut store);
    store_rows(pins.set(ORIGIN, "b", 2).expect("room"), &mut store);
    store_rows(pins.remove(ORIGIN, "b").expect("there"), &mut store);
    let rows: Vec<_> = store.clone().into_iter().collect();
    let pins = Pins::restore(&rows, 700);
    assert_eq!(pins.covering(&id("ab")), PinId(1));
    store_rows(pins.set(ORIGIN, "c", 3).expect("room"), &mut store);
    assert_eq!(pins.covering(&id("c")), PinId(3));
    store_rows(pins.renew(|_, prefix| prefix.starts_with('a')), &mut store);
    assert_eq!(pins.covering(&id("ab")), PinId(4));
    let all: BTreeMap<_, _> = pins.rows().into_iter().collect();
    let expected = store
        .iter()
        .map(|(key, row)| (key.clone(), Some(row.clone())));
    assert_eq!(all, expected.collect());
    let again = Pins::restore(&store.into_iter().collect::<Vec<_>>(), 700);
    assert_eq!(again.list(), pins.list());
    assert_eq!(Pins::restore(&[(vec![1], vec![2])], 700).list(), []);
}

#[test]
fn a_store_without_a_last_number_begins_where_it_is_told() {
    for (last, first) in [(700, 701), (u16::MAX, 1)] {
        let pins = Pins::starting_after(last);
        assert_eq!(pins.list(), []);
        pins.set(ORIGIN, "a", 1).expect("room");
        assert_eq!(pins.covering(&id("ab")), PinId(first));
    }
}

#[test]
fn there_are_not_too_many() {
    let pins = Pins::default();
    for n in 0..MAX_PINS {
        pins.set(ORIGIN, &n.to_string(), 1).expect("room");
    }
    assert_eq!(pins.set(ORIGIN, "more", 1), Err(PinError::TooMany));
    pins.set(ORIGIN, "7", 2).expect("one that is there");
}
