//! A profile that is given at run time, read and checked as if it stood in the file.

use serde_json::{Value, json};

use super::problem::{Step, suggestion};
use super::{
    Config, Environment, KeyPath, Overlay, Problem, Problems, ValueLocation, check, read, sorted,
};
use tidegate_plan::Profile;

/// The name of the profile while it is checked: empty, so that it differs from all others.
const UNNAMED: &str = "";

impl Config {
    /// Returns the profile of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named_profile(&self, name: &str) -> Result<Profile, Problems> {
        self.profile(name).ok_or_else(|| {
            let own = self.profile.keys().map(String::as_str);
            let hint = suggestion(name, own.chain(Profile::BUILT_IN));
            problem(
                KeyPath::default(),
                &format!("there is no profile `{}`{hint}", name.escape_debug()),
            )
        })
    }

    /// Returns the profile of these keys, which are those of `[profile.NAME]` as JSON. It is laid
    /// over `under`, or without that, as in the file, over the profile that it extends. Its
    /// read-ahead is cut to the budget.
    ///
    /// # Errors
    /// For everything that is wrong with it.
    pub fn read_profile(&self, keys: &Value, under: Option<&Profile>) -> Result<Profile, Problems> {
        let (overlay, config) = self.read_overlay(keys)?;
        let Some(under) = under else {
            let profile = config.profile(UNNAMED);
            return Ok(profile.expect("whom it extends was checked"));
        };
        if overlay.extends.is_some() {
            let path = KeyPath::default().key("extends");
            return Err(problem(path, "this lies over what the route has now"));
        }
        Ok(config.cut_read_ahead(overlay.over(under.clone())))
    }

    /// Returns the overlay, and this configuration with it.
    fn read_overlay(&self, keys: &Value) -> Result<(Overlay, Self), Problems> {
        let whole = || problem(KeyPath::default(), "expected an object of profile keys");
        let keys = keys.as_object().ok_or_else(whole)?;
        if let Some((key, _)) = keys.iter().find(|(_, value)| value.is_null()) {
            let path = KeyPath::default().key(key);
            return Err(problem(path, "null is no value; leave the key out"));
        }
        let text = toml::to_string(&json!({ "profile": { UNNAMED: keys } }));
        let text = text.map_err(|error| problem(KeyPath::default(), &error.to_string()))?;
        let env = Environment::default();
        let (document, read, mut problems) = read::read("", &text, &env).map_err(sorted)?;
        let overlay = read.profile.get(UNNAMED).cloned().unwrap_or_default();
        let mut config = self.clone();
        config.profile.insert(UNNAMED.to_owned(), overlay.clone());
        problems.extend(check::check(&document, &config).errors);
        match problems.is_empty() {
            true => Ok((overlay, config)),
            false => Err(sorted(
                problems.into_iter().map(relative_to_profile).collect(),
            )),
        }
    }
}

fn problem(path: KeyPath, message: &str) -> Problems {
    Problems(vec![Problem {
        location: ValueLocation::Nowhere,
        path,
        message: message.to_owned(),
    }])
}

/// Returns the problem, with its path relative to the profile.
fn relative_to_profile(problem: Problem) -> Problem {
    let inner = problem.path.steps().iter().skip(2).cloned();
    let path = inner.fold(KeyPath::default(), |path, step: Step| path.then(step));
    Problem { path, ..problem }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::parse;

    fn config() -> Config {
        let text = "[cache]\nbudget = \"100MiB\"\n[[origin]]\nname = \"o\"\nbucket = \"b\"\n\
                    [profile.books]\nextends = \"stream\"\nstreams = 3\n";
        let loaded = parse("t.toml", text, &Environment::default());
        loaded.expect("it is right").config
    }

    #[test]
    fn reads_as_the_file_does() {
        let config = config();
        let keys = json!({ "extends": "books", "ttl": "5s", "bulk": true });
        let expected = Profile {
            read_ahead: 100 << 20,
            streams: 3,
            ttl: Duration::from_secs(5),
            bulk: true,
            ..Profile::stream()
        };
        assert_eq!(config.read_profile(&keys, None), Ok(expected));
        let web = config.read_profile(&json!({}), None);
        assert_eq!(web, Ok(Profile::web()));
    }

    #[test]
    fn lies_over_what_is_there() {
        let (config, now) = (config(), Profile::documents());
        let keys = json!({ "read_ahead": "1GiB", "disk": "off" });
        let laid = config.read_profile(&keys, Some(&now)).expect("right");
        assert_eq!((laid.read_ahead, laid.streams), (100 << 20, now.streams));
        assert_eq!(
            (laid.ttl, laid.disk),
            (now.ttl, tidegate_plan::profile::DiskUse::Off)
        );
        let keys = json!({ "extends": "web" });
        assert!(config.read_profile(&keys, Some(&now)).is_err());
    }

    #[test]
    fn tells_everything_that_is_wrong() {
        let config = config();
        for (keys, why) in [
            (
                json!({ "read_ahed": "1MiB" }),
                "`read_ahed`: there is no such key; did you mean `read_ahead`?",
            ),
            (json!({ "streams": 0 }), "`streams`: must be at least 1"),
            (
                json!({ "extends": "bookz" }),
                "`extends`: there is no profile `bookz`; did you mean `books`?",
            ),
            (
                json!({ "extends": "" }),
                "`extends`: goes round in a circle",
            ),
            (
                json!({ "ttl": "soon" }),
                "`ttl`: `soon` is no length of time",
            ),
            (json!({ "disk": "third" }), "`disk`: `third` is none of"),
            (json!({ "ttl": null }), "`ttl`: null is no value"),
            (json!([]), "expected an object"),
        ] {
            let said = config.read_profile(&keys, None).expect_err(why).to_string();
            assert!(said.starts_with(why), "{said}");
        }
    }
}
