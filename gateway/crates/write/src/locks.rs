//! Locks between the writers of this process: on a key, on a folder that is renamed, and on a draft's way out.

pub(crate) mod folder_locks;
pub(crate) mod key_locks;
pub(crate) mod publish_hold;
pub(crate) mod rename_holds;
