//! The numbers of a consumer's messages: a number that is skipped is a message that was not received.

/// The last numbers of a consumer.
///
/// The consumer numbers its deliveries without holes, those that it repeats included. The stream's own numbers have holes
/// wherever the consumer takes one of several subjects.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    /// Whether the consumer takes every message of its stream.
    takes_all: bool,
    delivery: Option<u64>,
    stream: Option<u64>,
}

impl Sequences {
    pub(super) fn new(takes_all: bool) -> Self {
        Self {
            takes_all,
            ..Self::default()
        }
    }

    /// Takes the numbers of a message: its delivery, its place in the stream, and how often it was delivered, from 1.
    /// Returns whether a message before it is missing.
    pub(super) fn skips(&mut self, delivery: u64, stream: u64, deliveries: u64) -> bool {
        let is_lost = self.delivery.is_some_and(|last| delivery > last + 1);
        self.delivery = self.delivery.max(Some(delivery));
        if deliveries > 1 {
            return is_lost;
        }
        let is_gone = self.takes_all && self.stream.is_some_and(|last| stream > last + 1);
        self.stream = self.stream.max(Some(stream));
        is_lost || is_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_that_is_skipped_is_seen() {
        let mut sequences = Sequences::new(false);
        assert!(!sequences.skips(7, 100, 1), "the first number may be any");
        assert!(!sequences.skips(8, 105, 1), "other subjects lie between");
        assert!(!sequences.skips(9, 100, 2), "it was not acknowledged");
        assert!(sequences.skips(11, 106, 1));
        assert!(!sequences.skips(12, 107, 1));
    }

    #[test]
    fn a_message_that_the_stream_has_dropped_is_seen() {
        let mut sequences = Sequences::new(true);
        assert!(!sequences.skips(1, 100, 1));
        assert!(!sequences.skips(2, 101, 1));
        assert!(!sequences.skips(3, 100, 2));
        assert!(sequences.skips(4, 103, 1));
        assert!(!sequences.skips(5, 104, 1));
    }
}
