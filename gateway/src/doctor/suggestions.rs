//! The settings of a diagnosis as single keys of a configuration, so that each can be saved by itself.
//!
//! Only keys that a value can be given are suggested. A disk that is not worth having stays in the report: no key takes
//! it away.

use std::collections::BTreeMap;

use tidegate_config::Config;
use tidegate_plan::diagnosis::{RecommendedProfile, RecommendedSettings};
use tidegate_plan::{ByteSize, Profile};

/// A key that should have another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The key: `cache.budget`.
    pub key: String,
    /// The value that the measurements speak for.
    pub value: String,
    /// The value in force.
    pub present: String,
    /// The reason, in a sentence.
    pub why: String,
}

/// Returns the keys whose values differ from the recommended ones. A profile is judged if a route to the origin has it
/// and it is for long reads: if it reads farther ahead than `web` does.
pub fn suggestions(config: &Config, recommended: &RecommendedSettings) -> Vec<Suggestion> {
    let mut found = Vec::new();
    let mut add = |key: String, (present, value): (String, String), why: &str| {
        if present != value {
            let why = why.to_owned();
            found.push(Suggestion {
                key,
                value,
                present,
                why,
            });
        }
    };
    let (now, then) = (&config.cache, &recommended.cache);
    add(
        "cache.budget".to_owned(),
        (now.budget.to_string(), then.budget.to_string()),
        "Two readers at full width fit into it.",
    );
    add(
        "cache.chunk".to_owned(),
        (now.chunk.to_string(), then.chunk.to_string()),
        "A disk seeks slowly, so larger chunks are read faster.",
    );
    for (name, (profile, wanted)) in long_profiles(config, recommended) {
        let key = |last: &str| format!("profile.{name}.{last}");
        let ahead = ByteSize(profile.read_ahead).to_string();
        add(
            key("read_ahead"),
            (ahead, wanted.read_ahead.to_string()),
            "So far ahead a reader does not notice a pause of the bucket.",
        );
        add(
            key("streams"),
            (profile.streams.to_string(), wanted.streams.to_string()),
            "So many requests at once bring nearly the best rate.",
        );
        add(
            key("disk"),
            (
                profile.disk.name().to_owned(),
                wanted.disk.name().to_owned(),
            ),
            "This is what the disks have time for beside reads.",
        );
    }
    found
}

/// Returns the profiles for long reads that routes have, with the recommendation for their origin; of several origins
/// that of the widest window.
fn long_profiles<'r>(
    config: &Config,
    recommended: &'r RecommendedSettings,
) -> BTreeMap<String, (Profile, &'r RecommendedProfile)> {
    let mut found: BTreeMap<String, (Profile, &RecommendedProfile)> = BTreeMap::new();
    for route in config.routes() {
        let of_origin = |one: &&RecommendedProfile| one.origin == route.origin;
        let wanted = recommended.profiles.iter().find(of_origin);
        let (Some(wanted), Some(profile)) = (wanted, config.profile(&route.profile)) else {
            continue;
        };
        let is_wider =
            |(_, other): &(Profile, &RecommendedProfile)| wanted.read_ahead > other.read_ahead;
        let is_long = profile.read_ahead > Profile::web().read_ahead;
        if is_long && found.get(&route.profile).is_none_or(is_wider) {
            found.insert(route.profile, (profile, wanted));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use tidegate_config::{Environment, parse};
    use tidegate_plan::diagnosis::CacheSizes;
    use tidegate_plan::profile::DiskUse;

    use super::*;

    const CONFIG: &str = r#"
[cache]
budget = "256MiB"
[[origin]]
name = "media"
bucket = "media"
[[origin]]
name = "far"
bucket = "far"
[[route]]
origin = "media"
path = "/"
[[route]]
origin = "media"
path = "/films/"
profile = "stream"
[[route]]
origin = "far"
path = "/far/"
profile = "stream"
"#;

    fn profile(origin: &str, read_ahead: u64) -> RecommendedProfile {
        RecommendedProfile {
            name: format!("measured-{origin}"),
            origin: origin.to_owned(),
            read_ahead: ByteSize(read_ahead << 20),
            streams: 8,
            disk: DiskUse::Second,
        }
    }

    fn suggested(profiles: Vec<RecommendedProfile>) -> Vec<(String, String, String)> {
        let config = parse("t.toml", CONFIG, &Environment::default());
        let config = config.expect("it is right").config;
        let recommended = RecommendedSettings {
            cache: CacheSizes {
                memory: config.cache.memory,
                budget: ByteSize(512 << 20),
                chunk: config.cache.chunk,
            },
            disks: Vec::new(),
            profiles,
        };
        let all = suggestions(&config, &recommended).into_iter();
        all.map(|one| (one.key, one.present, one.value)).collect()
    }

    fn texts(key: &str, present: &str, value: &str) -> (String, String, String) {
        (key.to_owned(), present.to_owned(), value.to_owned())
    }

    #[test]
    fn keys_that_differ_are_suggested_and_no_others() {
        let stream = Profile::stream();
        let all = suggested(vec![profile("media", 32), profile("far", 64)]);
        let streams = stream.streams.to_string();
        let mut expected = vec![
            texts("cache.budget", "256MiB", "512MiB"),
            texts("profile.stream.read_ahead", "128MiB", "64MiB"),
        ];
        if streams != "8" {
            expected.push(texts("profile.stream.streams", &streams, "8"));
        }
        if stream.disk.name() != "second" {
            expected.push(texts("profile.stream.disk", stream.disk.name(), "second"));
        }
        assert_eq!(all, expected, "the wider of two, and `web` is left alone");
        let budget = [texts("cache.budget", "256MiB", "512MiB")];
        assert_eq!(suggested(Vec::new()), budget);
    }
}
