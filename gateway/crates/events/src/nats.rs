//! Events by NATS: a plain subscription, or a durable consumer of a JetStream stream.
//!
//! A plain subscription is told only what is published while it is connected, so that each reconnect is a gap. A durable
//! consumer takes up where it stopped; it is a gap all the same, since the store's own publishing may have failed. What is
//! received and not yet applied is bounded: beyond it the client drops messages, and says so.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{ConnectOptions, Event, Message, ServerAddr};
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::metrics::GapReason;
use crate::subscription::{DeliverError, MAX_MESSAGE, Subscription};
use tidegate_outbound::{ClientError, Roots};

mod durable;
mod errors;
pub mod fleet;
mod sequence;

use errors::LoggedErrors;

/// The messages that wait for their turn, beyond those that are applied.
const MAX_QUEUED: usize = 1024;

/// The messages that are applied at once.
const AT_ONCE: usize = 64;

/// The pause before the first attempt after a failure; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_millis(100);

/// The longest pause between two attempts.
const MAX_DELAY: Duration = Duration::from_secs(10);

/// A server that does not answer for this long is left for another.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time between two checks that a silent server is there; the connection ends after two without an answer.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The servers, and what is asked of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsSettings {
    /// The servers of one cluster: `nats://host:port`, or `tls://…`.
    pub servers: Vec<String>,
    /// The subject of the events.
    pub subject: String,
    /// The durable consumer, if the events are kept in a stream.
    pub durable: Option<DurableSettings>,
    /// The credentials.
    pub auth: NatsAuth,
    /// The authorities for TLS, as PEM; those of the system if left out.
    pub authorities: Option<PathBuf>,
}

/// A durable consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurableSettings {
    /// The stream.
    pub stream: String,
    /// The consumer's name. Two gateways of one name share its messages, so that each misses some.
    pub consumer: String,
}

/// The credentials for the servers.
#[derive(Clone, PartialEq, Eq)]
pub enum NatsAuth {
    /// None.
    None,
    /// The content of a credentials file: a JWT and the seed of its key.
    Credentials(String),
    /// A user and a password.
    User {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Token(String),
}

impl fmt::Debug for NatsAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Credentials(_) => "Credentials(…)",
            Self::User { .. } => "User(…)",
            Self::Token(_) => "Token(…)",
        })
    }
}

/// Settings that NATS cannot be used with.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// A server's address cannot be read.
    #[error("`{0}` is no address of a NATS server, such as nats://127.0.0.1:4222")]
    Address(String),
    /// The credentials file cannot be read. Its content is not shown.
    #[error("the credentials are not those of a NATS credentials file")]
    Credentials,
    /// The authorities for TLS cannot be used.
    #[error("the authorities for TLS")]
    Authorities(#[from] ClientError),
}

/// Checks how servers are reached. Connects to none.
///
/// # Errors
/// An address, the credentials or the authorities cannot be read.
pub fn check(
    servers: &[String],
    auth: NatsAuth,
    authorities: Option<&PathBuf>,
) -> Result<(), NatsError> {
    addresses(servers)?;
    options(auth, authorities).map(drop)
}

/// A connection that has not begun.
#[derive(Debug)]
pub struct NatsReceiver {
    settings: NatsSettings,
    servers: Vec<ServerAddr>,
    options: ConnectOptions,
    subscription: Arc<Subscription>,
}

impl NatsReceiver {
    /// Checks the settings. Connects to nothing.
    ///
    /// # Errors
    /// An address, the credentials or the authorities cannot be read.
    pub fn new(settings: NatsSettings, subscription: Arc<Subscription>) -> Result<Self, NatsError> {
        Ok(Self {
            servers: addresses(&settings.servers)?,
            options: subscription_options(&settings, &subscription)?,
            subscription,
            settings,
        })
    }

    /// Receives until `stop` is cancelled. Servers that are away are tried again for ever.
    pub async fn run(self, stop: CancellationToken) {
        let name = self.subscription.settings().name.clone();
        let connected = self.options.connect(&self.servers[..]);
        let client = match stop.run_until_cancelled(connected).await {
            Some(Ok(client)) => client,
            Some(Err(error)) => {
                // With retries this is a setting that no server accepts, such as an unreadable certificate.
                tracing::error!(subscription = name, %error, "cannot connect to NATS");
                return;
            }
            None => return,
        };
        let mut attempts = 0;
        loop {
            let begun = Instant::now();
            let subject = &self.settings.subject;
            let received = match &self.settings.durable {
                None => {
                    let received = plain(&client, subject, &self.subscription);
                    stop.run_until_cancelled(received).await.unwrap_or(Ok(0))
                }
                Some(durable) => {
                    durable::receive(&client, (durable, subject), &self.subscription, &stop).await
                }
            };
            if stop.is_cancelled() {
                return;
            }
            // A durable consumer ends with an error, however long it has received.
            if matches!(received, Ok(1..)) || begun.elapsed() > MAX_DELAY {
                attempts = 0;
            }
            if let Err(error) = received {
                tracing::warn!(subscription = name, %error, "cannot receive from NATS");
            }
            self.subscription.gap(GapReason::Connection);
            stop.run_until_cancelled(sleep(delay(attempts))).await;
            attempts += 1;
        }
    }
}

