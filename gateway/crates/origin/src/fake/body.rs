//! A body that flows as its faults permit.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::time::sleep;

use super::Fault;
use crate::{Body, OriginError};

/// Counts a request from its start until it is dropped.
#[derive(Debug)]
pub(super) struct RunningRequest(Arc<AtomicUsize>);

impl RunningRequest {
    pub(super) fn new(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The way in which a body breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyBreak {
    Reset,
    Stall,
}

/// A body under way.
#[derive(Debug)]
pub(super) struct FakeBody {
    left: Bytes,
    sent: u64,
    frame: u64,
    rate: Option<u64>,
    pause: Option<(u64, Duration)>,
    broken: Option<(u64, BodyBreak)>,
    counted: Option<(Arc<AtomicU64>, RunningRequest)>,
}

impl FakeBody {
    pub(super) fn new(bytes: Bytes, frame: usize, faults: &[Fault]) -> Self {
        let mut flow = Self {
            left: bytes,
            sent: 0,
            frame: frame as u64,
            rate: None,
            pause: None,
            broken: None,
            counted: None,
        };
        for fault in faults {
            flow.apply(fault);
        }
        flow
    }

    fn apply(&mut self, fault: &Fault) {
        match *fault {
            Fault::Rate(rate) => self.rate = Some(rate.max(1)),
            Fault::Pause { after, pause } => self.pause = Some((after, pause)),
            Fault::Reset(after) => self.broken = Some((after, BodyBreak::Reset)),
            Fault::Stall(after) => self.broken = Some((after, BodyBreak::Stall)),
            Fault::Truncate(length) => {
                self.left
                    .truncate(usize::try_from(length).unwrap_or(usize::MAX));
            }
            Fault::Surplus(more) => {
                let more = usize::try_from(more).expect("fits into memory");
                self.left = [self.left.as_ref(), &vec![0; more]].concat().into();
            }
            _ => {}
        }
    }

    /// Counts the sent bytes, and the request for as long as the body lives.
    pub(super) fn counted(mut self, bytes: Arc<AtomicU64>, running: RunningRequest) -> Self {
        self.counted = Some((bytes, running));
        self
    }

    pub(super) fn into_body(self) -> Body {
        Box::pin(stream::unfold(Some(self), |flow| async {
            let mut flow = flow?;
            match flow.next().await {
                Some(Ok(frame)) => Some((Ok(frame), Some(flow))),
                Some(Err(error)) => Some((Err(error), None)),
                None => None,
            }
        }))
    }

    async fn next(&mut self) -> Option<Result<Bytes, OriginError>> {
        if let Some((_, pause)) = self.pause.take_if(|(after, _)| *after <= self.sent) {
            sleep(pause).await;
        }
        match self.broken {
            Some((after, BodyBreak::Reset)) if after <= self.sent => {
                return Some(Err(OriginError::Unavailable("connection lost")));
            }
            Some((after, BodyBreak::Stall)) if after <= self.sent => pending().await,
            _ => {}
        }
        if self.left.is_empty() {
            return None;
        }
        let frame = self.cut();
        if let Some(rate) = self.rate {
            sleep(
                Duration::from_secs(frame.len() as u64) / u32::try_from(rate).unwrap_or(u32::MAX),
            )
            .await;
        }
        if let Some((bytes, _)) = &self.counted {
            bytes.fetch_add(frame.len() as u64, Ordering::SeqCst);
        }
        Some(Ok(frame))
    }

    /// Returns the next frame, which ends at the next due fault.
    fn cut(&mut self) -> Bytes {
        let due = [self.pause.map(|p| p.0), self.broken.map(|b| b.0)];
        let until_due = due
            .into_iter()
            .flatten()
            .filter_map(|at| at.checked_sub(self.sent))
            .filter(|bytes| *bytes > 0)
            .min();
        let length = self.frame.min(until_due.unwrap_or(u64::MAX));
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(self.left.len());
        self.sent += length as u64;
        self.left.split_to(length)
    }
}
