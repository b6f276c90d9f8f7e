//! A child process that does not outlive its test.

use std::process::Child;

/// A child process that is killed at the end, also of a test that fails.
#[derive(Debug)]
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It has ended already if the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
