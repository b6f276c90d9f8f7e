//! Attributes in the form in which the table and its file keep them: 40 bytes, of which there are many.

use super::KnownAttributes;
use tidegate_plan::attributes::{Attributes, UnixTime};

/// The flags: which attributes there are.
const HAS_MODE: u16 = 1;
const HAS_UID: u16 = 1 << 1;
const HAS_GID: u16 = 1 << 2;
const HAS_MODIFIED: u16 = 1 << 3;
const HAS_ACCESSED: u16 = 1 << 4;
/// They are known.
const IS_KNOWN: u16 = 1 << 5;
/// They are not stored with the object yet.
const IS_PENDING: u16 = 1 << 6;

/// Bytes of packed attributes in the file.
pub(super) const PACKED_BYTES: usize = 2 * 2 + 2 * 4 + 2 * (8 + 4);

/// See the module documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PackedAttributes {
    secs: [i64; 2],
    nanos: [u32; 2],
    owners: [u32; 2],
    mode: u16,
    flags: u16,
}

impl From<KnownAttributes> for PackedAttributes {
    fn from(attributes: KnownAttributes) -> Self {
        let known = attributes.get().unwrap_or_default();
        let mut flags = match attributes {
            KnownAttributes::Unknown => 0,
            KnownAttributes::Stored(_) => IS_KNOWN,
            KnownAttributes::Pending(_) => IS_KNOWN | IS_PENDING,
        };
        for (has, flag) in [
            (known.mode.is_some(), HAS_MODE),
            (known.uid.is_some(), HAS_UID),
            (known.gid.is_some(), HAS_GID),
            (known.modified.is_some(), HAS_MODIFIED),
            (known.accessed.is_some(), HAS_ACCESSED),
        ] {
            flags |= if has { flag } else { 0 };
        }
        let times = [known.modified, known.accessed];
        let times = times.map(|time| time.unwrap_or(UnixTime::new(0, 0)));
        Self {
            secs: times.map(UnixTime::secs),
            nanos: times.map(UnixTime::nanos),
            owners: [known.uid, known.gid].map(Option::unwrap_or_default),
            // A mode has 16 bits.
            mode: u16::try_from(known.mode.unwrap_or(0)).unwrap_or(0),
            flags,
        }
    }
}

impl From<PackedAttributes> for KnownAttributes {
    fn from(packed: PackedAttributes) -> Self {
        let has = |flag| packed.flags & flag != 0;
        let time = |at: usize| UnixTime::new(packed.secs[at], packed.nanos[at]);
        let known = Attributes {
            mode: has(HAS_MODE).then_some(packed.mode.into()),
            uid: has(HAS_UID).then_some(packed.owners[0]),
            gid: has(HAS_GID).then_some(packed.owners[1]),
            modified: has(HAS_MODIFIED).then(|| time(0)),
            accessed: has(HAS_ACCESSED).then(|| time(1)),
        };
        match (has(IS_KNOWN), has(IS_PENDING)) {
            (false, _) => Self::Unknown,
            (true, false) => Self::Stored(known),
            (true, true) => Self::Pending(known),
        }
    }
}

impl PackedAttributes {
    /// Appends the bytes of the file's form.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&self.mode.to_le_bytes());
        bytes.extend(self.owners.iter().flat_map(|owner| owner.to_le_bytes()));
        for (secs, nanos) in self.secs.iter().zip(&self.nanos) {
            bytes.extend_from_slice(&secs.to_le_bytes());
            bytes.extend_from_slice(&nanos.to_le_bytes());
        }
    }

    /// Takes the file's form off the beginning of a row.
    pub(super) fn decode(row: &mut &[u8]) -> Option<Self> {
        let flags = u16::from_le_bytes(take(row)?);
        let mode = u16::from_le_bytes(take(row)?);
        let owners = [
            u32::from_le_bytes(take(row)?),
            u32::from_le_bytes(take(row)?),
        ];
        let (mut secs, mut nanos) = ([0; 2], [0; 2]);
        for at in 0..2 {
            secs[at] = i64::from_le_bytes(take(row)?);
            nanos[at] = u32::from_le_bytes(take(row)?);
        }
        Some(Self {
            secs,
            nanos,
            owners,
            mode,
            flags,
        })
    }
}

/// Takes a number of bytes off the beginning of a row.
pub(super) fn take<const N: usize>(row: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = row.split_first_chunk()?;
    *row = rest;
    Some(*first)
}
