//! The change of an override, whose key may name entries of the file by their numbers.

use std::fs;
use std::path::Path;

use super::Document;
use crate::overrides::FIXED_KEYS;
use crate::{Environment, Overrides};

impl Overrides {
    /// Does as [`Overrides::with`] for a key that may name entries by their numbers in the configuration file. The key
    /// that is kept names each by its own name, so that it stays with that entry. A key that was kept in other words is
    /// the same one.
    ///
    /// # Errors
    /// As [`Overrides::with`], or if an entry has no name of its own.
    pub fn changed(
        &self,
        file: Option<&Path>,
        key: &str,
        value: Option<&str>,
    ) -> Result<Self, String> {
        let text = file.and_then(|file| fs::read_to_string(file).ok());
        let text = text.unwrap_or_default();
        let env = Environment::default();
        let Ok((document, _)) = Document::read("", &text, self, &env) else {
            // The file is wrong, which is told where it is loaded.
            return self.with(key, value);
        };
        let path = document.overridden(key);
        let is_same = |one: &&str| path.is_ok() && document.overridden(one) == path;
        let Some(value) = value else {
            let exact = self.keys().find(|one| *one == key);
            let kept = exact.or_else(|| self.keys().find(is_same));
            return self.with(kept.unwrap_or(key), None);
        };
        let path = path.clone()?;
        if FIXED_KEYS.contains(&path.to_string().as_str()) {
            return self.with(&path.to_string(), Some(value));
        }
        let own = document.own_name(key)?;
        let stays = |one: &str| {
            let one = document.overridden(one);
            !one.is_ok_and(|one| one.steps().starts_with(path.steps()))
        };
        let kept = self.iter().filter(|(one, _)| stays(one));
        let named = kept.map(|(one, value)| {
            let own = document.own_name(one);
            (own.unwrap_or_else(|_| one.to_owned()), value.to_owned())
        });
        Self::of(named).with(&own, Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_becomes_the_name_of_its_entry_and_other_words_are_the_same_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("t.toml");
        let text = "[[route]]\npath = \"/b/\"\n[[route]]\npath = \"/c/\"\n[[hook]]\nurl = \"u\"\n";
        fs::write(&file, text).expect("written");
        let change = |all: &Overrides, key: &str, value| all.changed(Some(&file), key, value);
        let set = |all: &Overrides, key: &str| change(all, key, Some("x")).expect(key);
        let keys = |all: &Overrides| all.keys().map(str::to_owned).collect::<Vec<_>>();
        // As versions before wrote it.
        let old = Overrides::default().with("route[1].profile", Some("audio"));
        let old = old.expect("a key");
        let all = set(&old, "route[0].profile");
        assert_eq!(keys(&all), ["route[/b/].profile", "route[/c/].profile"]);
        assert_eq!(
            keys(&set(&old, "route[/c/].profile")),
            ["route[/c/].profile"]
        );
        assert_eq!(
            change(&old, "route[/c/].profile", None),
            Ok(Overrides::default())
        );
        let one = change(&all, "route[1].profile", None).expect("it is there");
        assert_eq!(keys(&one), ["route[/b/].profile"]);
        // An entry that an override has renamed keeps its overrides, in any order of the names.
        let renamed = change(&one, "route[0].path", Some("/a/")).expect("a key");
        let all = set(&renamed, "route[0].host");
        let kept = ["route[/b/].host", "route[/b/].path", "route[/b/].profile"];
        assert_eq!(keys(&all), kept);
        assert_eq!(keys(&set(&all, "route[/a/].host")).len(), 3);
        let whole = change(&all, "route[0]", Some("{ path = \"/b/\" }"));
        assert_eq!(keys(&whole.expect("a key")), ["route[/b/]"]);
        for refused in ["hook[0].url", "route[2].path", "state.path"] {
            assert!(change(&all, refused, Some("x")).is_err(), "{refused}");
        }
    }
}
