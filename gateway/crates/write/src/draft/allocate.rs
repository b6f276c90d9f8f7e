//! Room that is set aside for a draft, and ranges that become zeros.

use bytes::Bytes;

use crate::draft::state::DraftState;
use crate::{WriteError, Writer};
use tidegate_plan::ByteRange;

/// Zeros that are written at once.
const ZEROS: &[u8] = &[0; 1 << 20];

impl Writer {
    /// Sets room in the spool aside for the bytes of a range that are not in it yet. Later writes of this draft use it
    /// up; what is left is free again once the draft is published or given up. Does not wait.
    ///
    /// # Errors
    /// [`WriteError::Full`] if there is less room now.
    pub fn set_aside(&self, range: ByteRange) -> Result<(), WriteError> {
        let space = &self.writing.inner.spool.space;
        let mut state = self.writing.state();
        let missing = state.draft.growth(range).saturating_sub(state.set_aside);
        if missing > 0 && !space.try_take(missing) {
            return Err(WriteError::Full);
        }
        state.set_aside += missing;
        Ok(())
    }

    /// Makes a range zero, as far as the object goes. A range up to its end takes no room.
    ///
    /// # Errors
    /// As for [`Writer::write_at`] and [`Writer::truncate`].
    pub async fn zero(&self, range: ByteRange) -> Result<(), WriteError> {
        let size = self.size();
        let Some(range) = range.intersect(ByteRange::new(0, size)) else {
            return Ok(());
        };
        if range.end == size {
            self.truncate(range.start).await?;
            return self.truncate(size).await;
        }
        let mut at = range.start;
        while at < range.end {
            let length = ZEROS
                .len()
                .min(usize::try_from(range.end - at).unwrap_or(usize::MAX));
            self.write_at(at, Bytes::from_static(&ZEROS[..length]))
                .await?;
            at += length as u64;
        }
        Ok(())
    }
}

impl DraftState {
    /// Uses room that was set aside for a write; returns how much of it more is needed.
    pub(crate) fn use_set_aside(&mut self, bytes: u64) -> u64 {
        let used = bytes.min(self.set_aside);
        self.set_aside -= used;
        bytes - used
    }
}
