//! The secrets and key sets that a configuration names: the mistakes in them, by file, line and key.

use tidegate_access::KeySet;
use tidegate_auth::{FileKeys, KeyFileError};
use tidegate_config::{
    Environment, KeyPath, LoadedConfig, NamedSecret, Problem, Problems, SecretUse,
};
use tidegate_plan::Token;

/// The secrets and key sets over which a start would end.
#[derive(Debug, Default)]
pub(crate) struct SecretProblems {
    /// Those that are there and wrong: a secret is too short, a file is no key set.
    pub(crate) wrong: Vec<Problem>,
    /// Those that cannot be read on this machine.
    pub(crate) missing: Vec<Problem>,
}

impl SecretProblems {
    /// Looks at the secrets whose keys `applies` takes, and at the files of key sets. Reads files, and so may block.
    pub(crate) fn find(
        loaded: &LoadedConfig,
        env: &Environment,
        applies: impl Fn(&str) -> bool,
    ) -> Self {
        let mut found = Self::default();
        for one in loaded.config.secrets() {
            if applies(&one.path.to_string()) {
                found.add_secret(loaded, &one, env);
            }
        }
        for (name, access) in &loaded.config.access {
            let jwt = access.jwt.as_ref().filter(|jwt| !jwt.is_fetched());
            if let Some(file) = jwt.and_then(|jwt| jwt.jwks.as_ref())
                && let Err(error) = FileKeys::read(file.as_ref())
            {
                let path = KeyPath::of("access", name).key("jwt").key("jwks");
                let problem = loaded.problem(path, error.to_string());
                match error {
                    KeyFileError::Invalid(_) => found.wrong.push(problem),
                    KeyFileError::Unreadable(_) => found.missing.push(problem),
                }
            }
        }
        found.wrong.sort();
        found.missing.sort();
        found
    }

    fn add_secret(&mut self, loaded: &LoadedConfig, one: &NamedSecret<'_>, env: &Environment) {
        let problem = |message: String| loaded.problem(one.path.clone(), message);
        let text = match (one.usage, one.secret.path(env)) {
            // Its certificate is read with it.
            (SecretUse::PrivateKey, Ok(Some(_))) => return,
            (_, Ok(_)) => one.secret.resolve(env),
            (_, Err(error)) => Err(error),
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => return self.missing.push(problem(error.to_string())),
        };
        let error = match one.usage {
            SecretUse::Token => Token::from_setting(&text)
                .err()
                .map(|error| error.to_string()),
            SecretUse::Jwt => KeySet::shared(&text).err().map(|error| error.to_string()),
            SecretUse::Own | SecretUse::PrivateKey => None,
        };
        self.wrong.extend(error.map(problem));
    }

    /// Returns an error with all of them, if there are any.
    ///
    /// # Errors
    /// A secret or a key set is wrong or missing.
    pub(crate) fn into_result(self) -> Result<(), Problems> {
        let mut all = [self.wrong, self.missing].concat();
        all.sort();
        match all.is_empty() {
            true => Ok(()),
            false => Err(Problems(all)),
        }
    }
}
