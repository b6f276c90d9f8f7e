//! The file that the blocks of marks are in.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use super::block::{BLOCK_SIZE, MarkBlock, unpack};
use crate::private_files;

/// The most blocks: 16 MiB. If all have marks, writes are refused until the database has caught up.
pub(super) const MAX_BLOCKS: u32 = 4096;

/// Blocks that the file grows by, as zeros: a flush of an existing block waits for no metadata of the
/// file system.
const GROWTH_BLOCKS: u32 = 64;

/// The file.
#[derive(Debug)]
pub(in crate::meta) struct MarkFile {
    path: PathBuf,
    /// `None` after a failure.
    file: Option<File>,
    /// The blocks in the file.
    blocks: u32,
}

impl MarkFile {
    /// Reads the marks that an earlier process left, as the keys of their rows. A missing file has none.
    /// Blocks.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(in crate::meta) fn read_keys(path: &Path) -> io::Result<Vec<Vec<u8>>> {
        let bytes = match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        Ok(bytes.chunks(BLOCK_SIZE).flat_map(unpack).collect())
    }

    /// Creates an empty file in its place. Blocks. After a failure the next mark tries again.
    pub(in crate::meta) fn create(path: &Path) -> Self {
        let mut file = Self {
            path: path.to_path_buf(),
            file: None,
            blocks: 0,
        };
        if let Err(error) = file.begin(true, &[]) {
            tracing::warn!(path = %path.display(), %error, "cannot make the file of marks; writes are refused until it can be made");
        }
        file
    }

    /// Returns whether the file is open, and still has its name.
    pub(super) fn is_there(&self) -> bool {
        let links = |file: &File| file.metadata().is_ok_and(|found| found.nlink() > 0);
        self.file.as_ref().is_some_and(links)
    }

    /// Writes blocks, and makes them durable. `live` are the other valid blocks, written if the file is
    /// missing.
    pub(super) fn write<'a>(
        &mut self,
        blocks: impl Iterator<Item = (u32, &'a MarkBlock)>,
        live: &[(u32, MarkBlock)],
    ) -> io::Result<()> {
        let written = self.try_write(blocks, live);
        if written.is_err() {
            // The next mark tries again.
            self.file = None;
        }
        written
    }

    fn try_write<'a>(
        &mut self,
        blocks: impl Iterator<Item = (u32, &'a MarkBlock)>,
        live: &[(u32, MarkBlock)],
    ) -> io::Result<()> {
        if !self.is_there() {
            self.begin(false, live)?;
        }
        for (number, block) in blocks {
            self.put(number, block)?;
        }
        self.open_file()?.sync_data()
    }

    /// Zeroes a block, without a flush.
    pub(super) fn clear(&mut self, number: u32) -> io::Result<()> {
        match &self.file {
            Some(file) => file.write_all_at(&[0; BLOCK_SIZE], at(number)),
            None => Ok(()),
        }
    }

    /// Opens the file, or creates it, with `live` in it; the content and the name are durable.
    fn begin(&mut self, empty: bool, live: &[(u32, MarkBlock)]) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            private_files::make_dir(dir)?;
        }
        let mut options = private_files::file_options();
        let options = options.read(true).write(true).create(true).truncate(empty);
        let file = options.open(&self.path)?;
        private_files::close_to_others(&file, &self.path);
        let length = file.metadata()?.len() / BLOCK_SIZE as u64;
        self.blocks = u32::try_from(length).unwrap_or(MAX_BLOCKS);
        self.file = Some(file);
        self.grow_to(GROWTH_BLOCKS)?;
        for (number, block) in live {
            self.put(*number, block)?;
        }
        self.open_file()?.sync_all()?;
        private_files::sync_name(&self.path)
    }

    fn put(&mut self, number: u32, block: &MarkBlock) -> io::Result<()> {
        self.grow_to(number + 1)?;
        let mut page = [0; BLOCK_SIZE];
        page[..block.bytes.len()].copy_from_slice(&block.bytes);
        self.open_file()?.write_all_at(&page, at(number))
    }

    fn grow_to(&mut self, blocks: u32) -> io::Result<()> {
        while self.blocks < blocks {
            let zeros = vec![0; BLOCK_SIZE * GROWTH_BLOCKS as usize];
            self.open_file()?.write_all_at(&zeros, at(self.blocks))?;
            self.blocks += GROWTH_BLOCKS;
        }
        Ok(())
    }

    fn open_file(&self) -> io::Result<&File> {
        self.file
            .as_ref()
            .ok_or_else(|| io::Error::other("the file of marks is closed after a failure"))
    }
}

fn at(number: u32) -> u64 {
    u64::from(number) * BLOCK_SIZE as u64
}
