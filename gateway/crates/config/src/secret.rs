//! Secrets: written down, or by reference; never shown.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::Environment;

pub(super) mod all;

/// A secret, or its location: `"literal"`, `{ env = "NAME" }` or `{ file = "PATH" }`.
///
/// It is read when it is needed, not when the configuration is. `Debug` shows `[secret]`, and there is neither
/// `Display` nor `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// It stands in the configuration.
    Literal(String),
    /// It stands in an environment variable.
    Env(String),
    /// It stands in a regular file of at most 64 KiB; one newline at its end is not part of it. A path may begin
    /// with `$CREDENTIALS_DIRECTORY/`, the folder of the credentials that systemd hands to a unit (systemd.exec(5)).
    File(PathBuf),
}

/// The reason why a secret could not be read; names its location, never its content.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set, or is empty.
    #[error("the environment variable {0} is not set")]
    Variable(String),
    /// The file cannot be read.
    #[error("cannot read the secret in {path}: {error}")]
    File {
        /// The path.
        path: PathBuf,
        /// The operating system's error.
        error: io::Error,
    },
    /// The file is empty.
    #[error("the secret in {0} is empty")]
    Empty(PathBuf),
}

impl Secret {
    /// Returns the secret's file, if users other than the file's owner and group may read it.
    #[must_use]
    pub fn readable_by_others(&self, env: &Environment) -> Option<PathBuf> {
        let Self::File(path) = self else { return None };
        let path = file_path(path, env).ok()?;
        let mode = std::fs::metadata(&path).ok()?.permissions().mode();
        (mode & 0o004 != 0).then_some(path)
    }

    /// Returns the path of the secret's file; `None` if it is in no file.
    ///
    /// # Errors
    /// If the path names the folder of credentials, and there is none.
    pub fn path(&self, env: &Environment) -> Result<Option<PathBuf>, SecretError> {
        match self {
            Self::File(path) => file_path(path, env).map(Some),
            Self::Literal(_) | Self::Env(_) => Ok(None),
        }
    }

    /// Reads the secret.
    ///
    /// # Errors
    /// If the variable or file has none; the error names it.
    pub fn resolve(&self, env: &Environment) -> Result<String, SecretError> {
        match self {
            Self::Literal(text) => Ok(text.clone()),
            Self::Env(name) => match env.get(name) {
                Some(text) if !text.is_empty() => Ok(text.to_owned()),
                _ => Err(SecretError::Variable(name.clone())),
            },
            Self::File(path) => {
                let path = &file_path(path, env)?;
                let mut text = read_file(path).map_err(|error| SecretError::File {
                    path: path.clone(),
                    error,
                })?;
                if text.ends_with('\n') {
                    text.pop();
                    text.truncate(text.strip_suffix('\r').map_or(text.len(), str::len));
                }
                if text.is_empty() {
                    return Err(SecretError::Empty(path.clone()));
                }
                Ok(text)
            }
        }
    }
}

/// The most bytes of a secret's file.
const MAX_BYTES: usize = 64 << 10;

/// Reads the file of a secret. A pipe or a device is not opened: it may have no end, or no writer.
fn read_file(path: &Path) -> io::Result<String> {
    let refused = |why| Err(io::Error::new(ErrorKind::InvalidInput, why));
    if !std::fs::metadata(path)?.is_file() {
        return refused("it is no regular file");
    }
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return refused("it has more than 64 KiB");
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is no UTF-8"))
}

/// The variable in which systemd gives the folder of a unit's credentials.
const CREDENTIALS_VARIABLE: &str = "CREDENTIALS_DIRECTORY";

