//! The settings that a diagnosis prints load as a configuration for any measurements.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_config::{Environment, parse};
use tidegate_plan::ByteSize;
use tidegate_plan::diagnosis::{
    CacheSizes, MeasuredDisk, MeasuredOrigin, Measurements, Rate, judge,
};

#[path = "../../../plan/src/diagnosis/tests/machines.rs"]
mod machines;

use machines::{disk, measured, origin};

#[test]
fn a_path_and_a_name_may_hold_anything() {
    let odd = "/a \"b\"\\\u{1b}[2J\n#é";
    let rates = [(1, 20.0), (2, 21.0)];
    let origins = vec![origin("a.b", 5, &rates), origin("c", 5, &rates)];
    let said = judge(&measured(vec![disk(odd, 900.0, 0.2)], origins));
    let text = said.settings.as_ref().expect("settings").to_string();
    let loaded = parse("t.toml", &text, &Environment::default()).expect("it is right");
    assert_eq!(loaded.config.cache.disk[0].path.to_str(), Some(odd));
    assert!(loaded.config.profile.contains_key("measured-a.b"));
    assert!(!said.to_string().contains('\u{1b}'));
}

proptest! {
    /// For any measurements, the printed settings can be pasted and have the intended values.
    #[test]
    fn what_is_to_be_set_loads(
        disks in prop::collection::vec((0.0f64..1e10, 0.0f64..1e10, 0u64..1_000_000), 0..3),
        rates in prop::collection::vec(prop::collection::vec(0.0f64..1e10, 1..6), 1..3),
        first_byte in 0u64..10_000_000,
    ) {
        let disks = disks.iter().enumerate().map(|(nth, (read, write, micros))| MeasuredDisk {
            read: Rate(*read),
            write: Rate(*write),
            chunk_time: Duration::from_micros(*micros),
            ..disk(&format!("/d{nth}"), 100.0, 1.0)
        });
        let origins = rates.iter().enumerate().map(|(nth, rates)| MeasuredOrigin {
            name: format!("o{nth}"),
            first_byte: Duration::from_micros(first_byte),
            rates: rates.iter().enumerate().map(|(n, rate)| (1 << n, Rate(*rate))).collect(),
        });
        let said = judge(&measured(disks.collect(), origins.collect()));
        let settings = said.settings.as_ref().expect("origins were measured");
        let loaded = parse("t.toml", &settings.to_string(), &Environment::default());
        let loaded = loaded.expect("it is right");
        prop_assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        prop_assert_eq!(loaded.config.cache.disk.len(), settings.disks.len());
        for one in &settings.profiles {
            let profile = loaded.config.profile(&one.name).expect("it is there");
            prop_assert_eq!(
                (profile.read_ahead, profile.streams, profile.disk),
                (one.read_ahead.0, one.streams, one.disk)
            );
        }
    }
}
