//! The changes of attributes that a program asks for.

use fuser::FileAttr;

use tidegate_plan::attributes::{Attributes, PERMISSION_BITS, REGULAR, TYPE_BITS, UnixTime};

/// The bits that make a program run as the owner or the group of its file.
const SET_UID: u32 = 0o4000;
pub(super) const SET_GID: u32 = 0o2000;

/// The bit that lets a group run a file. Without it the set-group-ID bit does not.
const GROUP_RUNS: u32 = 0o010;

/// The attributes that `setattr` is to change.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SetAttr {
    pub(crate) size: Option<u64>,
    /// The bits that chmod(2) sets.
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) modified: Option<UnixTime>,
    pub(crate) accessed: Option<UnixTime>,
    pub(crate) handle: Option<u64>,
    /// The user who asks.
    pub(crate) caller: u32,
}

impl SetAttr {
    pub(super) fn changes_attributes(&self) -> bool {
        let owner = self.uid.or(self.gid);
        self.mode.or(owner).is_some() || self.modified.or(self.accessed).is_some()
    }

    /// Changes attributes by the rules of chmod(2), chown(2) and utimensat(2). `shown` are those that the file has,
    /// where none are stored.
    pub(super) fn apply(&self, stored: Attributes, shown: &FileAttr, kind: u32) -> Attributes {
        let before = stored.mode.unwrap_or(u32::from(shown.perm));
        let kind = match before & TYPE_BITS {
            0 => kind,
            kind => kind,
        };
        let bits = self.mode.unwrap_or(before) & PERMISSION_BITS;
        let is_chown = self.uid.or(self.gid).is_some() && kind == REGULAR && self.mode.is_none();
        let bits = if is_chown { without_set_id(bits) } else { bits };
        Attributes {
            mode: Some(kind | bits),
            uid: Some(self.uid.or(stored.uid).unwrap_or(shown.uid)),
            gid: Some(self.gid.or(stored.gid).unwrap_or(shown.gid)),
            modified: self.modified.or(stored.modified),
            accessed: self.accessed.or(stored.accessed),
        }
    }
}

/// Returns a mode without the set-ID bits, as a write by another user or a change of the owner clears them.
pub(super) fn without_set_id(mode: u32) -> u32 {
    match mode & GROUP_RUNS {
        0 => mode & !SET_UID,
        _ => mode & !(SET_UID | SET_GID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_owner_or_content_clears_the_bits_that_lend_rights() {
        for (mode, cleared) in [
            (0o106_755, 0o100_755),
            (0o102_644, 0o102_644),
            (0o104_644, 0o100_644),
            (0o101_777, 0o101_777),
        ] {
            assert_eq!(without_set_id(mode), cleared, "{mode:o}");
        }
    }
}
