//! Symbolic links: small objects whose metadata says so, with the target as their content.

use std::ffi::OsString;
use std::path::PathBuf;

use bytes::Bytes;
use fuser::Errno;

use super::attributes::Creator;
use super::change::{key, run_to_end};
use super::draft::headers_of;
use super::{Files, TimedAttr};
use crate::errno;
use tidegate_engine::OpenOptions;
use tidegate_engine::names::NameKind;
use tidegate_plan::attributes::{LINK, MAX_LINK, link_header, link_target};
use tidegate_plan::{ByteRange, RangeSpec};
use tidegate_write::{OpenMode, WriteError};

impl Files {
    /// Makes a symbolic link.
    pub(crate) async fn symlink(
        &self,
        (folder, name): (u64, OsString),
        target: PathBuf,
        creator: Creator,
    ) -> Result<TimedAttr, Errno> {
        let writers = self.writers()?;
        if !self.keeps_attributes() {
            return Err(Errno::EPERM);
        }
        // A key is text, and so is a target: programs of other machines read both.
        let target = target
            .into_os_string()
            .into_string()
            .map_err(|_| Errno::EILSEQ)?;
        if target.len() as u64 > MAX_LINK {
            return Err(Errno::ENAMETOOLONG);
        }
        let (folder, path, used) = self.use_name(&(folder, name)).await?;
        let key = key(&path)?;
        if self.resolve(&path).await?.entry != NameKind::Missing {
            return Err(Errno::EEXIST);
        }
        let attributes = self.new_attributes(&creator, folder, LINK);
        let mut headers = headers_of(&key, attributes);
        headers.retain(|(name, _)| *name != http::header::CONTENT_TYPE);
        headers.extend(link_header(&target));
        let commit = self.writable.as_ref().ok_or(Errno::EROFS)?.commit;
        let (source, of) = (self.source.clone(), key.clone());
        let work = async move {
            let _used = used;
            let opened = writers.open(&source, &of, OpenMode::CreateNew, headers);
            let made = async {
                let writer = opened.await?;
                let written = writer.write_at(0, Bytes::from(target)).await;
                let made = match written {
                    Ok(()) => writer.commit(commit).await,
                    failed => failed,
                };
                if made.is_err() {
                    // Else it would appear after the error.
                    writers.discard(&source, &of).await;
                }
                made
            };
            made.await.map_err(|error| match error {
                // Another writer was faster.
                WriteError::Changed => Errno::EEXIST,
                error => errno::written(&error, of.as_str()),
            })
        };
        run_to_end(work).await?;
        self.touch_folder(folder);
        self.tell_others(key);
        let answer = self.resolve(&path).await?;
        let shown = self.tell(folder, &path, &answer.entry, answer.fresh);
        shown.ok_or(Errno::EIO)
    }

    /// Returns the target of a symbolic link.
    pub(crate) async fn readlink(&self, ino: u64) -> Result<Vec<u8>, Errno> {
        let node = self.file_node(ino)?;
        if let Some(writable) = &self.writable
            && let Ok(key) = super::key_of(&node)
            && let Some(writer) = writable.writers.find(&self.source, &key)
            && writer.is_dirty()
        {
            let read = writer.read_at(ByteRange::new(0, MAX_LINK));
            return Ok(self.progressing(&writer, read).await?.to_vec());
        }
        let how = OpenOptions {
            first: Some(RangeSpec::Bounded {
                first: 0,
                last: MAX_LINK - 1,
            }),
            ..OpenOptions::default()
        };
        let object = self.object(&node, how).await?;
        if let Some(target) = link_target(&object.version().headers) {
            return Ok(target.into_bytes());
        }
        let read = self.read_version(None, &object, 0..MAX_LINK).await;
        let read = read.map_err(|error| errno::logged(&error, &node.key()))?;
        match read.as_ref().trim_ascii() {
            [] => Err(Errno::EIO),
            target => Ok(target.to_vec()),
        }
    }
}
