//! The overrides: keys that an operator set while the gateway ran, in a file of the state folder.
//!
//! They lie over the configuration file and under the environment. Each line of the file is a key and its value.
//!
//! An entry of a list is named by its own `name` or `path`, or by `host` and `path`:
//! `"route[/media/].profile" = "audio"`. So it stays the same one when the configuration file gets another before it. A
//! number is read as well, because earlier versions wrote it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue, Error};

use super::LoadError;
use super::problem::line_and_column;

mod key;

use key::parse_key;
pub(super) use key::{entry_name, own_name, resolve};

/// The name of the file.
const FILE_NAME: &str = "overrides.toml";

/// The longest file.
const MAX_BYTES: u64 = 1 << 20;

/// The keys that no override may set: the place of the overrides hangs on them.
pub(super) const FIXED_KEYS: [&str; 2] = ["state.path", "cache.disk[0].path"];

const HEADER: &str =
    "# Written by `tidegate set`. Laid over the configuration file, under the environment.\n";

/// The overridden keys, each with its value as text: a bare string, or TOML.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Overrides(BTreeMap<String, String>);

impl fmt::Debug for Overrides {
    /// Shows keys only: values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Overrides {
    /// Returns the file of the overrides below a state folder.
    #[must_use]
    pub fn file(state: &Path) -> PathBuf {
        state.join(FILE_NAME)
    }

    /// Reads the overrides of a state folder; none if there is no file.
    ///
    /// # Errors
    /// [`LoadError::Overrides`]: the file cannot be read, is too long, or is no TOML.
    pub fn read(state: &Path) -> Result<Self, LoadError> {
        let path = Self::file(state);
        Self::read_file(&path).map_err(|error| LoadError::Overrides { path, error })
    }

    fn read_file(file: &Path) -> io::Result<Self> {
        let length = match fs::metadata(file) {
            Ok(found) => found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        if length > MAX_BYTES {
            return Err(io::Error::other("longer than 1 MiB"));
        }
        Self::parse(&fs::read_to_string(file)?).map_err(io::Error::other)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text).map_err(|error| syntax(text, &error))?;
        let mut all = BTreeMap::new();
        flatten(text, String::new(), table.get_ref(), &mut all);
        Ok(Self(all))
    }

    /// Writes the overrides into a state folder, for its owner alone. They are durable on return.
    ///
    /// # Errors
    /// Those of the system. The file is as it was then.
    pub fn write(&self, state: &Path) -> io::Result<()> {
        let (file, fresh) = (Self::file(state), state.join(format!("{FILE_NAME}.new")));
        fs::create_dir_all(state)?;
        let mut options = fs::OpenOptions::new();
        let options = options.write(true).create_new(true).mode(0o600);
        // What an earlier process left there, or a link, which would be followed.
        let _ = fs::remove_file(&fresh);
        let mut new = options.open(&fresh)?;
        new.write_all(self.to_string().as_bytes())?;
        new.sync_all()?;
        fs::rename(&fresh, &file)?;
        fs::File::open(state)?.sync_all()
    }

    /// Returns the keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the overrides with this key set to a value (`Some`), or left out.
    ///
    /// # Errors
    /// If the key may not be overridden, or is not overridden and cannot be left out.
    pub fn with(&self, key: &str, value: Option<&str>) -> Result<Self, String> {
        let mut all = self.0.clone();
        match value {
            Some(_) if FIXED_KEYS.contains(&key) => {
                return Err(format!("`{key}` is set in the configuration file alone"));
            }
            Some(value) => {
                parse_key(key)?;
                // What was set below it would lie over it.
                let is_below = |one: &str| {
                    let rest = one.strip_prefix(key);
                    rest.is_some_and(|rest| rest.starts_with(['.', '[']))
                };
                all.retain(|one, _| !is_below(one));
                all.insert(key.to_owned(), value.to_owned());
            }
            None if all.remove(key).is_none() => {
                return Err(format!("`{key}` is not overridden"));
            }
            None => {}
        }
        Ok(Self(all))
    }

    /// Makes the overrides of these keys and values.
    pub(super) fn of(all: impl Iterator<Item = (String, String)>) -> Self {
        Self(all.collect())
    }

