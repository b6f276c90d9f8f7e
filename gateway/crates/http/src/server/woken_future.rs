//! A future beside a busy one: it costs nothing while nothing wakes it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// A future that is polled when it was woken itself, however often its task runs.
pub(crate) struct WokenFuture<F> {
    future: F,
    signal: Arc<Signal>,
    waker: Waker,
}

/// The wake-up of the future, which it passes on to the task.
struct Signal {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl<F: Future + Unpin> WokenFuture<F> {
    pub(crate) fn new(future: F) -> Self {
        let signal = Arc::new(Signal {
            // Its first poll starts it.
            is_woken: AtomicBool::new(true),
            task: AtomicWaker::new(),
        });
        Self {
            future,
            waker: signal.clone().into(),
            signal,
        }
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<F: Future + Unpin> Future for WokenFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.signal.task.register(cx.waker());
        // A wake-up between the two finds the task's waker, and its flag is seen by the next poll.
        if !self.signal.is_woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.signal.is_woken.store(false, Ordering::Release);
        let waker = self.waker.clone();
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::pin;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn is_polled_when_it_is_woken_and_only_then() {
        let (send, receive) = oneshot::channel();
        let mut polls = 0;
        let mut receive = pin!(receive);
        let counted = poll_fn(|cx| {
            polls += 1;
            receive.as_mut().poll(cx)
        });
        let mut dormant = WokenFuture::new(counted);
        for _ in 0..10 {
            assert!(futures_util::poll!(&mut dormant).is_pending());
        }
        send.send(7).expect("it is waited for");
        assert_eq!(dormant.await, Ok(7));
        assert_eq!(polls, 2);
    }

    #[tokio::test]
    async fn a_wake_up_reaches_the_task_that_waits() {
        let (send, receive) = oneshot::channel();
        let task = tokio::spawn(WokenFuture::new(receive));
        tokio::task::yield_now().await;
        send.send(7).expect("it is waited for");
        assert_eq!(task.await.expect("it ends"), Ok(7));
    }
}
