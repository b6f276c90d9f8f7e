//! The encoders, and the memory that each of them takes.
//!
//! They are used directly, because tower-http's layer fixes brotli's window at 22 bits and so takes 6 MiB for each
//! answer under way.

use std::fmt;
use std::io::{self, Write};

use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use brotli::enc::{BrotliAlloc, StandardAlloc};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use tidegate_plan::Coding;

/// The block size of an encoder's input. Only the last block may be shorter, because the output must not depend on how
/// the bytes arrived.
pub(super) const BLOCK_BYTES: usize = 64 << 10;

/// Brotli's quality, from 0 to 11: the first that searches with a hash chain and models contexts.
const BROTLI_QUALITY: u32 = 5;

/// Logarithm of brotli's window. Brotli gathers twice its 256 KiB before any output, with a command for each match in
/// them: another bit costs 4 MiB of memory and gains next to nothing.
const BROTLI_WINDOW: u32 = 18;

/// zlib's own default.
const GZIP_LEVEL: u32 = 6;

/// The maximum allocation of a brotli encoder of this quality and window, for objects of any size and for [`SMALL_OBJECT`]
/// ones; `an_encoder_takes_no_more_than_is_said` measures it.
const BROTLI_BYTES: u64 = 7 << 20;
const BROTLI_BYTES_OF_SMALL: u64 = 9 << 19;
const SMALL_OBJECT: u64 = 300 << 10;

/// The maximum allocation of a gzip encoder, whose window is 32 KiB: `zlib-rs` takes 268 KiB, `miniz_oxide` 390 KiB.
const GZIP_BYTES: u64 = 512 << 10;

/// An encoder of one object's bytes.
pub(super) enum Encoder {
    Brotli(Box<Brotli<StandardAlloc>>),
    Gzip(Box<GzEncoder<Pieces>>),
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// Creates an encoder for `size` bytes, whose output is cut into pieces of `piece` bytes. Fails for a coding that
    /// is only passed on; writing fails once the output exceeds [`worthwhile`].
    pub(super) fn new(coding: Coding, size: u64, piece: u64) -> io::Result<Self> {
        let out = Pieces::new(worthwhile(size), piece);
        match coding {
            Coding::Brotli => {
                let brotli = Brotli::new(StandardAlloc::default(), size, out);
                Ok(Self::Brotli(Box::new(brotli)))
            }
            Coding::Gzip => {
                let gzip = GzEncoder::new(out, Compression::new(GZIP_LEVEL));
                Ok(Self::Gzip(Box::new(gzip)))
            }
            Coding::Zstd => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the maximum memory for encoding `size` bytes: the encoder, a block of input, and the output, whose last
    /// piece is copied to its own length.
    pub(super) fn memory(coding: Coding, size: u64, piece: u64) -> u64 {
        let own = match coding {
            Coding::Brotli if size <= SMALL_OBJECT => BROTLI_BYTES_OF_SMALL,
            Coding::Brotli => BROTLI_BYTES,
            Coding::Gzip | Coding::Zstd => GZIP_BYTES,
        };
        own + BLOCK_BYTES as u64 + worthwhile(size) + piece.min(size)
    }

    /// Encodes more of the object.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Brotli(brotli) => {
                brotli.run(BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, bytes)
            }
            Self::Gzip(gzip) => gzip.write_all(bytes),
        }
    }

    /// Returns the output, in pieces that own their memory.
    pub(super) fn finish(self) -> io::Result<Vec<Bytes>> {
        let out = match self {
            Self::Brotli(brotli) => brotli.finish()?,
            Self::Gzip(gzip) => gzip.finish()?,
        };
        Ok(out.done())
    }
}

/// Returns the largest output worth storing: it saves a sixteenth.
fn worthwhile(size: u64) -> u64 {
    size - size / 16
}

/// Brotli through the library's stream interface, which sets the window and takes the object's size.
pub(super) struct Brotli<A: BrotliAlloc> {
    state: BrotliEncoderStateStruct<A>,
    out: Pieces,
    buffer: Box<[u8]>,
}

impl<A: BrotliAlloc> Brotli<A> {
    fn new(alloc: A, size: u64, out: Pieces) -> Self {
        let mut state = BrotliEncoderStateStruct::new(alloc);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, BROTLI_QUALITY);
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, BROTLI_WINDOW);
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, size);
        Self {
            state,
            out,
            buffer: vec![0; 16 << 10].into(),
        }
    }

    fn run(&mut self, operation: BrotliEncoderOperation, input: &[u8]) -> io::Result<()> {
        let finishes = matches!(operation, BrotliEncoderOperation::BROTLI_OPERATION_FINISH);
        let (mut left, mut at) = (input.len(), 0);
        loop {
            let (mut room, mut filled) = (self.buffer.len(), 0);
            let sound = self.state.compress_stream(
                operation,
                &mut left,
                input,
                &mut at,
                &mut room,
                &mut self.buffer,
                &mut filled,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !sound {
                return Err(io::Error::other("brotli failed"));
            }
            self.out.write_all(&self.buffer[..filled])?;
            let done = match finishes {
                true => self.state.is_finished(),
                false => left == 0 && !self.state.has_more_output(),
            };
            if done {
                return Ok(());
            }
        }
    }

    fn finish(mut self) -> io::Result<Pieces> {
        self.run(BrotliEncoderOperation::BROTLI_OPERATION_FINISH, &[])?;
        Ok(self.out)
    }
}

/// Output in pieces of one size, the last may be shorter; fails if it grows too large.
pub(super) struct Pieces {
    room: usize,
    piece: usize,
    full: Vec<Bytes>,
    last: Vec<u8>,
}

impl Pieces {
    fn new(room: u64, piece: u64) -> Self {
        let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Self {
            room: bytes(room),
            piece: bytes(piece),
            full: Vec::new(),
            last: Vec::new(),
        }
    }

    fn done(mut self) -> Vec<Bytes> {
        if !self.last.is_empty() {
            // Exactly as long as its content: caches count its length.
            self.full.push(Bytes::from(self.last.into_boxed_slice()));
        }
        self.full
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.room {
            return Err(io::ErrorKind::WriteZero.into());
        }
        if self.last.capacity() == 0 {
            self.last = Vec::with_capacity(self.piece.min(self.room));
        }
        let taken = bytes.len().min(self.piece - self.last.len());
        self.last.extend_from_slice(&bytes[..taken]);
        self.room -= taken;
        if self.last.len() == self.piece {
            let full = std::mem::take(&mut self.last);
            self.full.push(Bytes::from(full.into_boxed_slice()));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "encoder/tests.rs"]
mod tests;
