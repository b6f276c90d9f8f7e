//! The file that records the progress of warming. It is replaced whole, and removed when all is
//! done.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// The recorded progress.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reached {
    /// The identity of the paths that are warmed; other paths have another state.
    of: String,
    /// The position to go on from, as the source understands it.
    next: String,
    /// Objects done.
    done: u64,
}

#[derive(Debug)]
pub(super) struct State {
    file: Option<PathBuf>,
    reached: Reached,
    resumes: bool,
}

impl State {
    /// Reads the file, if there is one; without a file nothing is recorded.
    ///
    /// # Errors
    /// If it cannot be read, or belongs to other paths.
    pub(super) fn open(file: Option<&Path>, of: &str) -> anyhow::Result<Self> {
        let new = Reached {
            of: of.to_owned(),
            ..Reached::default()
        };
        let mut state = Self {
            file: file.map(Path::to_owned),
            reached: new,
            resumes: false,
        };
        let Some(file) = file else {
            return Ok(state);
        };
        let name = || format!("the state in {}", file.display());
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(state),
            Err(error) => return Err(error).with_context(name),
        };
        let reached: Reached = serde_json::from_str(&text).with_context(name)?;
        if reached.of != of {
            bail!(
                "{} is of something else: delete it, or name another file",
                name()
            );
        }
        state.reached = reached;
        state.resumes = true;
        Ok(state)
    }

    /// Returns the position to go on from, if an earlier run began.
    pub(super) fn resumed(&self) -> Option<&str> {
        self.resumes.then_some(self.reached.next.as_str())
    }

    /// Returns the objects that earlier runs have done.
    pub(super) fn done(&self) -> u64 {
        self.reached.done
    }

    /// Records that `objects` more are done, and the position to go on from; `None` at the end.
    pub(super) fn reached(&mut self, next: Option<String>, objects: u64) -> anyhow::Result<()> {
        self.reached.done += objects;
        let (Some(file), Some(next)) = (&self.file, next) else {
            return Ok(());
        };
        self.reached.next = next;
        let mut new = file.as_os_str().to_owned();
        new.push(".new");
        let text = serde_json::to_string(&self.reached)?;
        fs::write(&new, format!("{text}\n"))
            .and_then(|()| fs::rename(&new, file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Removes the file: all is done, and the next run begins anew.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot delete {}", file.display()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_where_it_was_and_only_with_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("state");
        let open = |of: &str| State::open(Some(&file), of);
        let mut state = open("films").expect("none yet");
        assert_eq!(state.resumed(), None);
        state.reached(Some("k".to_owned()), 5).expect("written");
        state.reached(Some("l".to_owned()), 2).expect("written");
        let again = open("films").expect("it is there");
        assert_eq!((again.resumed(), again.done()), (Some("l"), 7));
        let why = open("books").expect_err("another").to_string();
        assert!(why.contains("of something else"), "{why}");
        again.finish().expect("deleted");
        again.finish().expect("gone already");
        assert_eq!(open("books").expect("none").resumed(), None);
        fs::write(&file, "nonsense").expect("written");
        open("books").expect_err("no state");
    }
}
