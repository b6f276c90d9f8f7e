//! The allowed states of an object, by the answers to its writer.

/// The content of an object, by its number; `None`: it does not exist.
pub(crate) type Edition = Option<u64>;

/// Number of actions that are remembered of an object.
const MAX_STORY: usize = 12;

/// Length of an object that is uploaded in more than one part.
const LARGE: usize = (16 << 20) + 70_001;

/// Returns the bytes of an edition, which identify it from beginning to end.
pub(crate) fn content(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let length = match mixed % 60 {
        0 => LARGE,
        1..20 => 1 + mixed as usize / 60 % 3000,
        _ => 1 + mixed as usize / 60 % 300_000,
    };
    let line = |at: usize| format!("{number:012} {at:010}\n").into_bytes();
    let mut bytes: Vec<u8> = (0..length.div_ceil(24)).flat_map(line).collect();
    bytes.truncate(length.max(13));
    bytes
}

/// Returns the edition of these bytes; `Err` if they are torn, mixed or cut off.
pub(crate) fn edition_of(bytes: &[u8]) -> Result<u64, String> {
    let head = bytes
        .get(..12)
        .and_then(|head| std::str::from_utf8(head).ok());
    let number = head.and_then(|head| head.parse().ok());
    let Some(number) = number else {
        return Err(format!("{} bytes that are no edition", bytes.len()));
    };
    let truth = content(number);
    if bytes == truth {
        return Ok(number);
    }
    let same = bytes.iter().zip(&truth).take_while(|(a, b)| a == b).count();
    Err(format!(
        "{} bytes that begin as edition {number} of {} does, up to {same}",
        bytes.len(),
        truth.len()
    ))
}

/// An object as its writer knows it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Known {
    /// The edition that was promised last, or found after a cut.
    pub(crate) promised: Edition,
    /// The editions begun after it and not answered.
    pub(crate) may: Vec<Edition>,
    /// Whether it was changed behind the gateway, and the purge was not answered.
    pub(crate) unpurged: bool,
    /// Every edition that it ever had or may have had.
    pub(crate) ever: Vec<Edition>,
    /// The last actions on it, and their results.
    pub(crate) story: Vec<String>,
}

impl Known {
    /// Records the start of a change to this edition.
    pub(crate) fn begin(&mut self, edition: Edition) {
        self.may.push(edition);
        self.ever.push(edition);
    }

    /// Records the promise of this edition.
    pub(crate) fn promise(&mut self, edition: Edition) {
        self.promised = edition;
        self.may.clear();
    }

    /// Records an action, for the reader of a failure.
    pub(crate) fn note(&mut self, done: String) {
        self.story.push(done);
        if self.story.len() > MAX_STORY {
            self.story.remove(0);
        }
    }

    pub(crate) fn allows(&self, edition: Edition) -> bool {
        self.promised == edition || self.may.contains(&edition)
    }

    /// Returns its content if that is certain.
    pub(crate) fn certain(&self) -> Option<Edition> {
        self.may.is_empty().then_some(self.promised)
    }
}

#[test]
fn an_edition_is_known_by_its_bytes_and_no_other_bytes_are() {
    for number in 0..200 {
        let bytes = content(number);
        assert_eq!(edition_of(&bytes), Ok(number));
        assert!(edition_of(&bytes[..bytes.len() - 1]).is_err());
        let mut torn = bytes.clone();
        let end = torn.len() - 1;
        torn[end] ^= 1;
        assert!(edition_of(&torn).is_err());
    }
}
