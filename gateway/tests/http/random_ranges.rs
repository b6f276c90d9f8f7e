//! Random ranges over objects of many sizes, compared with the slice of the bytes.
//!
//! `TIDEGATE_RANGES` sets the number of ranges (2,000 by default), `TIDEGATE_SEED` the choice.

use std::ops::Range;

use crate::gateway::{CHUNK, Gateway, Got};

/// A generator of sufficiently random numbers (xorshift64*, Vigna 2014).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % bound.max(1)
    }
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}

/// Returns one range as in a header, and the bytes that it names in an object of `size` bytes.
fn spec(dice: &mut Dice, size: u64) -> (String, Range<u64>) {
    let (a, b) = (dice.below(size + 3), dice.below(size + 3));
    match dice.below(3) {
        0 => {
            let (first, last) = (a.min(b), a.max(b));
            (
                format!("{first}-{last}"),
                first.min(size)..(last + 1).min(size),
            )
        }
        1 => (format!("{a}-"), a.min(size)..size),
        _ => (format!("-{a}"), size.saturating_sub(a)..size),
    }
}

/// Returns the pieces of an answer: the offset of each, and its bytes.
fn pieces(got: &Got, size: u64) -> Vec<(u64, Vec<u8>)> {
    let start = |line: &str| {
        let (range, total) = line.split_once('/').expect("a size");
        assert_eq!(total, size.to_string());
        let (first, last) = range.split_once('-').expect("two ends");
        let parse = |text: &str| text.parse::<u64>().expect("a number");
        (parse(first), parse(last))
    };
    let body = got.bytes();
    if let Some(line) = got.header("content-range").strip_prefix("bytes ") {
        let (first, last) = start(line);
        assert_eq!(last - first + 1, body.len() as u64);
        return vec![(first, body.to_vec())];
    }
    let kind = got.header("content-type");
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("several");
    let mut rest = &body[..];
    let mut found = Vec::new();
    let open = format!("--{boundary}\r\n");
    while let Some(part) = rest.strip_prefix(open.as_bytes()) {
        let end = part
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .expect("a heading");
        let heading = std::str::from_utf8(&part[..end]).expect("text");
        let line = heading
            .split("Content-Range: bytes ")
            .nth(1)
            .expect("a range");
        let (first, last) = start(line);
        let length = usize::try_from(last - first + 1).expect("small");
        let bytes = &part[end + 4..end + 4 + length];
        found.push((first, bytes.to_vec()));
        rest = part[end + 4 + length..]
            .strip_prefix(b"\r\n")
            .expect("a line's end");
    }
    assert_eq!(rest, format!("--{boundary}--\r\n").as_bytes());
    assert!(found.len() > 1);
    found
}

#[tokio::test]
async fn random_ranges_are_the_slice() {
    let mut dice = Dice(number("TIDEGATE_SEED", 1) | 1 << 40);
    let gateway = Gateway::start().await;
    let mut sizes = vec![0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK, 3_000_000];
    sizes.extend((0..5).map(|_| dice.below(200_000)));
    let objects: Vec<Vec<u8>> = sizes
        .iter()
        .map(|size| (0..*size).map(|_| dice.below(256) as u8).collect())
        .collect();
    for (index, bytes) in objects.iter().enumerate() {
        gateway.origin.put(&format!("o{index}"), bytes.clone());
    }
    for turn in 0..number("TIDEGATE_RANGES", 2000) {
        let index = dice.below(objects.len() as u64) as usize;
        let (bytes, size) = (&objects[index], objects[index].len() as u64);
        let count = if dice.below(3) == 0 {
            1 + dice.below(5)
        } else {
            1
        };
        let specs: Vec<_> = (0..count).map(|_| spec(&mut dice, size)).collect();
        let texts: Vec<_> = specs.iter().map(|(text, _)| text.as_str()).collect();
        let header = format!("bytes={}", texts.join(","));
        let got = gateway
            .get(&format!("/o{index}"), &[("range", &header)])
            .await;
        let mut wanted = vec![false; bytes.len()];
        for (_, range) in &specs {
            wanted[range.start as usize..range.end.max(range.start) as usize].fill(true);
        }
        let told = format!("turn {turn}: {header} of {size}");
        if !wanted.contains(&true) {
            assert_eq!(got.status.as_u16(), 416, "{told}");
            continue;
        }
        assert_eq!(got.status.as_u16(), 206, "{told}");
        for (first, piece) in pieces(&got, size) {
            let place = first as usize..first as usize + piece.len();
            assert!(
                piece == bytes[place.clone()],
                "{told}: wrong bytes at {first}"
            );
            // Each byte is sent once, and only if the client asked for it.
            for at in &mut wanted[place] {
                assert!(std::mem::take(at), "{told}");
            }
        }
        assert!(!wanted.contains(&true), "{told}: bytes left out");
    }
    gateway.end().await;
}