/// Returns the path of a secret's file, with the variable for the folder of credentials replaced by its value.
fn file_path(path: &Path, env: &Environment) -> Result<PathBuf, SecretError> {
    let Ok(name) = path.strip_prefix(format!("${CREDENTIALS_VARIABLE}")) else {
        return Ok(path.to_owned());
    };
    match env.get(CREDENTIALS_VARIABLE) {
        Some(folder) if !folder.is_empty() => Ok(Path::new(folder).join(name)),
        _ => Err(SecretError::Variable(CREDENTIALS_VARIABLE.to_owned())),
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

const EXPECTED_SECRET: &str = "text, { env = \"NAME\" } or { file = \"PATH\" }";

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct SecretVisitor;

        impl<'de> Visitor<'de> for SecretVisitor {
            type Value = Secret;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a secret")
            }

            // A value of the wrong type may still be the secret (digits without quotes), and serde's own messages would
            // repeat it.
            fn visit_bool<E: Error>(self, _: bool) -> Result<Secret, E> {
                Err(wrong_secret())
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Secret, E> {
                Err(wrong_secret())
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Secret, E> {
                Err(wrong_secret())
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Secret, E> {
                Err(wrong_secret())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
                if text.is_empty() {
                    return Err(E::custom("is empty"));
                }
                Ok(Secret::Literal(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Secret, A::Error> {
                let secret = match map.next_key::<String>()?.as_deref() {
                    Some("env") => Secret::Env(map.next_value()?),
                    Some("file") => Secret::File(map.next_value()?),
                    _ => return Err(wrong_secret()),
                };
                match map.next_key::<String>()? {
                    None => Ok(secret),
                    Some(_) => Err(wrong_secret()),
                }
            }
        }

        fn wrong_secret<E: Error>() -> E {
            E::custom(format!("expected {EXPECTED_SECRET}"))
        }

        input.deserialize_any(SecretVisitor)
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let reference = |key: &str| {
            json_schema!({
                "type": "object",
                "properties": { key: { "type": "string" } },
                "required": [key],
                "additionalProperties": false,
            })
        };
        json_schema!({
            "anyOf": [{ "type": "string", "minLength": 1 }, reference("env"), reference("file")],
            "x-kind": "secret",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_found_where_it_says() {
        let env = Environment::from_iter([("KEY", "from env"), ("NONE", "")]);
        let folder = tempfile::tempdir().expect("a folder");
        let file = |text: &str| {
            let path = folder.path().join("token");
            std::fs::write(&path, text).expect("written");
            Secret::File(path).resolve(&env)
        };
        let literal = Secret::Literal("as is\n".into());
        assert_eq!(literal.resolve(&env).ok().as_deref(), Some("as is\n"));
        let named = |name: &str| Secret::Env(name.into()).resolve(&env);
        assert_eq!(named("KEY").ok().as_deref(), Some("from env"));
        for unset in ["NONE", "OTHER"] {
            let error = named(unset).expect_err(unset).to_string();
            assert_eq!(
                error,
                format!("the environment variable {unset} is not set")
            );
        }
        for text in ["s3cret", "s3cret\n", "s3cret\r\n"] {
            assert_eq!(file(text).ok().as_deref(), Some("s3cret"), "{text:?}");
        }
        assert_eq!(file("two\n\n").ok().as_deref(), Some("two\n"));
        assert!(matches!(file("\n"), Err(SecretError::Empty(_))));
        let missing = Secret::File(folder.path().join("none")).resolve(&env);
        assert!(matches!(missing, Err(SecretError::File { .. })));
    }

    #[test]
    fn only_a_regular_file_of_bounded_size_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |path: &Path| Secret::File(path.into()).resolve(&Environment::default());
        let path = folder.path().join("token");
        for (size, fits) in [(64 << 10, true), ((64 << 10) + 1, false)] {
            std::fs::write(&path, "x".repeat(size)).expect("written");
            assert_eq!(read(&path).is_ok(), fits, "{size}");
        }
        let pipe = folder.path().join("pipe");
        let mut mkfifo = std::process::Command::new("mkfifo");
        assert!(mkfifo.arg(&pipe).status().expect("it runs").success());
        for other in [Path::new("/dev/zero"), &pipe, folder.path()] {
            let error = read(other).expect_err("no regular file").to_string();
            let named = format!("the secret in {}: it is no reg", other.display());
            assert!(error.contains(&named), "{error}");
        }
    }

    #[test]
    fn is_never_shown() {
        for secret in [Secret::Literal("s3cret".into()), Secret::Env("X".into())] {
            assert_eq!(format!("{secret:?}"), "[secret]");
        }
    }

    #[test]
    fn a_unit_s_credentials_are_found_by_the_folder_s_name() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("token"), "s3cret\n").expect("written");
        let named = folder.path().to_str().expect("text");
        let secret = Secret::File("$CREDENTIALS_DIRECTORY/token".into());
        let env = Environment::from_iter([("CREDENTIALS_DIRECTORY", named)]);
        assert_eq!(secret.resolve(&env).ok().as_deref(), Some("s3cret"));
        let error = secret
            .resolve(&Environment::default())
            .expect_err("no unit");
        assert!(
            error.to_string().contains("CREDENTIALS_DIRECTORY"),
            "{error}"
        );
        for (mode, others) in [(0o644, true), (0o640, false), (0o600, false)] {
            let path = folder.path().join("token");
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, mode).expect("ours");
            assert_eq!(secret.readable_by_others(&env), others.then_some(path));
        }
    }
}