/// Receives what is published on the subject; returns the number of messages when the subscription ends.
async fn plain(
    client: &async_nats::Client,
    subject: &str,
    subscription: &Arc<Subscription>,
) -> Result<u64, async_nats::Error> {
    let messages = client.subscribe(subject.to_owned()).await?;
    let received = apply_all(messages, |message: Message| async move {
        // A plain message cannot be sent again: a change that was not applied is a gap, which is counted.
        let _ = deliver(subscription, &message).await;
    });
    Ok(received.await)
}

/// Applies the messages, some at once; returns their number when they end.
async fn apply_all<T, F: Future<Output = ()>>(
    messages: impl Stream<Item = T>,
    apply: impl Fn(T) -> F,
) -> u64 {
    let mut count = 0;
    let counted = messages.inspect(|_| count += 1);
    counted.for_each_concurrent(AT_ONCE, apply).await;
    count
}

/// Delivers a message, and logs why it was not taken.
async fn deliver(subscription: &Subscription, message: &Message) -> Result<(), DeliverError> {
    let name = &*subscription.settings().name;
    if message.payload.len() > MAX_MESSAGE {
        tracing::warn!(
            subscription = name,
            "a message is too large, and was skipped"
        );
        subscription.gap(GapReason::Unreadable);
        return Ok(());
    }
    let delivered = subscription.deliver(&message.payload).await;
    delivered
        .inspect_err(|error| tracing::warn!(subscription = name, %error, "an event was not taken"))
}

/// Returns the pause before another attempt.
fn delay(attempts: u32) -> Duration {
    let factor = 1_u32.checked_shl(attempts).unwrap_or(u32::MAX);
    FIRST_DELAY.saturating_mul(factor).min(MAX_DELAY)
}

/// Returns the options of a connection, without a callback.
fn options(auth: NatsAuth, authorities: Option<&PathBuf>) -> Result<ConnectOptions, NatsError> {
    let options = ConnectOptions::new();
    let options = match auth {
        NatsAuth::None => options,
        // The client reads whole lines, and the text of a secret ends without one.
        NatsAuth::Credentials(text) => options
            .credentials(&format!("{text}\n"))
            .map_err(|_| NatsError::Credentials)?,
        NatsAuth::User { user, password } => options.user_and_password(user, password),
        NatsAuth::Token(token) => options.token(token),
    };
    let options = match authorities {
        Some(path) => {
            // The client reads them at each connection, and names no file then.
            Roots::File(path.clone()).check()?;
            options.add_root_certificates(path.clone())
        }
        None => options,
    };
    Ok(options
        .name("tidegate")
        .retry_on_initial_connect()
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .subscription_capacity(MAX_QUEUED))
}

fn subscription_options(
    settings: &NatsSettings,
    subscription: &Arc<Subscription>,
) -> Result<ConnectOptions, NatsError> {
    let (told, logged) = (subscription.clone(), LoggedErrors::default());
    Ok(
        options(settings.auth.clone(), settings.authorities.as_ref())?
            .reconnect_delay_callback(|attempts| delay(u32::try_from(attempts).unwrap_or(u32::MAX)))
            .event_callback(move |event| {
                report(&told, &logged, &event);
                std::future::ready(())
            }),
    )
}

/// Reads the addresses of servers.
fn addresses(servers: &[String]) -> Result<Vec<ServerAddr>, NatsError> {
    let read = |text: &String| {
        let wrong = |_| NatsError::Address(text.clone());
        text.parse::<ServerAddr>().map_err(wrong)
    };
    servers.iter().map(read).collect()
}

/// Tells the subscription what has happened to the connection.
fn report(subscription: &Subscription, logged: &LoggedErrors, event: &Event) {
    let name = &*subscription.settings().name;
    match event {
        Event::Connected => {
            tracing::info!(subscription = name, "connected to NATS");
            subscription.connected();
        }
        Event::Disconnected => {
            tracing::warn!(subscription = name, "the connection to NATS is lost");
            subscription.disconnected();
        }
        // At the end of the subscription.
        Event::Closed => subscription.disconnected(),
        Event::SlowConsumer(_) => subscription.gap(GapReason::Overflow),
        Event::ServerError(error) if logged.is_due(error) => {
            tracing::warn!(subscription = name, %error, "NATS reports an error");
        }
        Event::ClientError(error) if logged.is_due(error) => {
            tracing::warn!(subscription = name, %error, "NATS: the client reports an error");
        }
        Event::ServerError(_) | Event::ClientError(_) => {}
        Event::LameDuckMode | Event::Draining => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_ever_further_apart() {
        let delays = [0, 1, 2, 6, 7, 31, 32, 1000].map(|attempts| delay(attempts).as_millis());
        assert_eq!(
            delays,
            [100, 200, 400, 6400, 10_000, 10_000, 10_000, 10_000]
        );
    }

    #[test]
    fn a_credentials_file_is_read_with_and_without_its_last_line_end() {
        let file = include_str!("../fixtures/nats/gate.creds");
        for (text, is_right) in [
            (file, true),
            (file.trim_end(), true),
            ("x", false),
            ("", false),
        ] {
            let auth = NatsAuth::Credentials(text.to_owned());
            assert_eq!(check(&[], auth, None).is_ok(), is_right, "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let secrets = [
            NatsAuth::Credentials("s3cret".to_owned()),
            NatsAuth::Token("s3cret".to_owned()),
            NatsAuth::User {
                user: "u".to_owned(),
                password: "s3cret".to_owned(),
            },
        ];
        assert!(!format!("{secrets:?}").contains("s3cret"));
    }
}
