use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use brotli::{Allocator, SliceWrapper};

use super::*;

const PIECE: u64 = 4096;

/// Returns text of words in random order: compressible, and different everywhere.
fn prose(size: usize) -> Vec<u8> {
    let words = [
        "function", "return", "margin", "0.5em", "colour", "(", ");\n", "window", "é",
    ];
    let mut state = 1_u32;
    let mut text = Vec::with_capacity(size + 16);
    while text.len() < size {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.extend_from_slice(words[(state >> 24) as usize % words.len()].as_bytes());
        text.extend_from_slice(format!("{}", state >> 20).as_bytes());
    }
    text.truncate(size);
    text
}

/// Returns the bytes that no encoder makes smaller.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 7_u64;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    };
    (0..size).map(step).collect()
}

fn encode(coding: Coding, text: &[u8]) -> io::Result<Vec<Bytes>> {
    let mut encoder = Encoder::new(coding, text.len() as u64, PIECE)?;
    for block in text.chunks(BLOCK_BYTES) {
        encoder.write(block)?;
    }
    encoder.finish()
}

fn decode(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let read = match coding {
        Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut text),
        _ => flate2::read::GzDecoder::new(bytes).read_to_end(&mut text),
    };
    read.expect("sound");
    text
}

#[test]
fn what_is_encoded_is_decoded_and_in_pieces_of_their_own() {
    for coding in [Coding::Brotli, Coding::Gzip] {
        for size in [512, 4096, BLOCK_BYTES, BLOCK_BYTES + 1, 300 << 10, 2 << 20] {
            let text = prose(size);
            let pieces = encode(coding, &text).expect("smaller");
            let (last, full) = pieces.split_last().expect("something");
            assert!(full.iter().all(|piece| piece.len() as u64 == PIECE));
            assert!(!last.is_empty() && last.len() as u64 <= PIECE);
            assert_eq!(decode(coding, &pieces.concat()), text, "{coding:?} {size}");
            assert_eq!(
                encode(coding, &text).expect("smaller"),
                pieces,
                "the same again"
            );
        }
    }
}

#[test]
fn what_does_not_shrink_is_given_up() {
    for coding in [Coding::Brotli, Coding::Gzip] {
        encode(coding, &noise(300 << 10)).expect_err("no smaller");
    }
    Encoder::new(Coding::Zstd, 1000, PIECE).expect_err("only passed on");
}

/// Counts the bytes allocated through it.
#[derive(Clone, Default)]
struct Counting(Arc<(AtomicUsize, AtomicUsize)>);

impl<T: Clone + Default> Allocator<T> for Counting {
    type AllocatedMemory = <StandardAlloc as Allocator<T>>::AllocatedMemory;

    fn alloc_cell(&mut self, len: usize) -> Self::AllocatedMemory {
        let (now, most) = &*self.0;
        let bytes = len * size_of::<T>();
        most.fetch_max(now.fetch_add(bytes, Relaxed) + bytes, Relaxed);
        StandardAlloc::default().alloc_cell(len)
    }

    fn free_cell(&mut self, data: Self::AllocatedMemory) {
        let bytes = size_of_val(data.slice());
        self.0.0.fetch_sub(bytes, Relaxed);
    }
}

impl BrotliAlloc for Counting {}

#[test]
fn an_encoder_takes_no_more_than_is_said() {
    for (size, said) in [
        (512, BROTLI_BYTES_OF_SMALL),
        (300 << 10, BROTLI_BYTES_OF_SMALL),
        ((1 << 20) + 1, BROTLI_BYTES),
        (4 << 20, BROTLI_BYTES),
    ] {
        let mut most = 0;
        for text in [prose(size), noise(size), vec![b'a'; size]] {
            let count = Counting::default();
            let out = Pieces::new(u64::MAX >> 1, PIECE);
            let mut brotli = Brotli::new(count.clone(), size as u64, out);
            for block in text.chunks(BLOCK_BYTES) {
                let process = BrotliEncoderOperation::BROTLI_OPERATION_PROCESS;
                brotli.run(process, block).expect("sound");
            }
            brotli.finish().expect("sound");
            most = most.max(count.0.1.load(Relaxed));
        }
        let state = size_of::<Brotli<StandardAlloc>>() + (16 << 10);
        let most = (most + state) as u64;
        assert!(most <= said, "{size}: {most}");
        assert!(
            size == 512 || most > said / 2,
            "far too much is said: {size}: {most}"
        );
    }
}
