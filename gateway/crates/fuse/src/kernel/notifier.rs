//! Notifications to the kernel.

use std::ffi::OsStr;

use fuser::{INodeNo, Notifier};

use crate::files::Kernel;

/// Notifies the kernel through its device.
#[derive(Debug)]
pub(crate) struct KernelNotifier(pub(crate) Notifier);

impl Kernel for KernelNotifier {
    fn drop_pages(&self, ino: u64) -> bool {
        self.0.inval_inode(INodeNo(ino), 0, 0).is_ok()
    }

    fn drop_name(&self, folder: u64, name: &str) {
        // An error means that the kernel does not know the name, and need not forget it.
        let _ = self.0.inval_entry(INodeNo(folder), OsStr::new(name));
    }
}
