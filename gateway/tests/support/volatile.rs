//! A disk in memory that tracks durable data, and loses the rest at a power cut.
//!
//! The rules are those of POSIX read strictly. `fsync` of a file makes its bytes and its length durable, not its name;
//! `fsync` of a folder makes the names in it durable. Every other change may be on the disk or not at a cut. A write
//! may be there whole, not at all, up to some byte, or in single pages or sectors; a length may be there without its
//! bytes; a name may be made, moved or removed. Changes may reach the disk in any order.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use bytes::Bytes;

use crate::draw::Draw;

/// Bytes of a page, and of a sector.
pub(crate) const PAGE: u64 = 4096;
const SECTOR: u64 = 512;

/// The number of the topmost folder, as FUSE has it.
pub(crate) const ROOT: u64 = 1;

/// The bytes of a file; pages that were never written are zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Image {
    pages: BTreeMap<u64, Arc<Vec<u8>>>,
    pub(crate) len: u64,
}

impl Image {
    /// Returns up to `size` bytes from `at` on; fewer at the end of the file.
    pub(crate) fn read(&self, at: u64, size: u64) -> Vec<u8> {
        let end = self.len.min(at.saturating_add(size));
        let mut bytes = Vec::new();
        let mut at = at;
        while at < end {
            let (page, from) = (at / PAGE, at % PAGE);
            let to = PAGE.min(from + end - at);
            match self.pages.get(&page) {
                Some(page) => bytes.extend_from_slice(&page[from as usize..to as usize]),
                None => bytes.resize(bytes.len() + (to - from) as usize, 0),
            }
            at += to - from;
        }
        bytes
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.len = self.len.max(at + bytes.len() as u64);
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let (page, from) = (at / PAGE, (at % PAGE) as usize);
            let (now, later) = rest.split_at(rest.len().min(PAGE as usize - from));
            let page = self.pages.entry(page);
            let page = page.or_insert_with(|| Arc::new(vec![0; PAGE as usize]));
            Arc::make_mut(page)[from..from + now.len()].copy_from_slice(now);
            at += now.len() as u64;
            rest = later;
        }
    }

    fn resize(&mut self, len: u64) {
        if len < self.len {
            self.zero(len, self.len - len);
        }
        self.len = len;
    }

    /// Zeroes a range, and frees the pages that it covers.
    fn zero(&mut self, at: u64, len: u64) {
        let end = at.saturating_add(len);
        let covered = at.div_ceil(PAGE)..(end / PAGE).max(at.div_ceil(PAGE));
        let gone: Vec<u64> = self.pages.range(covered).map(|(page, _)| *page).collect();
        for page in gone {
            self.pages.remove(&page);
        }
        for page in [at / PAGE, end / PAGE] {
            if let Some(bytes) = self.pages.get_mut(&page) {
                let from = at.max(page * PAGE).min((page + 1) * PAGE) - page * PAGE;
                let to = end.clamp(page * PAGE, (page + 1) * PAGE) - page * PAGE;
                if from < to {
                    Arc::make_mut(bytes)[from as usize..to as usize].fill(0);
                }
            }
        }
    }

    /// Returns the number of bytes that it occupies.
    pub(crate) fn allocated(&self) -> u64 {
        self.pages.len() as u64 * PAGE
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(at, bytes) | Change::Direct(at, bytes) => self.write(*at, bytes),
            Change::Resize(len) => self.resize(*len),
            Change::Grow(len) => self.len = self.len.max(*len),
            Change::Zero(at, len) => self.zero(*at, *len),
        }
    }

    /// Applies the part of a write that a cut leaves.
    fn apply_torn(&mut self, at: u64, bytes: &[u8], draw: &mut Draw) {
        let len = bytes.len() as u64;
        if draw.below(3) == 0 {
            let prefix = draw.below(len + 1);
            return self.write(at, &bytes[..prefix as usize]);
        }
        let unit = if draw.below(2) == 0 { PAGE } else { SECTOR };
        let mut from = at;
        while from < at + len {
            let to = ((from / unit + 1) * unit).min(at + len);
            if draw.below(2) == 0 {
                self.write(from, &bytes[(from - at) as usize..(to - at) as usize]);
            }
            from = to;
        }
    }
}

