//! `multipart/byteranges`: several pieces of one object in one body (RFC 9110, 14.6).

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use bytes::Bytes;
use http::HeaderValue;

use tidegate_plan::ByteRange;

/// The parts still to be sent, each with its heading.
#[derive(Debug)]
pub(crate) struct Multipart {
    parts: VecDeque<(Bytes, Option<ByteRange>)>,
    boundary: String,
    len: u64,
}

impl Multipart {
    /// Returns the parts for `pieces` of an object of `size` bytes and of type `content_type`.
    /// `salt` makes the boundary differ from answer to answer.
    pub(crate) fn new(
        pieces: &[ByteRange],
        size: u64,
        content_type: Option<&HeaderValue>,
        salt: u64,
    ) -> Self {
        let boundary = boundary(salt);
        let mut parts = VecDeque::with_capacity(pieces.len() + 1);
        for (index, range) in pieces.iter().enumerate() {
            let head = heading(&boundary, index == 0, *range, size, content_type);
            parts.push_back((head, Some(*range)));
        }
        parts.push_back((format!("\r\n--{boundary}--\r\n").into(), None));
        let length = |(head, range): &(Bytes, Option<ByteRange>)| {
            head.len() as u64 + range.map_or(0, ByteRange::len)
        };
        let len = parts.iter().map(length).sum();
        Self {
            parts,
            boundary,
            len,
        }
    }

    /// Returns the bytes of the whole body.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the answer's `Content-Type`.
    pub(crate) fn content_type(&self) -> HeaderValue {
        HeaderValue::try_from(format!("multipart/byteranges; boundary={}", self.boundary))
            .expect("letters and digits are a valid header value")
    }

    /// Returns the next heading and the bytes after it; the last has none.
    pub(crate) fn next(&mut self) -> Option<(Bytes, Option<ByteRange>)> {
        self.parts.pop_front()
    }
}

/// Returns a boundary that a writer of objects cannot foresee, so that objects contain it only by
/// chance.
fn boundary(salt: u64) -> String {
    static BOUNDARY_SECRET: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    let [a, b] = &*BOUNDARY_SECRET;
    format!("{:016x}{:016x}", a.hash_one(salt), b.hash_one(salt))
}

fn heading(
    boundary: &str,
    first: bool,
    range: ByteRange,
    size: u64,
    content_type: Option<&HeaderValue>,
) -> Bytes {
    let mut text = Vec::with_capacity(160);
    let lead = if first { "" } else { "\r\n" };
    text.extend_from_slice(format!("{lead}--{boundary}\r\n").as_bytes());
    if let Some(value) = content_type {
        text.extend_from_slice(b"Content-Type: ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    let last = range.end - 1;
    let line = format!("Content-Range: bytes {}-{last}/{size}\r\n\r\n", range.start);
    text.extend_from_slice(line.as_bytes());
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_as_rfc_9110_14_6_shows() {
        let pieces = [ByteRange::new(500, 1000), ByteRange::new(7000, 8000)];
        let kind = HeaderValue::from_static("application/pdf");
        let mut parts = Multipart::new(&pieces, 8000, Some(&kind), 1);
        let b = parts.boundary.clone();
        assert_eq!(b.len(), 32);
        assert_eq!(
            parts.content_type(),
            format!("multipart/byteranges; boundary={b}")
        );
        let expected = [
            format!(
                "--{b}\r\nContent-Type: application/pdf\r\nContent-Range: bytes 500-999/8000\r\n\r\n"
            ),
            format!(
                "\r\n--{b}\r\nContent-Type: application/pdf\r\nContent-Range: bytes 7000-7999/8000\r\n\r\n"
            ),
            format!("\r\n--{b}--\r\n"),
        ];
        let total = expected.iter().map(|text| text.len() as u64).sum::<u64>() + 1500;
        assert_eq!(parts.len(), total);
        for (text, range) in expected
            .iter()
            .zip([Some(pieces[0]), Some(pieces[1]), None])
        {
            assert_eq!(parts.next(), Some((Bytes::from(text.clone()), range)));
        }
        assert_eq!(parts.next(), None);
        assert_ne!(boundary(1), boundary(2));
    }
}
