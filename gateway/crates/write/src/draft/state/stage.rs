//! The step that a draft waits for, as operators see it.

use super::DraftState;

/// The step that a draft waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A client has it open.
    Open,
    /// It is being sent to the bucket.
    Sending,
    /// It will be tried again.
    Waiting,
    /// It was refused for good, and is kept until an operator decides.
    Refused,
}

impl Stage {
    /// All stages, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [Self::Open, Self::Sending, Self::Waiting, Self::Refused];

    /// Returns the stage as one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sending => "sending",
            Self::Waiting => "waiting",
            Self::Refused => "refused",
        }
    }
}

impl DraftState {
    /// Returns the step that it waits for.
    pub(crate) fn stage(&self) -> Stage {
        let phase = self.phase();
        match (phase.trouble(), phase.is_queued()) {
            _ if phase.is_publishing() => Stage::Sending,
            (Some(error), _) if !error.is_passing() => Stage::Refused,
            (Some(_), true) => Stage::Waiting,
            (None, true) => Stage::Sending,
            (_, false) => Stage::Open,
        }
    }
}
