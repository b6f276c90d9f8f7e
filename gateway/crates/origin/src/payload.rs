//! The body of a write: bytes of a known length and checksum that can be read repeatedly.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::{Body, Sums};

/// A function that opens the bytes anew for each try.
pub type Frames = Arc<dyn Fn() -> Body + Send + Sync>;

/// The body of a write. Its length and checksums are known before its first byte is sent, and it can be sent again.
/// Clones share the bytes.
#[derive(Clone)]
pub struct Payload {
    length: u64,
    sums: Sums,
    frames: Frames,
}

impl Payload {
    /// Creates a payload of `length` bytes with the checksums `sums`, which are read anew for each try.
    #[must_use]
    pub fn read(length: u64, sums: Sums, frames: Frames) -> Self {
        Self {
            length,
            sums,
            frames,
        }
    }

    /// Creates a payload of pieces in memory.
    #[must_use]
    pub fn pieces(pieces: Vec<Bytes>) -> Self {
        let sums = pieces.iter().fold(Sums::default(), |sums, piece| {
            sums.joined(Sums::of(piece), piece.len() as u64)
        });
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        let pieces = Arc::new(pieces);
        let frames = move || -> Body {
            let pieces = pieces.clone();
            let frame = move |at| pieces.get(at).cloned().map(|piece| (Ok(piece), at + 1));
            Box::pin(stream::unfold(0, move |at| std::future::ready(frame(at))))
        };
        Self::read(length, sums, Arc::new(frames))
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the checksums of all bytes.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.sums
    }

    /// Opens the bytes from the first.
    #[must_use]
    pub fn open(&self) -> Body {
        (self.frames)()
    }

    /// Returns the same bytes; `seen` gets the length of each piece as the piece is taken.
    #[must_use]
    pub fn observed(self, seen: impl Fn(usize) + Send + Sync + 'static) -> Self {
        let (frames, seen) = (self.frames, Arc::new(seen));
        let observed = move || -> Body {
            let seen = seen.clone();
            Box::pin(frames().inspect(move |item| {
                if let Ok(piece) = item {
                    seen(piece.len());
                }
            }))
        };
        Self {
            frames: Arc::new(observed),
            ..self
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::pieces(vec![bytes])
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload")
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the checksums with the check values of the algorithms' parameters.
    #[tokio::test]
    async fn is_checked_as_a_whole_and_read_as_often_as_wanted() {
        let payload = Payload::pieces(vec!["1234".into(), "".into(), "56789".into()]);
        assert_eq!(payload.sums().crc64, 0xae8b_1486_0a79_9888);
        assert_eq!(payload.sums().crc32c, 0xe306_9283);
        assert_eq!((payload.len(), payload.is_empty()), (9, false));
        for _ in 0..2 {
            let pieces: Vec<_> = payload.open().collect().await;
            let whole: Vec<u8> = pieces.into_iter().flat_map(|p| p.expect("bytes")).collect();
            assert_eq!(whole, b"123456789");
        }
    }
}
