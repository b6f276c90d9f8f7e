//! A request's body as it arrives.

use std::convert::Infallible;
use std::mem::replace;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::FutureExt as _;
use http::Version;
use http_body::Body;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

use tidegate_write::receive::ClientDisconnect;

/// A body that ends only where its client ended it. A client that sends nothing for too long has left.
pub(crate) struct RequestBody<B> {
    body: B,
    /// Whether the body itself says that its end came.
    has_end_frame: bool,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    /// Whether the client is waited for, and the timer runs.
    waiting: bool,
    /// Whether the body came to its end.
    ended: bool,
    /// Closed by the other side when the end may be reported.
    can_end: oneshot::Receiver<Infallible>,
}

impl<B> RequestBody<B> {
    /// Wraps a body whose end is not reported before `can_end` is closed.
    pub(crate) fn new(
        body: B,
        version: Version,
        timeout: Duration,
        can_end: oneshot::Receiver<Infallible>,
    ) -> Self {
        Self {
            body,
            has_end_frame: version == Version::HTTP_2,
            timeout,
            timer: Box::pin(sleep(timeout)),
            waiting: false,
            ended: false,
            can_end,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Stream for RequestBody<B> {
    type Item = Result<Bytes, ClientDisconnect>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        while !this.ended {
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    this.waiting = false;
                    if let Ok(bytes) = frame.into_data() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(ClientDisconnect))),
                // hyper ends a body also if its stream was reset with NO_ERROR, which is not the end of a request's
                // body; END_STREAM is (RFC 9113, 8.1).
                Poll::Ready(None) if this.has_end_frame && !this.body.is_end_stream() => {
                    return Poll::Ready(Some(Err(ClientDisconnect)));
                }
                Poll::Ready(None) => this.ended = true,
                Poll::Pending => {
                    if !replace(&mut this.waiting, true) {
                        let until = Instant::now() + this.timeout;
                        this.timer.as_mut().reset(until);
                    }
                    ready!(this.timer.as_mut().poll(cx));
                    return Poll::Ready(Some(Err(ClientDisconnect)));
                }
            }
        }
        // No value is ever sent.
        this.can_end.poll_unpin(cx).map(|_| None)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use http_body_util::StreamBody;

    use super::*;

    const BODY_TIMEOUT: Duration = Duration::from_secs(20);

    /// A client that waits for the server's memory has not stalled.
    #[tokio::test(start_paused = true)]
    async fn only_the_time_in_which_the_client_is_waited_for_counts() {
        let (sender, frames) = tokio::sync::mpsc::channel(1);
        let frames = futures_util::stream::unfold(frames, async |mut frames| {
            let bytes: Bytes = frames.recv().await?;
            let frame = http_body::Frame::data(bytes);
            Some((Ok::<_, std::convert::Infallible>(frame), frames))
        });
        let body = StreamBody::new(Box::pin(frames));
        let (known, can_end) = oneshot::channel();
        let mut body = RequestBody::new(body, Version::HTTP_11, BODY_TIMEOUT, can_end);
        tokio::time::advance(2 * BODY_TIMEOUT).await;
        assert_eq!(body.next().now_or_never(), None, "it has just begun");
        sender.send("a".into()).await.expect("it listens");
        assert_eq!(body.next().await, Some(Ok("a".into())));
        tokio::time::advance(2 * BODY_TIMEOUT).await;
        assert_eq!(
            body.next().now_or_never(),
            None,
            "no caller had asked for more"
        );
        sender.send("b".into()).await.expect("it listens");
        assert_eq!(body.next().await, Some(Ok("b".into())));
        let begun = Instant::now();
        assert_eq!(body.next().await, Some(Err(ClientDisconnect)));
        assert_eq!(begun.elapsed().as_secs(), BODY_TIMEOUT.as_secs());
        drop(sender);
        assert_eq!(body.next().now_or_never(), None, "its end is not told yet");
        tokio::time::advance(2 * BODY_TIMEOUT).await;
        assert_eq!(body.next().now_or_never(), None, "nor is it late");
        drop(known);
        assert_eq!(body.next().await, None);
    }
}
