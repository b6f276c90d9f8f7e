//! Reading the spool at the start.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::file::{SpoolFile, path_of};
use super::journal::{self, Begin, JournalContents, OtherData, Record};
use super::reading::SpoolReading;
use super::replay::{self, ReplayedDraft};
use super::{DATA_EXTENSION, JOURNAL_EXTENSION, Spool, is, slots};
use tidegate_cache::private_files;
use tidegate_plan::Timestamp;
use tidegate_telemetry::progress::ProgressLines;

/// A draft that was found.
type FoundDraft = (Arc<SpoolFile>, ReplayedDraft);

/// The journals of a directory.
#[derive(Default)]
struct FoundJournals {
    /// Those that can be read, one for each draft.
    journals: Vec<ReadJournal>,
    /// The data of those that are in another format. They stay as they are.
    others: Vec<OtherData>,
    /// The number of those that could not be read.
    unread: usize,
}

/// A journal that was found in the directory.
struct ReadJournal {
    path: PathBuf,
    id: u64,
    records: Vec<Record>,
    sound: u64,
}

/// The outcome of reading one journal file.
enum ReadFile {
    Journal(ReadJournal),
    Other(OtherData),
    /// It had no records, and is blank.
    Blank,
}

impl ReadJournal {
    /// Returns the number of files that the draft had before this one.
    fn turn(&self) -> u64 {
        match self.records.first() {
            Some(Record::Anew { turn, .. }) => (*turn).max(1),
            _ => 0,
        }
    }

    /// Returns the number of the draft.
    fn order(&self) -> u64 {
        match self.records.first() {
            Some(Record::Begin(begin) | Record::Anew { begin, .. }) => begin.order,
            _ => 0,
        }
    }

    /// Returns whether the journal is complete. Earlier versions wrote its head together with the
    /// rest.
    fn is_whole(&self) -> bool {
        let is_promised = matches!(
            self.records.first(),
            Some(Record::Anew { promised: true, .. })
        );
        self.turn() == 0 || !is_promised || self.records.contains(&Record::Synced)
    }
}

impl FoundJournals {
    /// Returns the data files that belong to journals; `None` if any data may.
    fn data_files(&self, directory: &Path) -> Option<HashSet<PathBuf>> {
        // A journal that could not be read may own any data.
        let is_known = self.unread == 0 && !self.others.contains(&OtherData::Unknown);
        let others = self.others.iter().filter_map(|other| match other {
            OtherData::Of(id) => Some(*id),
            OtherData::Elsewhere | OtherData::Unknown => None,
        });
        let ids = self.journals.iter().map(|read| read.id).chain(others);
        is_known.then(|| ids.map(|id| path_of(directory, id)).collect())
    }

    /// Returns the number of the next draft. It is higher than those that were found, and than that of any draft that
    /// was begun earlier and could not be read, unless the clock was set back.
    fn next_order(&self, now: Timestamp) -> u64 {
        let found = self.journals.iter().map(ReadJournal::order).max();
        let microseconds = now.0.saturating_mul(1000);
        microseconds.max(found.unwrap_or(0).saturating_add(1))
    }
}

impl Spool {
    /// Returns every draft in the directory as its journal describes it. Removes drafts with empty
    /// journals. Drafts that begin from `now` on have higher numbers. Blocks.
    pub(crate) fn recover(
        &self,
        reading: &SpoolReading,
        now: Timestamp,
    ) -> io::Result<Vec<FoundDraft>> {
        // Blank files will be used, and the process that made them may not have synced their names.
        self.slots.sync_names()?;
        // All names first: files are removed during the loop.
        let entries: io::Result<Vec<_>> = fs::read_dir(self.slots.directory())?.collect();
        let paths = Vec::from_iter(entries?.into_iter().map(|entry| entry.path()));
        let read = self.journals(&paths, reading);
        let journals = &read.journals;
        reading.found(journals.len());
        let (mut found, mut left) = (Vec::new(), read.others.len() + read.unread);
        let mut lines = ProgressLines::begin(Instant::now());
        for (done, read) in journals.iter().enumerate() {
            if lines.is_due(Instant::now()) {
                let of = journals.len();
                tracing::info!(done, of, "still reading the drafts in the spool");
            }
            reading.read();
            match self.recover_one(read) {
                Ok(draft) => found.push(draft),
                Err(error) => {
                    left += 1;
                    tracing::error!(%error, path = %read.path.display(), "a draft in the spool cannot be read; it is left as it is");
                }
            }
        }
        if let Some(owned) = read.data_files(self.slots.directory()) {
            let data = paths.iter().filter(|path| is(path, DATA_EXTENSION));
            data.filter(|path| !owned.contains(*path))
                .for_each(|path| slots::remove_file(path));
        }
        left += self.leave_replaced(&mut found, &read) + leave_outdated(&mut found);
        let next = read.next_order(now);
        self.next_order.fetch_max(next, Ordering::Relaxed);
        self.left_alone.store(left, Ordering::Relaxed);
        Ok(found)
    }

