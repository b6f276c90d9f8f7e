//! A connection in memory, which is served as the accept loop serves it: with its watchdog, in paused time.

use super::*;
use crate::server::connection;
use tidegate_socket::Connection;

/// A connection that is served.
pub(super) struct SharedConnection {
    pub(super) handler: Arc<FakeHandler>,
    pub(super) context: Arc<ConnectionContext<FakeHandler>>,
    pub(super) shutdown: Shutdown,
    pub(super) task: JoinHandle<()>,
}

/// Serves the connection with answers of `size` bytes.
pub(super) fn served<S>(socket: S, size: usize, settings: Settings) -> SharedConnection
where
    S: Connection + Send + 'static,
{
    let metrics = Arc::new(Metrics::default());
    let handler = Arc::new(FakeHandler::new(size, metrics.clone()));
    let context = ConnectionContext::new(handler.clone(), settings.into(), metrics);
    let (context, shutdown) = (Arc::new(context), Shutdown::default());
    let place = context.crowding.add(Client::Local);
    let run = connection::run(
        context.clone(),
        socket,
        Peer::default(),
        place,
        shutdown.clone(),
    );
    SharedConnection {
        handler,
        context,
        shutdown,
        task: tokio::spawn(run),
    }
}

/// The limits that these tests judge by.
pub(super) fn limits() -> Settings {
    Settings {
        header_timeout: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(75),
        stall_timeout: Duration::from_secs(30),
        ..Settings::default()
    }
}

/// Lets all tasks run until they wait: paused time goes on only then.
pub(super) async fn all_wait() {
    sleep(Duration::from_millis(1)).await;
}