/// A change of a file.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Writes these bytes at this offset.
    Write(u64, Bytes),
    /// The same, past the file cache.
    Direct(u64, Bytes),
    /// Sets this length.
    Resize(u64),
    /// Grows to this length at least.
    Grow(u64),
    /// Zeroes from this offset on, for this length.
    Zero(u64, u64),
}

/// A file or folder.
#[derive(Debug, Default, Clone)]
pub(crate) struct Node {
    pub(crate) is_folder: bool,
    pub(crate) now: Image,
    durable: Image,
    pending: Vec<Change>,
    /// Whether a change could not be written, which the next sync reports.
    failing: bool,
}

impl Node {
    pub(crate) fn change(&mut self, change: Change) {
        self.now.apply(&change);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            self.durable.apply(&change);
        }
    }

    /// Loses the last change, which the next sync will report.
    fn lose_last(&mut self) {
        self.pending.pop();
        self.look();
        self.failing = true;
    }

    /// Loses the file cache's bytes, as a system does that could not write them: later reads see the rest. The length
    /// stays, and bytes that were cut off or punched do not return.
    fn lose(&mut self) {
        for change in &mut self.pending {
            if let Change::Write(at, bytes) = change {
                *change = Change::Grow(*at + bytes.len() as u64);
            }
        }
        self.look();
    }

    fn look(&mut self) {
        self.now = self.durable.clone();
        for change in &self.pending {
            self.now.apply(change);
        }
    }

    fn cut(&mut self, draw: &mut Draw) {
        // A disk may have written all changes, or none.
        let habit = draw.below(4);
        for change in std::mem::take(&mut self.pending) {
            match (habit, &change) {
                (0, _) => {}
                (1, _) => self.durable.apply(&change),
                (_, Change::Write(at, bytes) | Change::Direct(at, bytes)) => match draw.below(5) {
                    0 => {}
                    1 => self.durable.apply(&Change::Grow(at + bytes.len() as u64)),
                    2 => self.durable.apply(&change),
                    _ => self.durable.apply_torn(*at, bytes, draw),
                },
                (_, _) if draw.below(2) == 0 => self.durable.apply(&change),
                _ => {}
            }
        }
        self.now = self.durable.clone();
    }
}

/// A name: its folder, and the name itself.
type Name = (u64, OsString);

/// A change of names; a move both removes and makes one.
#[derive(Debug, Clone)]
struct Renaming {
    gone: Option<Name>,
    made: Option<(Name, u64)>,
}

impl Renaming {
    fn apply(&self, names: &mut BTreeMap<Name, u64>) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((made, number)) = &self.made {
            names.insert(made.clone(), *number);
        }
    }

    fn touches(&self, folder: u64) -> bool {
        let made = self.made.as_ref().map(|(name, _)| name);
        self.gone.iter().chain(made).any(|(of, _)| *of == folder)
    }
}

/// The disk.
#[derive(Debug, Clone)]
pub(crate) struct Volatile {
    pub(crate) nodes: HashMap<u64, Node>,
    names: BTreeMap<Name, u64>,
    durable: BTreeMap<Name, u64>,
    pending: Vec<Renaming>,
    next: u64,
}

impl Default for Volatile {
    fn default() -> Self {
        let root = Node {
            is_folder: true,
            ..Node::default()
        };
        Self {
            nodes: HashMap::from([(ROOT, root)]),
            names: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            next: ROOT + 1,
        }
    }
}

impl Volatile {
    pub(crate) fn find(&self, folder: u64, name: &OsStr) -> Option<u64> {
        self.names.get(&(folder, name.to_owned())).copied()
    }

