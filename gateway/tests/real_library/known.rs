//! The differences between a local folder and a mount that are known. One that is not listed fails its test, and so does
//! one that is listed and gone.

use crate::compare::Attribute;

/// A difference in one step.
pub(crate) struct Known {
    /// The step's name.
    pub(crate) step: &'static str,
    /// The beginning of the paths below the folder.
    pub(crate) path: &'static str,
    /// What differs.
    pub(crate) attribute: Attribute,
}

const fn known(step: &'static str, path: &'static str, attribute: Attribute) -> Known {
    Known {
        step,
        path,
        attribute,
    }
}

/// A mount gives its files one mode and forgets times that are set.
pub(crate) const KNOWN: &[Known] = &[
    known("cp -a", "script", Attribute::Mode),
    known("cp -a", "script", Attribute::Time),
    known("rsync", "data/", Attribute::Time),
    known("rsync again", "data/", Attribute::Time),
    known("rsync of changes", "data/", Attribute::Time),
];
