//! The promises to programs about an object.

/// The content of an object; `None`: there is none.
pub(super) type Bytes = Option<Vec<u8>>;

/// An object as programs know it.
#[derive(Debug, Clone)]
pub(super) struct Truth {
    /// The editions of which the next process may find one. Each is a list of states: each byte, and the length, may be
    /// of any of them. The last one is the present one.
    editions: Vec<Vec<Bytes>>,
    /// The present content, if the last answer said it.
    pub(super) live: Option<Bytes>,
    /// The store has forgotten an upload whose bytes had left the spool: nothing is promised any more.
    pub(super) is_lost: bool,
}

impl Truth {
    /// Returns an object that is not there.
    pub(super) fn missing() -> Self {
        Self::certain(None)
    }

    fn certain(content: Bytes) -> Self {
        Self {
            editions: vec![vec![content.clone()]],
            live: Some(content),
            is_lost: false,
        }
    }

    /// It was changed in place, and this content is not promised yet.
    pub(super) fn write(&mut self, content: Vec<u8>) {
        self.live = Some(Some(content.clone()));
        let edition = self.editions.last_mut().expect("one at least");
        edition.push(Some(content));
    }

    /// It was created, or cut to nothing, and that is not promised yet.
    pub(super) fn begin(&mut self) {
        self.live = Some(Some(Vec::new()));
        self.editions.push(vec![Some(Vec::new())]);
    }

    /// The present content was promised: it is in the spool or in the bucket.
    pub(super) fn promise(&mut self) {
        if let Some(live) = self.live.take() {
            *self = Self::certain(live);
        }
    }

    /// It was found with this content.
    pub(super) fn find(&mut self, content: Bytes) {
        *self = Self::certain(content);
    }

    pub(super) fn remove(&mut self) {
        *self = Self::missing();
    }

    /// It may have been removed.
    pub(super) fn may_be_removed(&mut self) {
        self.live = None;
        self.editions.insert(0, vec![None]);
    }

    /// Another object may have got its name.
    pub(super) fn may_be(&mut self, other: &Self) {
        self.live = None;
        self.is_lost |= other.is_lost;
        self.editions.splice(0..0, other.editions.iter().cloned());
    }

    /// Returns the lengths of all that the next process may find, for messages.
    pub(super) fn lengths(&self) -> Vec<Vec<Option<usize>>> {
        let of = |content: &Bytes| content.as_ref().map(Vec::len);
        let states = |edition: &Vec<Bytes>| edition.iter().map(of).collect();
        self.editions.iter().map(states).collect()
    }

    /// Returns whether the next process may find this content.
    pub(super) fn allows(&self, found: &Bytes) -> bool {
        self.is_lost || self.editions.iter().any(|states| is_of(found, states))
    }
}

fn is_of(found: &Bytes, states: &[Bytes]) -> bool {
    let Some(found) = found else {
        return states.contains(&None);
    };
    let states = Vec::from_iter(states.iter().flatten());
    let is_byte = |(at, byte): (usize, &u8)| {
        let has = |state: &&Vec<u8>| state.get(at).copied().unwrap_or(0) == *byte;
        states.iter().any(has)
    };
    // A cut whose record the disk refused leaves a length in between.
    let lengths = || states.iter().map(|state| state.len());
    let is_length = lengths().min() <= Some(found.len()) && Some(found.len()) <= lengths().max();
    is_length && found.iter().enumerate().all(is_byte)
}
