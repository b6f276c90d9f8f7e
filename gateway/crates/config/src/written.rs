//! The keys that a configuration writes, to tell which of them another one changes.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use toml::de::{DeTable, DeValue};

use super::document::Document;
use super::problem::KeyPath;

pub(super) mod live;

/// The keys that the file and the environment write, each with a hash of its value: values may be secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenKeys(BTreeMap<String, u64>);

impl WrittenKeys {
    /// Returns the keys of a document.
    pub(super) fn of(document: &Document<'_>) -> Self {
        let mut keys = Self::default();
        keys.add_table(&KeyPath::default(), document.tree().get_ref());
        keys
    }

    /// Returns the keys that `new` writes otherwise, adds or leaves out, in order: `route[1].path`.
    pub fn changed<'a>(&'a self, new: &'a Self) -> impl Iterator<Item = &'a str> {
        let both = self.0.keys().chain(new.0.keys());
        let all: std::collections::BTreeSet<_> = both.collect();
        let all = all.into_iter();
        all.filter(|key| self.0.get(*key) != new.0.get(*key))
            .map(String::as_str)
    }

    /// Returns these keys with the values of `new` for those that `is_live` tells.
    #[must_use]
    pub fn with_live(&self, new: &Self, is_live: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(key, _)| !is_live(key));
        let taken = new.0.iter().filter(|(key, _)| is_live(key));
        let all = kept.chain(taken).map(|(key, hash)| (key.clone(), *hash));
        Self(all.collect())
    }

    fn add_table(&mut self, path: &KeyPath, table: &DeTable<'_>) {
        for (key, value) in table {
            self.add(&path.key(key.get_ref()), value.get_ref());
        }
    }

    fn add(&mut self, path: &KeyPath, value: &DeValue<'_>) {
        match value {
            DeValue::Table(table) => self.add_table(path, table),
            DeValue::Array(list) => {
                for (index, one) in list.iter().enumerate() {
                    self.add(&path.index(index), one.get_ref());
                }
            }
            value => {
                let mut hash = DefaultHasher::new();
                format!("{value:?}").hash(&mut hash);
                self.0.insert(path.to_string(), hash.finish());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Environment, parse};

    #[test]
    fn what_another_configuration_changes_is_named() {
        let text = "[[origin]]\nname = \"o\"\nbucket = \"b\"\n[[route]]\npath = \"/a/\"\n\
                    origin = \"o\"\n[cache]\nmemory = \"64MiB\"\n";
        let read = |text: &str, env: &Environment| {
            let loaded = parse("t.toml", text, env).expect("it is right");
            loaded.written
        };
        let none = Environment::default();
        let before = read(text, &none);
        let changed = |text: &str, env: &Environment| -> Vec<String> {
            let new = read(text, env);
            let keys: Vec<_> = before.changed(&new).map(str::to_owned).collect();
            let back: Vec<_> = new.changed(&before).map(str::to_owned).collect();
            assert_eq!(keys, back);
            keys
        };
        assert_eq!(changed(text, &none), [""; 0]);
        assert_eq!(changed(&format!("# A comment.\n{text}"), &none), [""; 0]);
        let other = text.replace("/a/", "/b/").replace("64MiB", "65MiB");
        assert_eq!(changed(&other, &none), ["cache.memory", "route[0].path"]);
        let more = format!("{text}[[route]]\npath = \"/c/\"\norigin = \"o\"\n");
        assert_eq!(changed(&more, &none), ["route[1].origin", "route[1].path"]);
        let env: Environment = [("TIDEGATE_CACHE__MEMORY", "65MiB")].into_iter().collect();
        assert_eq!(changed(text, &env), ["cache.memory"]);
    }
}
