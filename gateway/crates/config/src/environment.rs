//! The environment, as an argument: from a test, or of the process.

use std::collections::BTreeMap;
use std::fmt;

/// The prefix of the variables that override a key.
pub(super) const VARIABLE_PREFIX: &str = "TIDEGATE_";

/// The environment, as an argument.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Returns the environment of this process; variables that are not UTF-8 are left out.
    #[must_use]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Returns a variable's value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the variables that override a key: `TIDEGATE_SECTION__KEY`. The double underscore
    /// tells them from variables of other programs (Kubernetes gives every pod `TIDEGATE_PORT` for
    /// a service `tidegate`).
    pub(super) fn overrides(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self
            .0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(|(name, _)| {
            let rest = name.strip_prefix(VARIABLE_PREFIX);
            rest.is_some_and(|rest| rest.contains("__"))
        })
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let own = |(name, value): (N, V)| (name.into(), value.into());
        Self(variables.into_iter().map(own).collect())
    }
}

impl fmt::Debug for Environment {
    /// Shows names only: values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
