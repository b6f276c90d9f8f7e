//! The transport of a fleet: one subject, to which all its gateways publish and subscribe.

use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::errors::LoggedErrors;
use super::{NatsAuth, NatsError, addresses, apply_all, delay, options};
use crate::fleet::{Fleet, HEARTBEAT, MAX_WAITING, ReceivedChange};

/// The longest pause between two attempts to connect: it is part of the time for which a change may be missed.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// The time for the last messages at the end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// The servers of a fleet.
#[derive(Debug, Clone)]
pub struct FleetSettings {
    /// The servers of one cluster: `nats://host:port`, or `tls://…`.
    pub servers: Vec<String>,
    /// The subject.
    pub subject: String,
    /// The credentials.
    pub auth: NatsAuth,
    /// The authorities for TLS, as PEM; those of the system if left out.
    pub authorities: Option<PathBuf>,
}

/// A connection that has not begun.
#[derive(Debug)]
pub struct NatsFleet {
    servers: Vec<ServerAddr>,
    options: ConnectOptions,
    subject: String,
    fleet: Arc<Fleet>,
}

impl NatsFleet {
    /// Checks the settings. Connects to nothing.
    ///
    /// # Errors
    /// An address or the credentials cannot be read.
    pub fn new(settings: &FleetSettings, fleet: Arc<Fleet>) -> Result<Self, NatsError> {
        // The client keeps its callback while no server answers, also once nothing is sent any more.
        let (told, logged) = (Arc::downgrade(&fleet), LoggedErrors::default());
        let options = options(settings.auth.clone(), settings.authorities.as_ref())?
            .no_echo()
            .subscription_capacity(MAX_WAITING)
            .reconnect_delay_callback(|attempts| {
                delay(u32::try_from(attempts).unwrap_or(u32::MAX)).min(MAX_DELAY)
            })
            .event_callback(move |event| {
                if let Some(fleet) = told.upgrade() {
                    report(&fleet, &logged, &event);
                }
                ready(())
            });
        Ok(Self {
            servers: addresses(&settings.servers)?,
            options,
            subject: settings.subject.clone(),
            fleet,
        })
    }

    /// Sends and receives until `stop` is cancelled, then says that this gateway ends. Servers that are away are tried
    /// again for ever.
    pub async fn run(self, stop: CancellationToken) {
        let Self {
            servers,
            options,
            subject,
            fleet,
        } = self;
        let client = match options.connect(&servers[..]).await {
            Ok(client) => client,
            Err(error) => {
                tracing::error!(%error, "cannot connect to the fleet's NATS");
                return;
            }
        };
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let running = async {
            tokio::join!(
                receive(&client, &subject, (&fleet, sender)),
                apply(receiver, &fleet),
                async {
                    loop {
                        send(&client, &subject, fleet.message().await).await;
                    }
                },
                tick(&fleet),
                fleet.doubt_on_request(),
            )
        };
        stop.run_until_cancelled(running).await;
        fleet.leave();
        let leave = async {
            while let Some(message) = fleet.next_message() {
                send(&client, &subject, message).await;
            }
            client.flush().await
        };
        if !matches!(timeout(LEAVE_TIMEOUT, leave).await, Ok(Ok(()))) {
            tracing::warn!("the fleet may not know that this gateway ends");
        }
    }
}

async fn receive(
    client: &Client,
    subject: &str,
    (fleet, changes): (&Fleet, Sender<ReceivedChange>),
) {
    loop {
        match client.subscribe(subject.to_owned()).await {
            Ok(messages) => {
                let texts = messages.map(|message| message.payload);
                take_all(texts, (fleet, &changes)).await;
            }
            Err(error) => tracing::warn!(%error, "cannot subscribe to the fleet"),
        }
        sleep(MAX_DELAY).await;
    }
}

/// Takes each message as it comes, also while changes wait for a slow kernel or a slow disk: a heartbeat behind them would
/// be late, and its gateway would count as lost.
async fn take_all(
    texts: impl Stream<Item = Bytes>,
    (fleet, changes): (&Fleet, &Sender<ReceivedChange>),
) {
    let received = texts.filter_map(|text| ready(fleet.take(&text)));
    let queued = received.for_each(|change| {
        if let Err(TrySendError::Full(change) | TrySendError::Closed(change)) =
            changes.try_send(change)
        {
            fleet.give_up(change);
        }
        ready(())
    });
    queued.await;
}

/// Applies the changes that were taken.
async fn apply(changes: Receiver<ReceivedChange>, fleet: &Fleet) {
    let changes = stream::unfold(changes, async |mut changes| {
        let change = changes.recv().await?;
        Some((change, changes))
    });
    apply_all(changes, |change| fleet.apply(change)).await;
}

async fn send(client: &Client, subject: &str, message: Vec<u8>) {
    // A lost message is a number that the receivers miss.
    if let Err(error) = client.publish(subject.to_owned(), message.into()).await {
        tracing::debug!(%error, "cannot send to the fleet");
    }
}

async fn tick(fleet: &Fleet) {
    let mut ticks = interval(HEARTBEAT);
    loop {
        ticks.tick().await;
        fleet.tick();
    }
}

/// Tells the fleet what has happened to the connection.
fn report(fleet: &Fleet, logged: &LoggedErrors, event: &Event) {
    match event {
        Event::Connected => {
            tracing::info!("connected to the fleet");
            fleet.connected();
        }
        Event::Disconnected | Event::Closed => {
            tracing::warn!("the connection to the fleet is lost: ttl stands");
            fleet.disconnected();
        }
        Event::ServerError(error) if logged.is_due(error) => {
            tracing::warn!(%error, "the fleet's NATS reports an error");
        }
        Event::ClientError(error) if logged.is_due(error) => {
            tracing::warn!(%error, "the fleet's client reports an error");
        }
        Event::ServerError(_) | Event::ClientError(_) => {}
        // Missing numbers say what a slow consumer has lost.
        Event::SlowConsumer(_) | Event::LameDuckMode | Event::Draining => {}
    }
}

#[cfg(test)]
mod tests;
