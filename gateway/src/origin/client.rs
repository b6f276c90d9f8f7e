//! The client that an origin is asked for.
//!
//! The client is no part of what is asked and changes no answer: it decides which request waits. So it goes along with
//! the task, past every decorator, to where places are shared out ([`super::limit`]).

use crate::plan::Client;

tokio::task_local! {
    static CLIENT: Client;
}

/// Carries work out on behalf of a client. A task that it spawns is not part of it.
pub async fn on_behalf_of<T>(client: Client, work: impl Future<Output = T>) -> T {
    CLIENT.scope(client, work).await
}

/// The client that the polled task works for; the process itself where none was named.
#[must_use]
pub fn current() -> Client {
    CLIENT.try_with(|client| *client).unwrap_or_default()
}
