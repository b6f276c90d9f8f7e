//! The cause of a request to an origin, for its metrics.
//!
//! Most causes follow from the request itself. Those that do not are carried by the task, as the client is
//! ([`client`]): the cause changes neither the request nor its answer.

use tidegate_plan::Client;

use crate::{Priority, client};

tokio::task_local! {
    static CAUSE: Cause;
}

/// The cause of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Cause {
    /// A reader or a writer waits for the bytes.
    Demand,
    /// Read-ahead.
    Ahead,
    /// Small objects of a folder, ahead of their readers.
    Folder,
    /// A second request for bytes with which the first is late.
    Hedge,
    /// A known version may have changed.
    Revalidate,
    /// The operator warms objects.
    Warm,
    /// Names and folders of a mount.
    Names,
    /// A change of the bucket, and what a writer looks up for it.
    Write,
    /// A heartbeat of a subscription to events.
    Heartbeat,
    /// The check behind `/readyz`, and the doctor's measurements.
    Probe,
}

impl Cause {
    /// All causes, in the order of their numbers.
    pub(crate) const ALL: [Self; 10] = [
        Self::Demand,
        Self::Ahead,
        Self::Folder,
        Self::Hedge,
        Self::Revalidate,
        Self::Warm,
        Self::Names,
        Self::Write,
        Self::Heartbeat,
        Self::Probe,
    ];

    /// Returns the label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Demand => "demand",
            Self::Ahead => "ahead",
            Self::Folder => "folder",
            Self::Hedge => "hedge",
            Self::Revalidate => "revalidate",
            Self::Warm => "warm",
            Self::Names => "names",
            Self::Write => "write",
            Self::Heartbeat => "heartbeat",
            Self::Probe => "probe",
        }
    }

    /// Returns the cause of the polled task's request; `own` if the task carries none and does not warm.
    #[must_use]
    pub fn current(own: Self) -> Self {
        if client::current() == Client::Warm {
            return Self::Warm;
        }
        CAUSE.try_with(|cause| *cause).unwrap_or(own)
    }
}

impl From<Priority> for Cause {
    fn from(priority: Priority) -> Self {
        match priority {
            Priority::Demand => Self::Demand,
            Priority::Ahead => Self::Ahead,
            Priority::Spare => Self::Folder,
        }
    }
}

/// Runs work whose requests have this cause. Tasks that it spawns do not inherit the cause.
pub async fn run_for<T>(cause: Cause, work: impl Future<Output = T>) -> T {
    CAUSE.scope(cause, work).await
}
