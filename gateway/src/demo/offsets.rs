//! The large sample: lines of 16 bytes, each of which holds its own offset in hexadecimal. So a
//! reader can check any range of it by eye.

use std::io;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::stream;

/// Bytes made at a time.
const BLOCK_SIZE: u64 = 1 << 20;

/// Bytes in a line.
const LINE_LENGTH: u64 = 16;

/// Returns the file of `size` bytes, made as it is read.
pub(super) fn body(size: u64) -> impl Stream<Item = io::Result<Bytes>> + Send + Sync + 'static {
    stream::iter((0..size.div_ceil(BLOCK_SIZE)).map(move |index| {
        let start = index * BLOCK_SIZE;
        let mut block = block(start);
        block.truncate(usize::try_from(size - start).unwrap_or(usize::MAX));
        Ok(block.into())
    }))
}

fn block(start: u64) -> Vec<u8> {
    let mut block = Vec::with_capacity(usize::try_from(BLOCK_SIZE).expect("a MiB fits"));
    for line in (start..start + BLOCK_SIZE).step_by(usize::try_from(LINE_LENGTH).expect("16 fits"))
    {
        let digit = |place: u64| b"0123456789abcdef"[(line >> (4 * place) & 0xf) as usize];
        block.extend((0..LINE_LENGTH - 1).rev().map(digit));
        block.push(b'\n');
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::TryStreamExt as _;

    #[tokio::test]
    async fn each_line_says_where_it_stands() {
        let size = 2 * BLOCK_SIZE + 40;
        let blocks: Vec<Bytes> = body(size).try_collect().await.expect("made");
        let file = blocks.concat();
        assert_eq!(file.len() as u64, size);
        for at in [0, 16, (1 << 20) - 16, 1 << 20, 2 << 20] {
            assert_eq!(&file[at..at + 16], format!("{at:015x}\n").as_bytes());
        }
    }
}
