//! Where the records of a journal end, for tests that cut it there.

use super::{Frame, Record, identity, next};

/// Returns the records of a journal, and the length of the file up to each one's end; `None`: it is blank.
pub(crate) fn records_with_ends(bytes: &[u8]) -> Option<Vec<(Record, u64)>> {
    let (id, mut rest) = identity(bytes)?;
    let mut records = Vec::new();
    while let Some((frame, length)) = next(id, rest) {
        rest = &rest[length..];
        match frame {
            Frame::Raw => {}
            Frame::Record(record) => records.push((record, (bytes.len() - rest.len()) as u64)),
            Frame::Unknown => panic!("a record of another version"),
        }
    }
    Some(records)
}
