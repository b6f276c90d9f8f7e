//! The client on whose behalf an origin gets a request.
//!
//! The client changes neither the request nor its answer: it only decides which request waits. So the task carries it
//! past every decorator to the place where requests queue (`decorators::limit`).

use tidegate_plan::Client;

tokio::task_local! {
    static CLIENT: Client;
}

/// Runs work on behalf of a client. Tasks that it spawns do not inherit the client.
pub async fn run_for_client<T>(client: Client, work: impl Future<Output = T>) -> T {
    CLIENT.scope(client, work).await
}

/// Returns the client of the polled task; the process itself if the task has none.
#[must_use]
pub fn current() -> Client {
    CLIENT.try_with(|client| *client).unwrap_or_default()
}
