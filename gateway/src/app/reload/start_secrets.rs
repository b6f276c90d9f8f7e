//! The secrets that are read at the start alone, and which of them have other values by now.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use tidegate_config::{Config, Environment, is_live};

/// Hashes of the secrets that the gateway was started with and that no reload applies, by their keys.
#[derive(Debug)]
pub(super) struct StartSecrets {
    hashes: BTreeMap<String, u64>,
    /// Of this process alone, so that a hash tells nothing about its secret.
    hasher: RandomState,
}

impl StartSecrets {
    /// Reads the secrets of the configuration that the gateway starts with.
    pub(super) fn new(config: &Config, env: &Environment) -> Self {
        let hasher = RandomState::new();
        Self {
            hashes: hashes(config, env, &hasher),
            hasher,
        }
    }

    /// Returns the keys of those whose values have changed. One that cannot be read now has not.
    pub(super) fn changed(&self, config: &Config, env: &Environment) -> Vec<String> {
        let now = hashes(config, env, &self.hasher).into_iter();
        let is_other = |(key, hash): &(String, u64)| {
            let before = self.hashes.get(key);
            before.is_some_and(|before| before != hash)
        };
        now.filter(is_other).map(|(key, _)| key).collect()
    }
}

fn hashes(config: &Config, env: &Environment, hasher: &RandomState) -> BTreeMap<String, u64> {
    let all = config.secrets().into_iter();
    let hash = |one: tidegate_config::NamedSecret<'_>| {
        let key = one.path.to_string();
        let is_fixed = !is_live(&key);
        let value = is_fixed.then(|| one.secret.resolve(env).ok()).flatten()?;
        Some((key, hasher.hash_one(value)))
    };
    all.filter_map(hash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_start_are_named_if_their_values_have_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(file(name), text).expect("written");
        let secret = |name: &str| Some(tidegate_config::Secret::File(file(name)));
        let mut config = Config::default();
        config.fleet.nats = vec!["nats://n.example".to_owned()];
        config.fleet.token = secret("fleet");
        config.trace.endpoint = Some("http://t.example/".to_owned());
        config.trace.headers = [("a".to_owned(), secret("trace").expect("one"))].into();
        config.admin.token = secret("admin");
        let all = ["fleet", "trace", "admin"];
        all.iter().for_each(|name| write(name, "old"));
        let env = Environment::default();
        let start = StartSecrets::new(&config, &env);
        let changed = || start.changed(&config, &env);
        assert_eq!(changed(), [""; 0]);
        all.iter().for_each(|name| write(name, "new"));
        assert_eq!(changed(), ["fleet.token", "trace.headers.a"]);
        write("fleet", "old");
        std::fs::remove_file(file("trace")).expect("it was there");
        assert_eq!(changed(), [""; 0]);
        assert!(!format!("{start:?}").contains("old"));
    }
}
