//! Programs at a mount beside the listeners, whose kernel holds names, sizes and the listing of a folder.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;

use super::reported::ReportingStore;
use super::{Measured, TIMEOUT, body};
use crate::measure::Latency;
use crate::peers::mounts::Mount;

/// The changes of one round.
pub(super) const CHANGES: u64 = 4;
/// The folder of all files here.
const FOLDER: &str = "mounted";
/// The file that grows by a byte in each round.
const GROWN_OBJECT: &str = "growing";

/// A folder of a mount, and the store behind it.
struct MountedFolder<'a> {
    store: &'a ReportingStore,
    path: PathBuf,
}

/// Measures rounds of changes: from the answer of the store until a program sees each of them.
pub(super) async fn measure(
    store: &ReportingStore,
    mount: &Mount,
    rounds: u64,
) -> Result<Vec<Measured>> {
    let path = mount.file(FOLDER);
    let folder = MountedFolder { store, path };
    folder.put(GROWN_OBJECT, filled(1)).await?;
    folder.shows_size(GROWN_OBJECT, 1).await?;
    let [mut size, mut name, mut listing, mut removal] =
        [(); CHANGES as usize].map(|()| Latency::default());
    for nth in 0..rounds {
        size.record(folder.grow(2 + nth).await?);
        name.record(folder.appear(&format!("name-{nth}"), nth).await?);
        let listed = format!("listed-{nth}");
        listing.record(folder.join_listing(&listed, nth).await?);
        removal.record(folder.vanish(&listed).await?);
    }
    Ok(vec![
        ("PUT to the new size at a mount", size),
        ("PUT to a name that was missing there", name),
        ("PUT to the listing there", listing),
        ("DELETE to no name there", removal),
    ])
}

fn filled(len: u64) -> Bytes {
    vec![b'x'; len as usize].into()
}

impl MountedFolder<'_> {
    /// Writes an object of the folder past the gateway; returns the time of the answer.
    async fn put(&self, name: &str, bytes: Bytes) -> Result<Instant> {
        let key = format!("{FOLDER}/{name}");
        self.store.bucket.put(&key, bytes).await?;
        Ok(Instant::now())
    }

    /// Replaces a file whose size the kernel knows by one of another size.
    async fn grow(&self, len: u64) -> Result<Duration> {
        self.shows_size(GROWN_OBJECT, len - 1).await?;
        let answered = self.put(GROWN_OBJECT, filled(len)).await?;
        self.shows_size(GROWN_OBJECT, len).await?;
        Ok(answered.elapsed())
    }

    /// Creates a file of a name that the kernel knows to be missing.
    async fn appear(&self, name: &str, nth: u64) -> Result<Duration> {
        self.shows_name(name, false).await?;
        let answered = self.put(name, body(nth)).await?;
        self.shows_name(name, true).await?;
        Ok(answered.elapsed())
    }

    /// Creates a file in a folder whose listing is known.
    async fn join_listing(&self, name: &str, nth: u64) -> Result<Duration> {
        self.lists(&format!("name-{nth}")).await?;
        let answered = self.put(name, body(nth)).await?;
        self.lists(name).await?;
        Ok(answered.elapsed())
    }

    /// Removes a file whose name the kernel knows.
    async fn vanish(&self, name: &str) -> Result<Duration> {
        self.shows_name(name, true).await?;
        let key = format!("{FOLDER}/{name}");
        self.store.bucket.delete(&key).await?;
        let answered = Instant::now();
        self.shows_name(name, false).await?;
        Ok(answered.elapsed())
    }

    async fn shows_size(&self, name: &str, len: u64) -> Result<()> {
        let file = self.path.join(name);
        let what = format!("{name} with {len} bytes");
        seen(what, move || match file.metadata() {
            Ok(found) => Ok(found.len() == len),
            // The folder comes with its first file.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error.into()),
        })
        .await
    }

    async fn shows_name(&self, name: &str, is_there: bool) -> Result<()> {
        let file = self.path.join(name);
        let what = format!("{name}, there: {is_there}");
        seen(what, move || Ok(file.try_exists()? == is_there)).await
    }

    /// Reads the listing until it has a name.
    async fn lists(&self, name: &str) -> Result<()> {
        let (folder, name) = (self.path.clone(), name.to_owned());
        seen(format!("a listing with {name}"), move || {
            let mut has_it = false;
            for entry in std::fs::read_dir(&folder)? {
                has_it |= entry?.file_name() == *name;
            }
            Ok(has_it)
        })
        .await
    }
}

/// Looks until a program sees it.
async fn seen(what: String, is_seen: impl Fn() -> Result<bool> + Send + 'static) -> Result<()> {
    let looks = move || {
        let since = Instant::now();
        while !is_seen()? {
            ensure!(since.elapsed() < TIMEOUT, "{what} is not seen in time");
            std::thread::yield_now();
        }
        Ok(())
    };
    tokio::task::spawn_blocking(looks).await?
}
