//! The files of the configuration and of the state folder, on disks that may not answer.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::wrong;
use tidegate_admin::reload::ReloadError;

/// The longest time that a change waits for a disk.
const DISK_TIMEOUT: Duration = Duration::from_secs(30);

/// The files of the overrides. The work on them is done one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct StateFiles(Arc<Mutex<()>>);

impl StateFiles {
    /// Does work on the files, in its turn: what a hung disk has still to do is never overtaken.
    ///
    /// # Errors
    /// Those of the work, or the disk does not answer in [`DISK_TIMEOUT`]. Then the work may still come to be done.
    pub(super) async fn in_turn<T: Send + 'static, E: Display + Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send + 'static,
    ) -> Result<T, ReloadError> {
        let turn = timeout(DISK_TIMEOUT, Arc::clone(&self.0).lock_owned());
        let turn = turn.await.map_err(|_| hung())?;
        in_time(move || {
            let done = work();
            drop(turn);
            done
        })
        .await
    }
}

/// Does work on files that changes none of them.
///
/// # Errors
/// Those of the work, or the disk does not answer in [`DISK_TIMEOUT`].
pub(super) async fn in_time<T: Send + 'static, E: Display + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ReloadError> {
    let done = timeout(DISK_TIMEOUT, spawn_blocking(work)).await;
    done.map_err(|_| hung())?.map_err(wrong)?.map_err(wrong)
}

fn hung() -> ReloadError {
    wrong("the disk does not answer; what it was told may still come to be done")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_hangs_ends_the_wait_and_is_not_overtaken() {
        let files = StateFiles::default();
        let (answer, disk) = channel::<()>();
        let first = tokio::spawn({
            let files = files.clone();
            async move { files.in_turn(move || disk.recv()).await }
        });
        while files.0.try_lock().is_ok() {
            tokio::task::yield_now().await;
        }
        let second = tokio::spawn({
            let files = files.clone();
            async move { files.in_turn(|| Ok::<_, String>("done")).await }
        });
        tokio::task::yield_now().await;
        advance(DISK_TIMEOUT).await;
        let hangs = Err(hung());
        assert_eq!(first.await.expect("no panic"), hangs);
        assert_eq!(second.await.expect("no panic"), hangs.map(|()| ""));
        answer.send(()).expect("it waits still");
        let third = files.in_turn(|| Ok::<_, String>("done")).await;
        assert_eq!(third, Ok("done"), "after the first has ended");
        let refused = files.in_turn(|| Err::<(), _>("no room")).await;
        assert_eq!(refused, Err(wrong("no room")));
    }
}