    /// Returns each key with its value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl fmt::Display for Overrides {
    /// Writes the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADER)?;
        for (key, value) in &self.0 {
            let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
            let value = match DeValue::parse(value) {
                Ok(read)
                    if !matches!(read.get_ref(), DeValue::String(_)) && !value.contains('\n') =>
                {
                    value.clone()
                }
                _ => quoted(value),
            };
            writeln!(f, "{} = {value}", quoted_key(key))?;
        }
        Ok(())
    }
}

/// Returns a key in quotes, on one line: TOML has no keys of several lines.
fn quoted_key(key: &str) -> String {
    let mut quoted = String::from("\"");
    for c in key.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Collects the values of a table and of those in it, with their keys.
fn flatten(text: &str, above: String, table: &DeTable<'_>, all: &mut BTreeMap<String, String>) {
    for (key, node) in table {
        let key = match above.as_str() {
            "" => key.get_ref().to_string(),
            above => format!("{above}.{}", key.get_ref()),
        };
        match node.get_ref() {
            // An inline table is one value, as it was set.
            DeValue::Table(inner) if !text[node.span()].starts_with('{') => {
                flatten(text, key, inner, all);
            }
            DeValue::String(value) => drop(all.insert(key, value.to_string())),
            _ => drop(all.insert(key, text[node.span()].to_owned())),
        }
    }
}

/// Tells what is wrong with the text and where, without a part of it: it may be a secret.
fn syntax(text: &str, error: &Error) -> String {
    let start = error.span().unwrap_or_default().start;
    let (line, _) = line_and_column(text, start);
    format!("line {line}: {}", error.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut all = Overrides::default();
        for (key, value) in [
            ("cache.memory", "2GiB"),
            ("http.max_connections", "64"),
            ("route[/a \"b\"/].profile", "audio"),
            ("http.trusted_proxies", "[\"127.0.0.1\"]"),
            ("log.level", "info,\nx=\"y\""),
            ("access.a.tokens.t", "{ file = \"/x\" }"),
        ] {
            all = all.with(key, Some(value)).expect(key);
        }
        let read = Overrides::parse(&all.to_string()).expect("TOML");
        let pairs = |all: &Overrides| {
            let pairs = all.iter();
            pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(pairs(&read), pairs(&all));
        assert_eq!(
            Overrides::parse("[cache]\nmemory = \"1GiB\"").expect("TOML"),
            {
                Overrides::default()
                    .with("cache.memory", Some("1GiB"))
                    .expect("a key")
            }
        );
    }

    #[test]
    fn an_error_has_the_line_and_no_secret() {
        let text = "# by hand\n\"admin.token\" = \"s3cret\n";
        let error = Overrides::parse(text).expect_err("no TOML");
        assert!(error.starts_with("line 2: "), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn it_is_written_for_its_owner_and_left_out_where_there_is_none() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        assert_eq!(Overrides::read(&state).expect("none"), Overrides::default());
        let set = Overrides::default()
            .with("cache.memory", Some("1GiB"))
            .expect("a key");
        set.write(&state).expect("written");
        assert_eq!(Overrides::read(&state).expect("there"), set);
        let mode = fs::metadata(Overrides::file(&state))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(set.with("state.path", Some("/x")).is_err());
        assert!(set.with("cache.budget", None).is_err());
        assert_eq!(set.with("cache.memory", None), Ok(Overrides::default()));
        fs::write(Overrides::file(&state), "not TOML").expect("written");
        assert!(Overrides::read(&state).is_err());
        assert!(!format!("{set:?}").contains("1GiB"));
    }

    /// Another user of the machine may have put it there.
    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (state, target) = (folder.path().join("state"), folder.path().join("target"));
        fs::create_dir(&state).expect("made");
        fs::write(&target, "not ours").expect("written");
        for name in [FILE_NAME.to_owned(), format!("{FILE_NAME}.new")] {
            std::os::unix::fs::symlink(&target, state.join(name)).expect("a link");
        }
        Overrides::default().write(&state).expect("written");
        assert_eq!(fs::read(&target).expect("there"), b"not ours");
        let written = fs::symlink_metadata(state.join(FILE_NAME));
        assert!(written.expect("there").is_file());
    }
}
