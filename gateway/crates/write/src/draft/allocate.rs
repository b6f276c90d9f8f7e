//! Room that is set aside for a draft, and ranges that become zeros.

use bytes::Bytes;

use crate::draft::write::{Resize, WritePlace};
use crate::{WriteError, Writer};
use tidegate_plan::ByteRange;

/// Zeros that are written at once.
const ZEROS: &[u8] = &[0; 1 << 20];

impl Writer {
    /// Sets room in the spool aside for the bytes of a range that are not in it yet. Later writes to the range use it
    /// up; what is left is free again once the draft is published or given up. Does not wait.
    ///
    /// # Errors
    /// [`WriteError::Full`] if there is less room now.
    pub fn set_aside(&self, range: ByteRange) -> Result<(), WriteError> {
        let space = &self.writing.inner.spool.space;
        let mut state = self.writing.state();
        let missing = state.without_room(range);
        let bytes = missing.iter().map(|gap| gap.len()).sum();
        if bytes > 0 && !space.try_take(bytes) {
            return Err(WriteError::Full);
        }
        for gap in missing {
            state.room_mut().set_aside(gap);
        }
        Ok(())
    }

    /// Makes a range zero, as far as the object goes, and leaves the length to other writers. A range up to the end
    /// becomes zero at once, and takes no room.
    ///
    /// # Errors
    /// As for [`Writer::write_at`] and [`Writer::truncate`].
    pub async fn zero(&self, range: ByteRange) -> Result<(), WriteError> {
        if self.resize(Resize::Zero(range)).await? <= range.end {
            return Ok(());
        }
        let mut at = range.start;
        while at < range.end.min(self.size()) {
            let length = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let zeros = &ZEROS[..length.min(ZEROS.len())];
            self.write(WritePlace::Within(at), Bytes::from_static(zeros))
                .await?;
            at += zeros.len() as u64;
        }
        Ok(())
    }
}
