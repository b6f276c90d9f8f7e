//! The body that a client sends with its request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::request::Parts;
use http::{HeaderValue, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use super::timeouts::ConnectionActivity;
use tidegate_plan::has_header;

/// The longest time for which the rest of a body is discarded.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest wait for its next bytes.
const NEXT_BYTES_TIMEOUT: Duration = Duration::from_secs(5);

/// A request's body. The rest of it that nothing has read when this is dropped is discarded beside the answer, for a
/// bounded time. Otherwise the connection would be closed over bytes of its client. The kernel then resets it, and a client
/// that still sends may lose the answer (RFC 9112, 9.6); a proxy takes the gateway for one that has failed.
pub(crate) struct SentBody {
    /// Its bytes, and the connection that they come from. `None`: there are none.
    incoming: Option<(Incoming, Arc<ConnectionActivity>)>,
    /// Whether its client sends it only once it is asked for: reading it asks.
    awaits_continue: bool,
    /// Whether a reader has had its end, or an error.
    has_ended: bool,
}

impl SentBody {
    /// Takes the body of a request with this head.
    pub(crate) fn new(
        parts: &Parts,
        incoming: Incoming,
        activity: &Arc<ConnectionActivity>,
    ) -> Self {
        activity.set_kept(keeps_connection(parts));
        let has_some = !incoming.is_end_stream();
        if has_some {
            activity.begin_body();
        }
        Self {
            incoming: has_some.then(|| (incoming, activity.clone())),
            awaits_continue: has_some && awaits_continue(parts),
            has_ended: false,
        }
    }
}

impl Body for SentBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        this.awaits_continue = false;
        let Some((incoming, activity)) = &mut this.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(&mut *incoming).poll_frame(cx));
        let has_end = frame.is_none() || incoming.is_end_stream();
        if has_end && !this.has_ended {
            activity.end_body();
        }
        this.has_ended |= has_end || !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let incoming = self.incoming.as_ref();
        incoming.is_none_or(|(incoming, _)| incoming.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let incoming = self.incoming.as_ref();
        incoming.map_or(SizeHint::with_exact(0), |(incoming, _)| {
            incoming.size_hint()
        })
    }
}

impl Drop for SentBody {
    fn drop(&mut self) {
        if self.has_ended || self.is_end_stream() {
            return;
        }
        match (self.incoming.take(), Handle::try_current()) {
            (Some((_, activity)), _) if self.awaits_continue => activity.end_unread(),
            (Some((rest, activity)), Ok(runtime)) => drop(runtime.spawn(discard(rest, activity))),
            _ => {}
        }
    }
}

/// Reads a body to its end, as long as its client goes on sending.
async fn discard(mut rest: Incoming, activity: Arc<ConnectionActivity>) {
    let end = Instant::now() + DISCARD_TIMEOUT;
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut rest).poll_frame(cx));
        let next = timeout_at(end, timeout(NEXT_BYTES_TIMEOUT, frame)).await;
        let has_end = match next {
            Ok(Ok(None)) => true,
            Ok(Ok(Some(Ok(_)))) => rest.is_end_stream(),
            _ => return,
        };
        activity.record_body_read();
        if has_end {
            return activity.end_body();
        }
    }
}

/// Returns whether hyper asks the client for the body before it reads any: for this expectation, in this version, and if
/// several lines have one, for the last.
fn awaits_continue(parts: &Parts) -> bool {
    let last = parts.headers.get_all(EXPECT).into_iter().next_back();
    parts.version == Version::HTTP_11
        && last.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Returns whether the client keeps the connection for other requests (RFC 9112, 9.3). With an older version of the protocol
/// it counts as one that does not.
fn keeps_connection(parts: &Parts) -> bool {
    let closes = |line: &HeaderValue| {
        let mut options = line.as_bytes().split(|byte| *byte == b',');
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
    };
    parts.version == Version::HTTP_11
        && !(has_header(&parts.headers, &CONNECTION)
            && parts.headers.get_all(CONNECTION).iter().any(closes))
}
