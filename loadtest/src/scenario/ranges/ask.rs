//! A random `Range` header field and its meaning (RFC 9110, 14.1.2). This implementation is
//! independent of the gateway's, so that each checks the other.

use std::fmt;
use std::ops::Range;

use crate::random::Random;

/// One element of a range set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// `a-b`, both included.
    Bounded(u64, u64),
    /// `a-`.
    From(u64),
    /// `-n`.
    Suffix(u64),
}

/// A range set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask(pub Vec<Piece>);

const CHUNK: u64 = 256 * 1024;
/// The usual most bytes of a range, so that a run makes many requests, not large ones.
const USUAL: u64 = 1 << 20;

impl Ask {
    /// Draws a range set for an object of `size` bytes: single, suffix, open, several; now and then
    /// one outside the object.
    pub fn draw(random: &mut Random, size: u64) -> Self {
        let pieces = if random.below(5) == 0 {
            2 + random.below(4)
        } else {
            1
        };
        Self((0..pieces).map(|_| draw_piece(random, size)).collect())
    }

    /// Returns the bytes of its satisfiable elements, in the requested order.
    #[must_use]
    pub fn resolve(&self, size: u64) -> Vec<Range<u64>> {
        self.0
            .iter()
            .filter_map(|piece| piece.resolve(size))
            .collect()
    }
}

impl Piece {
    fn resolve(self, size: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Bounded(first, last) => first..size.min(last.saturating_add(1)),
            Self::From(first) => first..size,
            Self::Suffix(len) => size.saturating_sub(len)..size,
        };
        (range.start < range.end).then_some(range)
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes=")?;
        for (n, piece) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            match piece {
                Piece::Bounded(first, last) => write!(f, "{comma}{first}-{last}")?,
                Piece::From(first) => write!(f, "{comma}{first}-")?,
                Piece::Suffix(len) => write!(f, "{comma}-{len}")?,
            }
        }
        Ok(())
    }
}

fn draw_piece(random: &mut Random, size: u64) -> Piece {
    let len = draw_len(random, size);
    match random.below(6) {
        0 => Piece::Suffix(if random.below(20) == 0 { 0 } else { len }),
        1 => Piece::From(if random.below(20) == 0 {
            size
        } else {
            size.saturating_sub(len)
        }),
        _ => {
            let first = draw_start(random, size);
            Piece::Bounded(first, first + len - 1)
        }
    }
}

/// Draws a length of at least 1, which may reach past the end.
fn draw_len(random: &mut Random, size: u64) -> u64 {
    let max = if random.below(20) == 0 {
        size + 10
    } else {
        USUAL.min(size + 10)
    };
    random.magnitude(max)
}

/// Draws a start: anywhere, beside a chunk's boundary, or about the end.
fn draw_start(random: &mut Random, size: u64) -> u64 {
    match random.below(4) {
        0 => (random.below(size / CHUNK + 1) * CHUNK + random.below(3)).saturating_sub(1),
        1 => (size + random.below(3)).saturating_sub(2),
        _ => random.below(size + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_mean_what_the_rfc_says() {
        let resolve = |piece: Piece| piece.resolve(10);
        assert_eq!(resolve(Piece::Bounded(0, 0)), Some(0..1));
        assert_eq!(resolve(Piece::Bounded(5, 99)), Some(5..10));
        assert_eq!(resolve(Piece::Bounded(10, 99)), None);
        assert_eq!(resolve(Piece::From(9)), Some(9..10));
        assert_eq!(resolve(Piece::From(10)), None);
        assert_eq!(resolve(Piece::Suffix(3)), Some(7..10));
        assert_eq!(resolve(Piece::Suffix(99)), Some(0..10));
        assert_eq!(resolve(Piece::Suffix(0)), None);
    }

    #[test]
    fn every_kind_is_drawn_and_is_well_formed() {
        let mut random = Random::new(3);
        let drawn: Vec<Ask> = (0..5000)
            .map(|_| Ask::draw(&mut random, 3_000_000))
            .collect();
        let count = |test: fn(&Ask) -> bool| drawn.iter().filter(|ask| test(ask)).count();
        assert!(count(|ask| ask.0.len() > 1) > 500);
        assert!(count(|ask| matches!(ask.0[..], [Piece::Suffix(_)])) > 300);
        assert!(count(|ask| matches!(ask.0[..], [Piece::From(_)])) > 300);
        assert!(count(|ask| ask.resolve(3_000_000).is_empty()) > 50);
        let pieces = drawn.iter().flat_map(|ask| &ask.0);
        assert!(pieces.into_iter().all(|piece| match piece {
            Piece::Bounded(first, last) => first <= last,
            _ => true,
        }));
    }
}