    /// Removes editions that a promised one replaces. If one cannot be removed, both are left
    /// alone. Otherwise it would be published over its replacement after the next restart. Returns how many drafts are
    /// left alone.
    fn leave_replaced(&self, found: &mut Vec<FoundDraft>, read: &FoundJournals) -> usize {
        let promised = found.iter().filter(|(_, replayed)| replayed.promised);
        let pairs = promised.filter_map(|(file, it)| Some((file.id(), it.begin.replaces?)));
        let before = found.len();
        for (next, replaced) in Vec::from_iter(pairs) {
            let draft = found.iter_mut().find(|(file, _)| file.id() == replaced);
            let journal = read.journals.iter().find(|read| read.id == replaced);
            let removed = match (draft, journal) {
                (Some((file, replayed)), _) => {
                    replayed.promised = false;
                    file.try_to_remove()
                }
                (None, Some(read)) => self.slots.found(&read.path).and_then(|mut it| it.blank()),
                (None, None) if read.unread == 0 => Ok(()),
                (None, None) => Err(io::Error::other("a journal cannot be read")),
            };
            if let Err(error) = removed {
                tracing::error!(%error, "cannot remove the edition that an object in the spool replaces; both are left there");
                found.retain(|(file, _)| ![next, replaced].contains(&file.id()));
            }
        }
        before - found.len()
    }

    /// Reads the journals. Blanks those that do not count.
    fn journals(&self, paths: &[PathBuf], reading: &SpoolReading) -> FoundJournals {
        let mut found = FoundJournals::default();
        let mut lines = ProgressLines::begin(Instant::now());
        let files = || paths.iter().filter(|path| is(path, JOURNAL_EXTENSION));
        reading.found(files().count());
        for path in files() {
            reading.read();
            if lines.is_due(Instant::now()) {
                let (read, of) = (found.journals.len(), paths.len());
                tracing::info!(read, of, "still reading the journals of the spool");
            }
            match self.journal_at(path) {
                Ok(ReadFile::Journal(read)) => found.journals.push(read),
                Ok(ReadFile::Other(data)) => {
                    found.others.push(data);
                    tracing::error!(path = %path.display(), "a journal of another format is left alone");
                }
                Ok(ReadFile::Blank) => {}
                Err(error) => {
                    found.unread += 1;
                    tracing::error!(%error, path = %path.display(), "a journal in the spool cannot be read; it is left as it is");
                }
            }
        }
        // A journal that was renewed in another file comes before the first, if it is whole.
        let mut journals = found.journals;
        journals.sort_by_key(|read| std::cmp::Reverse((read.is_whole(), read.turn())));
        let mut seen = HashSet::new();
        let (journals, outdated): (Vec<_>, Vec<_>) =
            journals.into_iter().partition(|read| seen.insert(read.id));
        for ReadJournal { path, .. } in outdated {
            if let Err(error) = self.slots.found(&path).and_then(|mut slot| slot.blank()) {
                tracing::error!(%error, path = %path.display(), "an outdated journal in the spool cannot be removed");
            }
        }
        FoundJournals { journals, ..found }
    }

    /// Reads a journal file. Blanks it if it has no records.
    fn journal_at(&self, path: &Path) -> io::Result<ReadFile> {
        match journal::read(&private_files::read(path)?) {
            JournalContents::Journal { id, records, sound } if !records.is_empty() => {
                Ok(ReadFile::Journal(ReadJournal {
                    path: path.to_owned(),
                    id,
                    records,
                    sound,
                }))
            }
            JournalContents::OtherFormat(data) => Ok(ReadFile::Other(data)),
            // Not even its first record was written.
            JournalContents::Journal { .. } | JournalContents::Blank => {
                let blanked = self.slots.found(path)?.blank();
                blanked.map(|()| ReadFile::Blank)
            }
        }
    }

    /// Recovers the draft of a journal.
    fn recover_one(&self, read: &ReadJournal) -> io::Result<FoundDraft> {
        let mut replayed = replay::replay(&read.records).map_err(io::Error::other)?;
        let (slots, memory) = (self.slots.clone(), self.memory.clone());
        let journal = (read.id, read.sound, read.turn());
        let file = SpoolFile::reopen(slots, &read.path, journal, &mut replayed, memory)?;
        self.space.take(replayed.draft.local().bytes());
        Ok((Arc::new(file), replayed))
    }
}

/// Of several promised drafts of one object, removes all but the last. The object of an earlier one was published or
/// given up, and the disk kept its journal. No journal says so. It holds because a draft is discarded before another of
/// the same key begins, if its object is gone or another is renamed over it. If one cannot be removed, or an earlier
/// version has not numbered them, all are left alone. Returns how many.
fn leave_outdated(found: &mut Vec<FoundDraft>) -> usize {
    let mut objects = BTreeMap::<_, Vec<_>>::new();
    for (number, (_, replayed)) in found.iter().enumerate() {
        if replayed.promised {
            let Begin {
                origin, key, order, ..
            } = &replayed.begin;
            let drafts = objects.entry((*origin, key.clone())).or_default();
            drafts.push((*order, number));
        }
    }
    let mut left = Vec::new();
    for ((_, key), mut drafts) in objects {
        drafts.sort_unstable();
        let Some((last, outdated)) = drafts.split_last().filter(|(_, others)| !others.is_empty())
        else {
            continue;
        };
        let is_told = outdated.iter().all(|(order, _)| *order < last.0);
        let removed = match is_told {
            true => outdated.iter().try_for_each(|(_, number)| {
                let (file, replayed) = &mut found[*number];
                replayed.promised = false;
                file.try_to_remove()
            }),
            false => Err(io::Error::other("it is not known which is the last")),
        };
        let Err(error) = removed else {
            tracing::warn!(
                key,
                "the spool had an older state of an object; it is removed"
            );
            continue;
        };
        tracing::error!(%error, key, "the spool has an object twice; both are left there");
        left.extend(drafts.into_iter().map(|(_, number)| found[number].0.id()));
    }
    found.retain(|(file, _)| !left.contains(&file.id()));
    left.len()
}
