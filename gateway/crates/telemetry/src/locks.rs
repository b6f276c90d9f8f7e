//! The policy for a poisoned lock: its data is used as it is.
//!
//! A lock is poisoned if a thread panicked while it held it. To go on is what keeps the gateway serving: the
//! request or the thread that panicked is lost, and the others find at worst a count that is off.

use std::sync::{LockResult, PoisonError};

/// Access to the data of a lock, poisoned or not: for the results of `lock`, `read`, `write` and the waits of a
/// condition variable.
pub trait Recover<T> {
    /// Returns the guard.
    fn recover(self) -> T;
}

impl<T> Recover<T> for LockResult<T> {
    fn recover(self) -> T {
        self.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_poisoned_lock_gives_its_data() {
        let lock = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let poison = scope.spawn(|| {
                let mut guard = lock.lock().recover();
                *guard = 2;
                panic!("while the lock is held");
            });
            poison.join()
        });
        assert!(panicked.is_err() && lock.is_poisoned());
        assert_eq!(*lock.lock().recover(), 2);
    }
}