    /// Returns the names in a folder.
    pub(crate) fn list(&self, folder: u64) -> Vec<(OsString, u64)> {
        let from = (folder, OsString::new())..(folder + 1, OsString::new());
        let names = self.names.range(from);
        names
            .map(|((_, name), node)| (name.clone(), *node))
            .collect()
    }

    /// Returns the name of a node, empty if it has none any more.
    pub(crate) fn name_of(&self, node: u64) -> &OsStr {
        let named = self.names.iter().find(|(_, named)| **named == node);
        named.map_or(OsStr::new(""), |((_, name), _)| name)
    }

    /// Loses the last change of a file on its way to the disk: the next sync fails.
    pub(crate) fn lose_last(&mut self, node: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.lose_last();
        }
    }

    /// Returns whether a change of a file was lost on its way; reports each loss once.
    pub(crate) fn has_lost(&mut self, node: u64) -> bool {
        let node = self.nodes.get_mut(&node);
        node.is_some_and(|node| std::mem::take(&mut node.failing))
    }

    /// Loses the unsynced bytes of a file.
    pub(crate) fn lose(&mut self, node: u64) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.lose();
        }
    }

    /// Returns the number of names of a node.
    pub(crate) fn links(&self, node: u64) -> u32 {
        let names = self.names.values().filter(|named| **named == node);
        u32::try_from(names.count()).expect("few")
    }

    pub(crate) fn make(&mut self, folder: u64, name: &OsStr, is_folder: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        let node = Node {
            is_folder,
            ..Node::default()
        };
        self.nodes.insert(number, node);
        self.rename_to(None, Some(((folder, name.to_owned()), number)));
        number
    }

    /// Removes a name; returns `false` if it does not exist.
    pub(crate) fn unlink(&mut self, folder: u64, name: &OsStr) -> bool {
        let there = self.find(folder, name).is_some();
        if there {
            self.rename_to(Some((folder, name.to_owned())), None);
        }
        there
    }

    /// Moves a name over another; returns `false` if it does not exist.
    pub(crate) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) -> bool {
        let Some(node) = self.find(from.0, from.1) else {
            return false;
        };
        let gone = (from.0, from.1.to_owned());
        let made = ((to.0, to.1.to_owned()), node);
        self.rename_to(Some(gone), Some(made));
        true
    }

    fn rename_to(&mut self, gone: Option<Name>, made: Option<(Name, u64)>) {
        let renaming = Renaming { gone, made };
        renaming.apply(&mut self.names);
        self.pending.push(renaming);
    }

    /// Makes a file durable, or the names in a folder.
    pub(crate) fn sync(&mut self, node: u64) {
        let pending = std::mem::take(&mut self.pending).into_iter();
        let (own, others): (Vec<_>, _) = pending.partition(|renaming| renaming.touches(node));
        self.pending = others;
        for renaming in own {
            renaming.apply(&mut self.durable);
        }
        if let Some(node) = self.nodes.get_mut(&node) {
            node.sync();
        }
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&mut self) {
        for renaming in self.pending.drain(..) {
            renaming.apply(&mut self.durable);
        }
        for node in self.nodes.values_mut() {
            node.sync();
        }
    }

    /// Cuts the power: each unsynced change is there or not, as drawn.
    pub(crate) fn cut(&mut self, draw: &mut Draw) {
        let pending = std::mem::take(&mut self.pending);
        // A file system with a journal keeps the order of names; another need not.
        let in_order = draw.below(2) == 0;
        let kept = draw.below(pending.len() as u64 + 1) as usize;
        for (at, renaming) in pending.iter().enumerate() {
            let applies = match in_order {
                true => at < kept,
                false => draw.below(2) == 0,
            };
            if applies {
                renaming.apply(&mut self.durable);
            }
        }
        self.names = self.durable.clone();
        let named: std::collections::HashSet<u64> = self.names.values().copied().collect();
        self.nodes
            .retain(|number, _| *number == ROOT || named.contains(number));
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let node = self.nodes.get_mut(&number).expect("listed");
            node.cut(draw);
        }
    }
}

#[cfg(test)]
#[path = "volatile/tests.rs"]
mod tests;
