//! A durable consumer: each message is acknowledged after it was applied, and delivered again until then.

use std::future::ready;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::{self, Config};
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::{self, AckKind, Message};
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::sequence::Sequences;
use super::{AT_ONCE, DurableSettings, apply_all, deliver};
use crate::metrics::GapReason;
use crate::subscription::{DeliverError, Subscription};

/// A message that is not acknowledged within this time is delivered again. So late does a gateway see one that was on its way
/// to it when it was killed.
const ACK_WAIT: Duration = Duration::from_secs(5);

/// A change that could not be applied is delivered again after this time.
const REDELIVERY_DELAY: Duration = Duration::from_secs(1);

/// A consumer that no gateway uses for so long is removed by the server.
const INACTIVE_THRESHOLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// The last acknowledgements are sent within this time.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The messages that are delivered and not acknowledged.
const MAX_UNACKNOWLEDGED: i64 = 512;

/// The server says within this time that it is there, while there are no messages.
const IDLE_HEARTBEAT: Duration = Duration::from_secs(5);

/// One request for messages ends after this time, and another begins.
const REQUEST_EXPIRY: Duration = Duration::from_secs(30);

/// Receives until the consumer fails, or until `stop` is cancelled and the messages that are here by then are acknowledged;
/// returns their number.
pub(super) async fn receive(
    client: &async_nats::Client,
    (durable, subject): (&DurableSettings, &str),
    subscription: &Subscription,
    stop: &CancellationToken,
) -> Result<u64, async_nats::Error> {
    let opened = stop.run_until_cancelled(open(client, durable, subject));
    let Some(opened) = opened.await else {
        return Ok(0);
    };
    let (messages, mut sequences) = opened?;
    let mut failure = None;
    let sound = until_stopped(messages, stop)
        .map(|message| message.map_err(|error| failure = Some(error)).ok())
        .take_while(|message| ready(message.is_some()))
        .filter_map(ready)
        .inspect(|message: &Message| {
            let is_skipped = message.info().is_ok_and(|info| {
                let deliveries = u64::try_from(info.delivered).unwrap_or(u64::MAX);
                sequences.skips(info.consumer_sequence, info.stream_sequence, deliveries)
            });
            if is_skipped {
                subscription.gap(GapReason::Sequence);
            }
        });
    let count = apply_all(sound, |message| acknowledge(subscription, message)).await;
    if stop.is_cancelled() {
        let _ = timeout(FLUSH_TIMEOUT, client.flush()).await;
    }
    match failure {
        Some(error) => Err(error.into()),
        None => Ok(count),
    }
}

/// Opens the consumer, and makes it where there is none.
async fn open(
    client: &async_nats::Client,
    durable: &DurableSettings,
    subject: &str,
) -> Result<(pull::Stream, Sequences), async_nats::Error> {
    let stream = jetstream::new(client.clone())
        .get_stream(&durable.stream)
        .await?;
    let subjects = &stream.cached_info().config.subjects;
    let takes_all = subjects.iter().all(|one| one == subject);
    let consumer = stream.create_consumer(config(durable, subject)).await?;
    let messages = consumer
        .stream()
        .max_messages_per_batch(AT_ONCE)
        .heartbeat(IDLE_HEARTBEAT)
        .expires(REQUEST_EXPIRY)
        .messages()
        .await?;
    Ok((messages, Sequences::new(takes_all)))
}

/// Ends a stream once `stop` is cancelled and no item is at hand.
fn until_stopped<S: Stream + Unpin>(
    items: S,
    stop: &CancellationToken,
) -> impl Stream<Item = S::Item> {
    stream::unfold((items, stop), async |(mut items, stop)| {
        let next = tokio::select! {
            biased;
            next = items.next() => next?,
            () = stop.cancelled() => return None,
        };
        Some((next, (items, stop)))
    })
}

fn config(durable: &DurableSettings, subject: &str) -> Config {
    Config {
        durable_name: Some(durable.consumer.clone()),
        filter_subject: subject.to_owned(),
        // What was published before the consumer is of no use to a cache that has not read it.
        deliver_policy: DeliverPolicy::New,
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        max_ack_pending: MAX_UNACKNOWLEDGED,
        inactive_threshold: INACTIVE_THRESHOLD,
        ..Config::default()
    }
}

/// Applies a message and acknowledges it. One that cannot be read is not asked for again.
async fn acknowledge(subscription: &Subscription, message: Message) {
    let kind = match deliver(subscription, &message).await {
        Ok(()) => AckKind::Ack,
        Err(DeliverError::Unreadable(_)) => AckKind::Term,
        Err(DeliverError::NotApplied(_)) => AckKind::Nak(Some(REDELIVERY_DELAY)),
    };
    if let Err(error) = message.ack_with(kind).await {
        let name = &*subscription.settings().name;
        tracing::warn!(subscription = name, %error, "cannot acknowledge an event");
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    /// Else another consumer of the name would get them only after [`ACK_WAIT`].
    #[test]
    fn what_is_at_hand_at_a_stop_is_taken_and_nothing_is_waited_for() {
        let stop = CancellationToken::new();
        let items = stream::iter(0..3).chain(stream::pending());
        let mut items = Box::pin(until_stopped(Box::pin(items), &stop));
        assert_eq!(items.next().now_or_never(), Some(Some(0)));
        stop.cancel();
        let rest: Vec<_> = items.collect().now_or_never().expect("it ends");
        assert_eq!(rest, [1, 2]);
        let open = CancellationToken::new();
        let mut items = Box::pin(until_stopped(stream::pending::<()>(), &open));
        assert_eq!(items.next().now_or_never(), None);
    }
}
